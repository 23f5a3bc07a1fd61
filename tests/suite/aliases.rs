//! Every call to the driver can be found under the name that CUDA gives it.

use std::{collections::BTreeSet, fs, path::Path};

use cupool_sim::Symbol;

use crate::surface;

/// Calls that stand behind others of another name, and are never what somebody looks for.
const NOT_LOOKED_FOR: &[&str] = &["cuDeviceGetUuid_v2", "cuMemcpyAsync", "cuThreadExchangeStreamCaptureMode"];

/// Entry points of the table that no method reaches, and why. The simulated driver has them all; who needs one calls it
/// through `Driver::functions`.
const NOT_OFFERED: &[(&str, &str)] = &[
    ("cuGetErrorName", "errors print without the driver"),
    ("cuGetErrorString", "errors print without the driver"),
    ("cuDevicePrimaryCtxReset", "it takes away what others in the process hold"),
    ("cuCtxSetCurrent", "`Context::with_current` restores what was current"),
    ("cuStreamCreate", "it is `Stream::new`, which asks for a priority of 0 and does the same"),
    ("cuMemAlloc", "it waits for the device to free; stream-ordered memory is what this crate is for"),
    ("cuMemGetAddressRange", "`pointer_info` says the same, and an unknown address is no error there"),
    ("cuMemSetMemPool", "what allocates without naming a pool asks for a device's; see `MemPool::make_current`"),
    ("cuMemcpyBatchAsync", "it reads pageable sources later than its documentation says"),
    ("cuLibraryLoadData", "modules do the same on every driver"),
    ("cuLibraryUnload", "modules do the same on every driver"),
    ("cuLibraryGetKernel", "modules do the same on every driver"),
    ("cuKernelGetFunction", "modules do the same on every driver"),
];

struct Names {
    /// Calls in `src/raw`.
    calls: BTreeSet<String>,
    aliases: BTreeSet<String>,
    /// Aliases of calls newer than the oldest driver, in documentation that does not say so.
    undated: Vec<String>,
}

fn names() -> Names {
    let mut names = Names { calls: BTreeSet::new(), aliases: BTreeSet::new(), undated: Vec::new() };
    read(&surface::sources(), &mut |path, text| {
        let (mut comment, mut here) = (String::new(), Vec::new());
        for line in text.lines().map(str::trim_start) {
            if let Some(text) = line.strip_prefix("///") {
                comment.push_str(text);
            } else if let Some(alias) = line.strip_prefix("#[doc(alias = \"").and_then(|rest| rest.strip_suffix("\")]"))
            {
                names.aliases.insert(alias.to_owned());
                here.push(alias.to_owned());
            } else if !line.starts_with("#[") {
                names.undated.extend(here.drain(..).filter(|alias| is_undated(alias, &comment)));
                comment.clear();
            }
            if path.parent().is_some_and(|folder| folder.ends_with("raw"))
                && let Some((_, call)) = line.split_once("call!(")
                && let Some((_, name)) = call.split_once(", cu")
            {
                let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                names.calls.insert(format!("cu{name}"));
            }
        }
    });
    assert!(names.calls.len() > 50, "{:?}", names.calls);
    names.calls.remove("cuX");
    names
}

/// Whether the call is newer than CUDA 11.3, and the comment does not say since when it is there.
fn is_undated(alias: &str, comment: &str) -> bool {
    let since = Symbol::ALL.iter().filter(|symbol| symbol.row() == alias).map(|symbol| symbol.since()).next();
    since.is_some_and(|since| {
        since > 11030 && !comment.contains(&format!("CUDA {}.{}", since / 1000, since % 1000 / 10))
    })
}

#[test]
fn every_call_that_is_made_is_an_alias_in_the_documentation() {
    let Names { calls, aliases, .. } = names();
    let missing: Vec<_> =
        calls.iter().filter(|call| !aliases.contains(*call) && !NOT_LOOKED_FOR.contains(&call.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_entry_point_is_reached_by_a_documented_method_or_left_out_for_a_reason() {
    let Names { calls, aliases, .. } = names();
    for symbol in Symbol::ALL {
        let row = symbol.row();
        let reached = calls.contains(row) && (aliases.contains(row) || NOT_LOOKED_FOR.contains(&row));
        let left_out = NOT_OFFERED.iter().any(|(name, _)| *name == row);
        assert!(reached != left_out, "{row}: reached {reached}, left out {left_out}");
    }
    for (name, _) in NOT_OFFERED {
        assert!(Symbol::ALL.iter().any(|symbol| symbol.row() == *name), "{name} is no entry point");
    }
}

#[test]
fn documentation_says_since_when_a_newer_call_is_there() {
    let undated = names().undated;
    assert!(undated.is_empty(), "{undated:?}");
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
