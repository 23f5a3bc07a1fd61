//! The table as a page that users read: a section for each type, in the order in which they are tried.

use std::fmt::Write;

use cupool_sim::Symbol;

const HEAD: &str = "# Driver calls

What each operation asks of the driver, counted on the simulated one by `tests/suite/call_table/`, which fails if any makes
another call or none. All are on one stream and in the steady state unless they say otherwise.
";

pub(super) fn page(rows: &[(String, Vec<Symbol>)]) -> String {
    let mut sections: Vec<(&str, String)> = Vec::new();
    for (operation, calls) in rows {
        let names: Vec<&str> = calls.iter().map(|call| call.row()).collect();
        let line = format!("| `{operation}` | {} | {} |\n", calls.len(), names.join(", "));
        let owner = owner(operation);
        match sections.iter_mut().find(|(of, _)| *of == owner) {
            Some((_, lines)) => lines.push_str(&line),
            None => sections.push((owner, line)),
        }
    }
    let mut page = HEAD.to_owned();
    for (owner, lines) in sections {
        write!(page, "\n## {owner}\n\n| operation | calls | which |\n| --- | ---: | --- |\n{lines}").unwrap();
    }
    page
}

/// The type of `Type::function (when)` and of `drop of Type (when)`.
fn owner(operation: &str) -> &str {
    let name = operation.split(" (").next().unwrap_or(operation);
    let of_type = name.strip_prefix("drop of ").or(name.split_once("::").map(|(owner, _)| owner));
    of_type.unwrap_or("Functions of no type")
}
