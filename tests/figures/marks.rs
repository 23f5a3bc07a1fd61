//! Figures in a text: those that are marked, and those that are not.

use crate::{fixture, query::Results};

const BEGIN: &str = "<!-- figure: ";
const MIDDLE: &str = " -->";
const END: &str = "<!-- end -->";
const UNITS: [&str; 4] = ["ns", "µs", "ms", "×"];

/// A part of a text.
enum Part<'a> {
    Plain(&'a str),
    Figure {
        query: &'a str,
        text: &'a str,
    },
    /// A mark that is begun, and not ended in its line.
    Broken(&'a str),
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let (mut found, mut done, mut from) = (Vec::new(), 0, 0);
    while let Some(at) = text[from..].find(BEGIN).map(|at| from + at) {
        from = at + BEGIN.len();
        if is_in_code(&text[..at]) {
            continue;
        }
        found.push(Part::Plain(&text[done..at]));
        let line = text[from..].lines().next().unwrap_or("");
        let marked = line.split_once(MIDDLE).and_then(|(query, rest)| Some((query, rest.split_once(END)?.0)));
        if let Some((query, figure)) = marked {
            found.push(Part::Figure { query, text: figure });
            from += query.len() + MIDDLE.len() + figure.len() + END.len();
        } else {
            found.push(Part::Broken(line));
            from += line.len();
        }
        done = from;
    }
    found.push(Part::Plain(&text[done..]));
    found
}

/// Whether a block of code, which shows how a mark looks, is open at the end.
fn is_in_code(text: &str) -> bool {
    text.lines().filter(|line| line.starts_with("```")).count() % 2 == 1
}

/// The text with what the results give. What they do not give stays.
pub(crate) fn refreshed(text: &str, results: &Results) -> String {
    let written = parts(text).into_iter().map(|part| match part {
        Part::Plain(text) => text.to_owned(),
        Part::Broken(line) => format!("{BEGIN}{line}"),
        Part::Figure { query, text } => {
            let figure = results.figure(query).unwrap_or_else(|_| text.to_owned());
            format!("{BEGIN}{query}{MIDDLE}{figure}{END}")
        }
    });
    written.collect()
}

/// What is wrong with the figures that are marked, each with the line that it is in.
pub(crate) fn complaints(text: &str, results: &Results) -> Vec<String> {
    let (mut found, mut line, mut last) = (Vec::new(), 1, "");
    for part in parts(text) {
        let complaint = match part {
            Part::Plain(text) => {
                line += text.matches('\n').count();
                last = text;
                continue;
            }
            Part::Broken(line) => Some(format!("a figure without end: {line}")),
            // Markdown takes the rest of such a line for HTML.
            Part::Figure { .. } if last.is_empty() || last.ends_with('\n') => Some("a figure begins the line".into()),
            Part::Figure { query, text } => match results.figure(query) {
                Ok(figure) if figure == text => None,
                Ok(figure) => Some(format!("{text:?} stands where the results give {figure:?} ({query})")),
                Err(error) => Some(format!("{error} ({query})")),
            },
        };
        found.extend(complaint.map(|complaint| format!("{line}: {complaint}")));
        last = "…";
    }
    found
}

/// Numbers with a unit of time, or of how many times, that are not marked.
pub(crate) fn unmarked(text: &str) -> Vec<String> {
    let plain: String = parts(text)
        .into_iter()
        .map(|part| match part {
            Part::Plain(text) => text,
            // Keeps apart what stands around it.
            Part::Figure { .. } | Part::Broken(_) => "…",
        })
        .collect();
    let mut found = Vec::new();
    for (at, line) in plain.lines().enumerate() {
        for unit in UNITS {
            for (begin, _) in line.match_indices(unit) {
                let (before, after) = (&line[..begin], &line[begin + unit.len()..]);
                let number = before.trim_end_matches([' ', '\u{a0}', '\u{202f}']);
                if number.ends_with(|c: char| c.is_ascii_digit()) && !after.starts_with(char::is_alphanumeric) {
                    let number = number.rsplit(|c: char| !(c.is_ascii_digit() || ".,".contains(c))).next();
                    found.push(format!("{}: {} {unit} is not marked", at + 1, number.unwrap_or("")));
                }
            }
        }
    }
    found
}

const FRESH: &str = "A pair takes <!-- figure: gpu; pair; cupool; bytes=10; 2 digits -->1.7 µs<!-- end -->,\n\
                     one <!-- figure: gpu; pair; cudarc; bytes=10; by cupool; 2 digits -->57×<!-- end --> as much.\n";

#[test]
fn a_fresh_figure_passes_and_a_stale_one_does_not() {
    let results = fixture();
    assert_eq!(complaints(FRESH, &results), Vec::<String>::new());
    let stale = FRESH.replace("57×", "56×");
    assert_eq!(
        complaints(&stale, &results),
        ["2: \"56×\" stands where the results give \"57×\" (gpu; pair; cudarc; bytes=10; by cupool; 2 digits)"]
    );
    assert_eq!(refreshed(&stale, &results), FRESH);
}

#[test]
fn a_mark_that_finds_nothing_is_told_and_left() {
    let results = fixture();
    let text = FRESH.replace("bytes=10; 2", "bytes=99; 2");
    assert_eq!(
        complaints(&text, &results),
        ["1: pair of cupool finds nothing (gpu; pair; cupool; bytes=99; 2 digits)"]
    );
    assert_eq!(refreshed(&text, &results), text);
}

#[test]
fn a_mark_without_end_and_one_that_begins_a_line_are_told() {
    let results = fixture();
    let endless = FRESH.replacen("<!-- end -->", "", 1);
    assert!(complaints(&endless, &results).iter().any(|it| it.starts_with("1: a figure without end")), "{endless}");
    assert_eq!(refreshed(&endless, &results), endless);
    let first = FRESH.replace("one <", "<");
    assert_eq!(complaints(&first, &results), ["2: a figure begins the line"]);
}

#[test]
fn a_mark_in_a_block_of_code_is_an_example() {
    let results = fixture();
    let text = format!("```text\n{}```\n{FRESH}", FRESH.replace("57×", "1×"));
    assert_eq!(complaints(&text, &results), Vec::<String>::new());
    assert_eq!(refreshed(&text, &results), text);
    assert_eq!(unmarked(&text).len(), 2);
}

#[test]
fn a_number_with_a_unit_is_marked_or_told() {
    assert_eq!(unmarked(FRESH), Vec::<String>::new());
    let text = "1.7 µs\n  (12 ms), 97,862 ns; 56×\n\u{a0}3\u{a0}µs of 5 msgs, 7 nsec, columns, forms, 2 × 3, 10";
    assert_eq!(
        unmarked(text),
        [
            "1: 1.7 µs is not marked",
            "2: 97,862 ns is not marked",
            "2: 12 ms is not marked",
            "2: 56 × is not marked",
            "3: 3 µs is not marked",
            "3: 2 × is not marked",
        ]
    );
}
