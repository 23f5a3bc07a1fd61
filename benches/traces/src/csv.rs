//! Reads traces as text: `time_us,op,id,bytes,stream`, one event a line.
//!
//! `op` is `a` for an allocation and `f` for a free; `id` numbers allocations from 0; streams are numbered from 0. The
//! time is not kept, nor the bytes of a free.

use crate::{Error, Event, Trace};

/// The first line.
pub const HEADER: &str = "time_us,op,id,bytes,stream";

/// Reads a trace.
///
/// # Errors
/// [`Error::Line`] for a line that cannot be understood, [`Error::Event`] for what cannot have happened.
pub fn read(name: impl Into<String>, text: &str) -> Result<Trace, Error> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(Error::Line { line: 1, what: format!("should be `{HEADER}`") });
    }
    let mut events = Vec::new();
    let mut streams = 0;
    for (index, text) in lines.enumerate() {
        let line = index + 2;
        let event = event(text).map_err(|what| Error::Line { line, what })?;
        let (Event::Allocate { stream, .. } | Event::Free { stream, .. }) = event;
        let next = stream.checked_add(1).ok_or_else(|| Error::Line { line, what: "too many streams".into() })?;
        streams = streams.max(next);
        events.push(event);
    }
    let trace = Trace { name: name.into(), streams, events };
    trace.check()?;
    Ok(trace)
}

fn event(line: &str) -> Result<Event, String> {
    let [time, op, id, bytes, stream] = fields(line)?;
    number::<i64>(time, "time")?;
    let (id, bytes, stream) = (number(id, "id")?, number(bytes, "bytes")?, number(stream, "stream")?);
    match op {
        "a" => Ok(Event::Allocate { id, bytes, stream }),
        "f" => Ok(Event::Free { id, stream }),
        _ => Err(format!("`{op}` is neither `a` nor `f`")),
    }
}

/// Splits a line at its commas: in neither format can a field have one.
pub(crate) fn fields<const N: usize>(line: &str) -> Result<[&str; N], String> {
    let fields: Vec<&str> = line.split(',').collect();
    let found = fields.len();
    fields.try_into().map_err(|_| format!("{found} fields where there should be {N}"))
}

pub(crate) fn number<T: std::str::FromStr>(field: &str, what: &str) -> Result<T, String> {
    field.parse().map_err(|_| format!("{what} `{field}` is no number that can stand there"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Broken;

    #[test]
    fn lines_become_events() {
        let trace = read("text", "time_us,op,id,bytes,stream\n0,a,0,512,0\n7,a,1,1024,1\n9,f,0,512,1\n").unwrap();
        let events = vec![
            Event::Allocate { id: 0, bytes: 512, stream: 0 },
            Event::Allocate { id: 1, bytes: 1024, stream: 1 },
            Event::Free { id: 0, stream: 1 },
        ];
        assert_eq!(trace, Trace { name: "text".into(), streams: 2, events });
    }

    #[test]
    fn lines_that_say_nothing_are_refused_by_number() {
        for (line, what) in [
            ("0,a,0,512", "4 fields where there should be 5"),
            ("0,a,0,512,0,0", "6 fields where there should be 5"),
            ("0,x,0,512,0", "`x` is neither `a` nor `f`"),
            ("0,a,-1,512,0", "id `-1` is no number that can stand there"),
            ("0,a,0,18446744073709551616,0", "bytes `18446744073709551616` is no number that can stand there"),
            ("0,a,0,512,", "stream `` is no number that can stand there"),
            ("0,a,0,512,4294967295", "too many streams"),
            ("", "1 fields where there should be 5"),
        ] {
            let error = read("", &format!("{HEADER}\n{line}\n")).unwrap_err();
            assert_eq!(error.to_string(), format!("line 2: {what}"));
        }
        assert!(matches!(read("", "0,a,0,512,0\n"), Err(Error::Line { line: 1, .. })));
    }

    #[test]
    fn events_that_cannot_have_happened_are_refused() {
        let broken = |lines: &str| match read("", &format!("{HEADER}\n{lines}")) {
            Err(Error::Event { event, broken }) => (event, broken),
            other => panic!("{other:?}"),
        };
        assert_eq!(broken("0,f,0,512,0"), (0, Broken::Unknown(0)));
        assert_eq!(broken("0,a,0,512,0\n1,f,0,512,0\n2,f,0,512,0"), (2, Broken::DoubleFree(0)));
        assert_eq!(broken("0,a,0,512,0\n1,a,0,512,0"), (1, Broken::Id { id: 0, expected: 1 }));
    }
}
