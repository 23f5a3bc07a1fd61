//! Where a figure comes from: fields between semicolons, namely
//!
//! - the folder in `benches/results/`, the bench, and who it was (`rmm`, or `rmm, pool` in a setting of that name),
//! - parameters (`bytes=10`), all of them; `source=benches/alloc_free.rs` where several programs measured the same,
//! - `low`, `high` or `ratio` where that is meant, and not the median; `by cudarc, kept`: divided by theirs,
//! - how it is written: `2 digits` with its unit, `2 digits of µs` without.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

use crate::{
    fixture,
    written::{self, Form},
};

/// What was measured, by the folder that it is in.
pub(crate) struct Results(BTreeMap<String, Value>);

impl Results {
    pub(crate) fn committed(folder: &Path) -> Self {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if let Ok(text) = fs::read_to_string(path.join("results.json")) {
                found.insert(name, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}")));
            }
        }
        Self(found)
    }

    pub(crate) fn of(folder: &str, text: &str) -> Self {
        Self(BTreeMap::from([(folder.to_owned(), serde_json::from_str(text).unwrap())]))
    }

    pub(crate) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The figure as it must be written, or what is wrong with the query.
    pub(crate) fn figure(&self, query: &str) -> Result<String, String> {
        let mut fields = query.split(';').map(str::trim);
        let mut next = |what: &str| fields.next().filter(|field| !field.is_empty()).ok_or(format!("no {what}"));
        let (folder, bench, who) = (next("folder")?, next("bench")?, next("who")?);
        let all = self.0.get(folder).ok_or(format!("no results in benches/results/{folder}"))?;
        let lines = all.get("results").and_then(Value::as_array).ok_or("no list of results")?;
        let (mut parameters, mut by, mut part, mut form) = (Vec::new(), None, "value", None);
        for field in fields {
            if let Some(parameter) = field.split_once('=') {
                parameters.push(parameter);
            } else if let Some(other) = field.strip_prefix("by ") {
                by = Some(other);
            } else if ["low", "high", "ratio"].contains(&field) {
                part = field;
            } else {
                form = Some(Form::parse(field)?);
            }
        }
        let find = |who: &str| {
            let found: Vec<&Value> = lines.iter().filter(|line| is_of(line, bench, who, &parameters)).collect();
            match found[..] {
                [one] => Ok(one),
                [] => Err(format!("{bench} of {who} finds nothing")),
                _ => Err(format!("{bench} of {who} finds {} results; name a source", found.len())),
            }
        };
        let line = find(who)?;
        let number = |line: &Value, part: &str| {
            let number = line.get(part).and_then(Value::as_f64).filter(|number| number.is_finite());
            number.ok_or(format!("the result has no {part}"))
        };
        let unit = line.get("unit").and_then(Value::as_str).ok_or("the result has no unit")?;
        let (value, unit) = match by {
            Some(other) => (number(line, part)? / number(find(other)?, "value")?, "×"),
            None if part == "ratio" => (number(line, part)?, "×"),
            None => (number(line, part)?, unit),
        };
        written::figure(value, unit, &form.ok_or("no number of digits")?)
    }
}

fn is_of(line: &Value, bench: &str, who: &str, parameters: &[(&str, &str)]) -> bool {
    let (who, setting) = who.split_once(", ").unwrap_or((who, "as it comes"));
    let text = |name: &str| line.get(name).and_then(Value::as_str);
    let is = |value: &Value, wanted: &str| match value {
        Value::String(text) => text == wanted,
        Value::Number(number) => number.to_string() == wanted,
        _ => false,
    };
    let of_line = line.get("parameters").and_then(Value::as_object);
    let named = parameters.iter().filter(|(name, _)| *name != "source");
    let all_named = of_line.map_or(0, serde_json::Map::len) == named.clone().count();
    let mut same = named.map(|(name, wanted)| of_line.and_then(|of| of.get(*name)).is_some_and(|it| is(it, wanted)));
    let source = parameters.iter().find(|(name, _)| *name == "source").map(|(_, source)| *source);
    (text("bench"), text("who"), text("setting")) == (Some(bench), Some(who), Some(setting))
        && line.get("value").is_some()
        && all_named
        && same.all(|same| same)
        && (source.is_none() || text("source") == source)
}

#[test]
fn a_query_names_one_result() {
    let results = fixture();
    let figure = |query: &str| results.figure(query);
    let found = |text: &str| Ok(text.to_owned());
    assert_eq!(figure("gpu; pair; cupool; bytes=10; 2 digits"), found("1.7 µs"));
    assert_eq!(figure("gpu; pair; cupool, as it comes; bytes=10; high; 3 digits"), found("1.75 µs"));
    assert_eq!(figure("gpu; pair; cupool; bytes=10; ratio; 4 digits"), found("1.004×"));
    assert_eq!(figure("gpu; pair; cudarc; bytes=10; by cupool; 2 digits"), found("57×"));
    assert_eq!(figure("gpu; pair; cupool; bytes=10; by rmm, cuda_async, device_buffer; 2 digits"), found("1.7×"));
    assert_eq!(figure("gpu; pair; rmm, pool; bytes=10; source=b.rs; 2 digits"), found("130 ns"));
    assert_eq!(figure("gpu; trace; cupool; trace=gpt; 2 digits"), found("3.0 GiB"));
}

#[test]
fn a_query_that_names_none_or_several_is_an_error() {
    let results = fixture();
    let error = |query: &str| results.figure(query).unwrap_err();
    assert_eq!(error("other; pair; cupool; bytes=10; 2 digits"), "no results in benches/results/other");
    assert_eq!(error("gpu; pair; cupool; bytes=11; 2 digits"), "pair of cupool finds nothing");
    assert_eq!(error("gpu; pair; cupool; 2 digits"), "pair of cupool finds nothing");
    assert_eq!(error("gpu; pair; torch; bytes=10; 2 digits"), "pair of torch finds nothing");
    assert_eq!(error("gpu; pair; rmm, pool; bytes=10; 2 digits"), "pair of rmm, pool finds 2 results; name a source");
    assert_eq!(error("gpu; pair; cudarc; bytes=10; ratio; 2 digits"), "the result has no ratio");
    assert_eq!(error("gpu; pair; cupool; bytes=10"), "no number of digits");
    assert_eq!(error("gpu; pair; cupool; bytes=10; 2 figures"), "\"2 figures\" is no way to write a figure");
    assert_eq!(error("gpu; pair"), "no who");
}
