//! What the README promises is tested where it says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{fs, path::Path};

/// `(file, test)` for each link to a test: `…/blob/main/FILE.rs "TEST"`.
fn links(text: &str) -> Vec<(&str, &str)> {
    let rest = text.split("/blob/main/").skip(1);
    rest.filter_map(|link| link.split_once(')')?.0.split_once(" \""))
        .map(|(file, test)| (file, test.trim_matches('"')))
        .collect()
}

#[test]
fn every_tick_leads_to_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let links = links(&readme);
    for (file, test) in &links {
        let source = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(
            source.contains(&format!("#[test]\nfn {test}(")) || source.contains(&format!("\nfn {test}(")),
            "{file} has no test {test}"
        );
    }
    // Every row of the table has one.
    let rows =
        readme.lines().filter(|line| line.starts_with("| ") && (line.contains('✔') || line.contains("1 / 1"))).count();
    assert!(rows > 50, "the table is written in another way");
    assert!(links.len() >= rows, "{} links in {rows} rows", links.len());
}
