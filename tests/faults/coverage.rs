//! Between them the scenarios make every call that the crate can make.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use super::{scenarios, sweep};

/// Calls that only a driver too old for their newer forms gets.
const OLDER: [&str; 3] = ["cuDeviceGetUuid", "cuMemAdvise", "cuMemPrefetchAsync"];

/// The entry points that the crate's sources call.
fn called_by_the_crate() -> BTreeSet<String> {
    let here = || Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folder = env::var_os("CUPOOL_SOURCES").map_or_else(here, PathBuf::from).join("raw");
    let mut called = BTreeSet::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if cfg!(not(feature = "launch")) && path.ends_with("module.rs") {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for call in line.split("call!(").skip(1) {
                let name = call.split_once("functions, ").or_else(|| call.split_once("self.0, ")).map(|(_, name)| name);
                let name: String = name.unwrap_or("").chars().take_while(char::is_ascii_alphanumeric).collect();
                called.extend(name.starts_with("cu").then_some(name));
            }
        }
    }
    called
}

#[test]
fn every_call_of_the_crate_is_made_by_a_scenario() {
    let made: BTreeSet<String> =
        scenarios::all().iter().flat_map(sweep::calls_of).map(|symbol| format!("{symbol:?}")).collect();
    let called = called_by_the_crate();
    assert!(called.len() > 40, "the sources are written in another way: {called:?}");
    let missing: Vec<&String> = called.difference(&made).filter(|name| !OLDER.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
