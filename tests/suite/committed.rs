//! Tables that tests make and users read: committed, and compared with what a test finds. With `CUPOOL_BLESS=1` they are
//! written anew.

use std::{env, fs, path::Path};

/// `found` must be what was committed, which `path` names in the repository.
#[track_caller]
pub(crate) fn assert_same(path: &str, committed: &str, found: &str) {
    if env::var_os("CUPOOL_BLESS").is_some_and(|value| value == "1") {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(path), found).unwrap();
        return;
    }
    let changes = changes(committed, found);
    assert!(changes.is_empty(), "{path} is no longer so; CUPOOL_BLESS=1 writes it anew:\n{}", changes.join("\n"));
}

/// Lines that only one of them has.
fn changes(committed: &str, found: &str) -> Vec<String> {
    let only = |sign: char, of: &str, other: &str| -> Vec<String> {
        let missing = of.lines().filter(|line| !other.lines().any(|of_other| of_other == *line));
        missing.map(|line| format!("{sign} {line}")).collect()
    };
    let mut changes = [only('-', committed, found), only('+', found, committed)].concat();
    if changes.is_empty() && !committed.lines().eq(found.lines()) {
        changes.push("the same lines in another order".to_owned());
    }
    changes
}

#[test]
fn what_changed_is_told() {
    assert_eq!(changes("a\nb\n", "a\nb\n"), Vec::<String>::new());
    assert_eq!(changes("a\nb\nc\n", "a\nB\nc\n"), ["- b", "+ B"]);
    assert_eq!(changes("a\nb\n", "b\na\n"), ["the same lines in another order"]);
    assert_eq!(changes("a\na\n", "a\n"), ["the same lines in another order"]);
}
