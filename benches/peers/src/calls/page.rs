//! The counts as a page that users read.

use super::{
    Peer,
    counts::{Operation, Row},
};

const HEAD: &str = "# Driver calls of other crates

What `peers calls` has counted, and wrote: see [benches/peers](../peers/README.md#driver-calls). Each crate ran on the simulated
driver, which `cuda-sim` builds as a shared library, in `libcuda`'s place, and in a process of its own. Everything is done
twice and counted the second time, so that what is made only once does not count; sizes are 64 bytes.

A count says nothing of what a call takes, nor of what is promised: some wait for the device before they return, some leave
it to the caller to keep a slice until the device is done with it. `+` are calls that the crate makes on a thread of its own
because of the operation; how often it asks there whether an event has passed is chance, and counts once for each event. – is
what there is not.

";

pub(super) fn page(columns: &[(&Peer, Vec<Row>)]) -> String {
    let mut page = HEAD.to_owned();
    let names = columns.iter().map(|(peer, _)| peer.name.to_owned());
    page += &line(&[String::new()].into_iter().chain(names).collect::<Vec<_>>());
    page += &format!("| --- |{}\n", " ---: |".repeat(columns.len()));
    for operation in Operation::ALL {
        let counts = columns.iter().map(|(_, rows)| {
            let row = rows.iter().find(|row| row.operation == *operation);
            row.map_or_else(|| "–".to_owned(), count)
        });
        page += &line(&[operation.name().to_owned()].into_iter().chain(counts).collect::<Vec<_>>());
    }
    for (peer, rows) in columns {
        page += &section(peer, rows);
    }
    page
}

fn section(peer: &Peer, rows: &[Row]) -> String {
    let (name, setting) = (peer.name, peer.setting);
    let mut section =
        format!("\n## {name}\n\n{setting}\n\n| operation | by | calls | which |\n| --- | --- | ---: | --- |\n");
    for operation in Operation::ALL {
        for row in rows.iter().filter(|row| row.operation == *operation) {
            section += &line(&[operation.name().to_owned(), row.by.clone(), count(row), which(row)]);
        }
    }
    section
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn count(row: &Row) -> String {
    match (row.calls.len(), row.elsewhere.len()) {
        (own, 0) => own.to_string(),
        (own, elsewhere) => format!("{own} + {elsewhere}"),
    }
}

fn which(row: &Row) -> String {
    match (names(&row.calls), names(&row.elsewhere)) {
        (own, elsewhere) if elsewhere.is_empty() => own,
        (own, elsewhere) if own.is_empty() => format!("+ {elsewhere}"),
        (own, elsewhere) => format!("{own} + {elsewhere}"),
    }
}

/// Names in order, each that comes several times on end with how many times that is.
fn names(calls: &[String]) -> String {
    let runs = calls.chunk_by(|one, next| one == next).map(|run| match run {
        [] => String::new(),
        [name] => name.clone(),
        [name, ..] => format!("{name} ×{}", run.len()),
    });
    runs.collect::<Vec<_>>().join(", ")
}

/// How the page differs from the committed one: the lines that only one of them has. If not all peers are there, the sections
/// of those that are which the committed page has otherwise.
pub(super) fn change(committed: &str, columns: &[(&Peer, Vec<Row>)], complete: bool) -> Option<String> {
    if !complete {
        let sections = columns.iter().map(|(peer, rows)| section(peer, rows));
        let other: String = sections.filter(|section| !committed.contains(section)).collect();
        return (!other.is_empty()).then_some(other);
    }
    let found = page(columns);
    let only = |sign: char, of: &str, other: &str| -> Vec<String> {
        let missing = of.lines().filter(|line| !other.lines().any(|of_other| of_other == *line));
        missing.map(|line| format!("{sign} {line}")).collect()
    };
    (committed != found).then(|| [only('-', committed, &found), only('+', &found, committed)].concat().join("\n"))
}
