//! Every call to the driver can be found under the name that CUDA gives it.

use std::{collections::BTreeSet, fs, path::Path};

use crate::surface;

/// Calls that stand behind others of another name, and are never what somebody looks for.
const NOT_LOOKED_FOR: &[&str] = &["cuDeviceGetUuid_v2", "cuThreadExchangeStreamCaptureMode"];

#[test]
fn every_call_that_is_made_is_an_alias_in_the_documentation() {
    let (mut calls, mut aliases) = (BTreeSet::new(), BTreeSet::new());
    read(&surface::sources(), &mut |path, text| {
        for line in text.lines().map(str::trim_start) {
            if let Some(alias) = line.strip_prefix("#[doc(alias = \"").and_then(|rest| rest.strip_suffix("\")]")) {
                aliases.insert(alias.to_owned());
            }
            if path.parent().is_some_and(|folder| folder.ends_with("raw"))
                && let Some((_, call)) = line.split_once("call!(")
                && let Some((_, name)) = call.split_once(", cu")
            {
                let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                calls.insert(format!("cu{name}"));
            }
        }
    });
    assert!(calls.len() > 50, "{calls:?}");
    calls.remove("cuX");
    let missing: Vec<_> =
        calls.iter().filter(|call| !aliases.contains(*call) && !NOT_LOOKED_FOR.contains(&call.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn read(folder: &Path, look: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, look);
        } else {
            look(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}
