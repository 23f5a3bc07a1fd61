//! Result lines: what was measured, as JSON, one object a line, at the end of the file that an environment variable
//! names.

use std::{fs::OpenOptions, io::Write};

use serde_json::{Map, Value, json};

/// Names the file.
const VARIABLE: &str = "CUPOOL_BENCH_RECORD";

/// Where result lines go, if anywhere.
pub(crate) struct Record {
    file: Option<std::path::PathBuf>,
}

impl Record {
    pub(crate) fn from_environment() -> Self {
        Self { file: std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(Into::into) }
    }

    /// Keeps nothing: what is simulated is no result.
    pub(crate) const fn nowhere() -> Self {
        Self { file: None }
    }

    pub(crate) fn line(&self, line: &Value) {
        let Some(file) = &self.file else { return };
        let appended = OpenOptions::new().append(true).create(true).open(file);
        // One write, so that lines of several programs do not mix.
        if let Err(error) = appended.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())) {
            println!("{}: {error}", file.display());
            std::process::exit(1);
        }
    }
}

/// The line that says where all others were measured.
pub(crate) fn machine(device: &cupool::Device) -> cupool::Result<Value> {
    let version = device.driver().version()?;
    let mut parameters = Map::new();
    parameters.insert("gpu".into(), device.name()?.into());
    parameters.insert("cuda".into(), format!("{}.{}", version / 1000, version % 1000 / 10).into());
    if let Some(driver) = driver_release() {
        parameters.insert("driver".into(), driver.into());
    }
    if let Some(cpu) = cpu() {
        parameters.insert("cpu".into(), cpu.into());
    }
    parameters.insert("date".into(), jiff::Timestamp::now().strftime("%Y-%m-%d").to_string().into());
    parameters.insert("versions".into(), json!({ "cupool": env!("CARGO_PKG_VERSION") }));
    Ok(json!({ "bench": "machine", "parameters": parameters }))
}

/// Such as `580.159.04`, where Linux tells.
fn driver_release() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let is_release = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.lines().next()?.split_whitespace().find(is_release).map(Into::into)
}

fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split(':').nth(1).map(|name| name.trim().into())
}
