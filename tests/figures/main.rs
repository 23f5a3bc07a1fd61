//! Every figure that the documents claim is what the committed results give.
//!
//! A figure stands between two comments, the first of which says where it comes from (`query.rs`):
//!
//! ```text
//! <!-- figure: h200; alloc_free_sync; cupool; bytes=10; 2 digits -->1.7 µs<!-- end -->
//! ```
//!
//! With `CUPOOL_BLESS=1` the documents are written anew with what the results give.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test's own functions, as in its `#[test]` functions, a surprise ends the test"
)]

mod marks;
mod query;
mod written;

use std::{env, fs, path::Path};

use query::Results;

/// Documents with figures. In the first, every figure with a unit of time must be one.
const DOCUMENTS: [&str; 2] = ["README.md", "benches/README.md"];

#[test]
fn every_figure_is_what_the_results_give() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let results = Results::committed(&root.join("benches/results"));
    let bless = env::var_os("CUPOOL_BLESS").is_some_and(|value| value == "1");
    let mut complaints = Vec::new();
    for (at, document) in DOCUMENTS.into_iter().enumerate() {
        let path = root.join(document);
        let text = fs::read_to_string(&path).unwrap();
        if bless {
            fs::write(&path, marks::refreshed(&text, &results)).unwrap();
            continue;
        }
        let mut found = marks::complaints(&text, &results);
        // Before anything was committed, no figure could be marked.
        if at == 0 && !results.are_none() {
            found.extend(marks::unmarked(&text));
        }
        complaints.extend(found.into_iter().map(|complaint| format!("{document}:{complaint}")));
    }
    assert!(complaints.is_empty(), "CUPOOL_BLESS=1 writes what the results give:\n{}", complaints.join("\n"));
}

/// Made up, for the tests of the tests.
fn fixture() -> Results {
    Results::of(
        "gpu",
        r#"{"machine": {"gpu": "GPU"}, "results": [
            {"bench": "pair", "who": "cupool", "setting": "as it comes", "parameters": {"bytes": 10}, "unit": "ns",
             "value": 1723.4, "low": 1700.0, "high": 1750.0, "against": "raw", "ratio": 1.0042, "source": "a.rs"},
            {"bench": "pair", "who": "cudarc", "setting": "as it comes", "parameters": {"bytes": 10}, "unit": "ns",
             "value": 97862.0, "source": "a.rs"},
            {"bench": "pair", "who": "rmm", "setting": "cuda_async, device_buffer", "parameters": {"bytes": 10},
             "unit": "ns", "value": 996.0, "source": "a.rs"},
            {"bench": "pair", "who": "rmm", "setting": "pool", "parameters": {"bytes": 10}, "unit": "ns", "value": 120.0,
             "source": "a.rs"},
            {"bench": "pair", "who": "rmm", "setting": "pool", "parameters": {"bytes": 10}, "unit": "ns", "value": 130.0,
             "source": "b.rs"},
            {"bench": "trace", "who": "cupool", "setting": "as it comes", "parameters": {"trace": "gpt"},
             "unit": "bytes", "value": 3221225472}
        ]}"#,
    )
}
