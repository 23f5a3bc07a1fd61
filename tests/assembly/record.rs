//! Keeps what was counted at the end of the file that `CUPOOL_BENCH_RECORD` names, if it names one.

use std::{fs::OpenOptions, io::Write};

use serde_json::json;

#[allow(clippy::expect_used, reason = "a program for tests")]
pub(crate) fn lines(operation: &str, raw: u64, ours: u64) {
    let Some(path) = std::env::var_os("CUPOOL_BENCH_RECORD").filter(|path| !path.is_empty()) else { return };
    let mut file = OpenOptions::new().append(true).create(true).open(path).expect("a file that can be written");
    for (who, value) in [("raw", raw), ("cupool", ours)] {
        let line = json!({
            "bench": "instructions",
            "who": who,
            "setting": "as it comes",
            "parameters": { "what": operation },
            "unit": "instructions",
            "value": value,
            "source": "tests/assembly",
        });
        file.write_all(format!("{line}\n").as_bytes()).expect("a file that can be written");
    }
}
