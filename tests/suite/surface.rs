//! The public operations and types, as the sources declare them.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

/// `Type::function` for each public function of a type, and the name alone for one of none.
pub(crate) fn operations() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    read(&sources(), &mut |text| parse(text, &mut found));
    found
}

/// The names of all public types.
pub(crate) fn types() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    read(&sources(), &mut |text| found.extend(text.lines().filter_map(public_type).map(str::to_owned)));
    found
}

/// The crate's sources: where they were built, or a copy elsewhere.
pub(crate) fn sources() -> PathBuf {
    env::var_os("CUPOOL_SOURCES").map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), PathBuf::from)
}

/// Shows `parse` each file.
fn read(folder: &Path, parse: &mut dyn FnMut(&str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap();
        // The driver's calls themselves, and what only some builds have.
        let skipped = ["raw", "sync.rs"].contains(&name)
            || (name == "launch" && cfg!(not(feature = "launch")))
            || (name == "dlpack" && cfg!(not(feature = "dlpack")));
        if skipped {
            continue;
        }
        if path.is_dir() {
            read(&path, parse);
        } else {
            parse(&fs::read_to_string(&path).unwrap());
        }
    }
}

fn parse(text: &str, found: &mut BTreeSet<String>) {
    let mut owner = None;
    for line in text.lines() {
        let code = line.trim_start();
        if let Some(rest) = code.strip_prefix("impl") {
            owner = type_of(rest);
        } else if line == "}" {
            owner = None;
        } else if let Some(name) = public_function(code) {
            match owner {
                // The macro's name for both kinds of view.
                Some("$view") => found.extend(["DeviceSlice", "DeviceSliceMut"].map(|of| format!("{of}::{name}"))),
                Some(owner) => drop(found.insert(format!("{owner}::{name}"))),
                None => drop(found.insert(name.to_owned())),
            }
        } else if let Some((name, _)) =
            code.split_once(" = CU_DEVICE_ATTRIBUTE").and_then(|(row, _)| row.split_once(": "))
        {
            found.insert(format!("Device::{name}"));
        } else if let Some((get, set)) = code.trim_end_matches(':').split_once(", set_")
            && get.starts_with("reuse_")
        {
            let set = set.split(':').next().unwrap_or(set);
            found.extend([format!("MemPool::{get}"), format!("MemPool::set_{set}")]);
        }
    }
}

/// The type of an `impl` block that is no trait's; `rest` is what follows the word.
fn type_of(rest: &str) -> Option<&str> {
    if rest.contains(" for ") {
        return None;
    }
    let mut depth = 0;
    let generics = rest.char_indices().find(|(_, character)| {
        depth += i32::from(*character == '<') - i32::from(*character == '>');
        depth == 0
    });
    let of = rest[generics.map_or(0, |(at, _)| at + 1)..].trim_start();
    Some(&of[..of.find(['<', ' ']).unwrap_or(of.len())])
}

fn public_function(code: &str) -> Option<&str> {
    let mut rest = code.strip_prefix("pub ")?;
    for word in ["const ", "unsafe "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    let name = &name[..name.find(['(', '<'])?];
    (!name.starts_with('$')).then_some(name)
}

fn public_type(line: &str) -> Option<&str> {
    let rest = ["pub struct ", "pub enum ", "pub union "].iter().find_map(|words| line.strip_prefix(words))?;
    Some(&rest[..rest.find(['<', '(', ';', ' '])?])
}

#[test]
fn types_are_recognised() {
    let found = |line| public_type(line);
    assert_eq!(found("pub struct Thing<'a, T: Pod> {"), Some("Thing"));
    assert_eq!(found("pub struct Pair(u8);"), Some("Pair"));
    assert_eq!(found("pub enum Choice {"), Some("Choice"));
    assert_eq!(found("pub(crate) struct Hidden;"), None);
    assert_eq!(found("    pub struct InsideAFunction;"), None);
    assert!(types().len() > 40, "{:?}", types());
}

#[test]
fn declarations_are_recognised() {
    let mut found = BTreeSet::new();
    parse(
        "impl<'a, T: Pod> Thing<'a, T> {\n    pub const unsafe fn make<U>(self) {}\n    fn hidden() {}\n}\n\
         impl Drop for Thing {\n    fn drop(&mut self) {}\n}\npub fn free() {}\npub(crate) fn inner() {}\n\
         macro_rules! x {\n        impl<T> $view<T> {\n            pub fn len(&self) {}\n}\n    \
         warp_size: count = CU_DEVICE_ATTRIBUTE_WARP_SIZE;\n    reuse_this, set_reuse_this:\n",
        &mut found,
    );
    let expected = [
        "Device::warp_size",
        "DeviceSlice::len",
        "DeviceSliceMut::len",
        "MemPool::reuse_this",
        "MemPool::set_reuse_this",
        "Thing::make",
        "free",
    ];
    assert!(found.iter().eq(expected), "{found:?}");
    assert!(operations().len() > 150, "{}", operations().len());
}
