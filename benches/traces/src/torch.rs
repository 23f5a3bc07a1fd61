//! Reads memory snapshots of PyTorch, as `torch.cuda.memory._dump_snapshot` pickles them.
//!
//! Wanted is the history that `torch.cuda.memory._record_memory_history` has kept: `alloc` and `free_requested`, which
//! is when the program gave the memory back. What PyTorch did about it is left out, so that another allocator can be
//! asked the same.

use deser::Deserialize;
use deser_pickle::DeserializerConfig;

use crate::{Broken, Error, Trace, recording::Recording};

/// What the history says that is no event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Frees of memory that was allocated before the history begins.
    pub earlier: usize,
    /// Allocations that failed.
    pub failures: usize,
}

#[derive(Deserialize)]
struct Snapshot {
    /// One history for each device.
    device_traces: Vec<Vec<Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    action: String,
    /// Absent where there is no memory, as in `oom`.
    #[deser(default)]
    addr: u64,
    #[deser(default)]
    size: u64,
    #[deser(default)]
    stream: u64,
}

/// Reads the history of `device`, or of the only device that has one.
///
/// # Errors
/// [`Error::Snapshot`] for another file, [`Error::Device`] and [`Error::Devices`] if it is not clear whose history is
/// wanted, [`Error::Event`] for what cannot have happened.
pub fn read(name: impl Into<String>, pickle: &[u8], device: Option<usize>) -> Result<(Trace, Skipped), Error> {
    // Events share their stacks, which are gone through again for each event: there are far more shared values than
    // the million that is usual.
    let config = DeserializerConfig::builder().max_shared_events(1 << 30).build();
    let snapshot: Snapshot = config.from_slice(pickle).map_err(Error::Snapshot)?;
    let history = chosen(&snapshot.device_traces, device)?;

    let mut recording = Recording::default();
    let mut skipped = Skipped::default();
    for (event, entry) in history.iter().enumerate() {
        perform(entry, &mut recording, &mut skipped).map_err(|broken| Error::Event { event, broken })?;
    }
    let trace = recording.finish(name.into());
    trace.check()?;
    Ok((trace, skipped))
}

fn chosen(histories: &[Vec<Entry>], device: Option<usize>) -> Result<&[Entry], Error> {
    let present: Vec<usize> = (0..).zip(histories).filter(|(_, history)| !history.is_empty()).map(|(i, _)| i).collect();
    let device = match (device, &*present) {
        (Some(device), _) => device,
        (None, [only]) => *only,
        (None, []) => return Err(Error::Device { device: 0, present }),
        (None, _) => return Err(Error::Devices(present)),
    };
    match histories.get(device) {
        Some(history) if !history.is_empty() => Ok(history),
        _ => Err(Error::Device { device, present }),
    }
}

fn perform(entry: &Entry, recording: &mut Recording, skipped: &mut Skipped) -> Result<(), Broken> {
    match &*entry.action {
        "alloc" => recording.allocate(entry.addr, entry.size, &entry.stream.to_string())?,
        "free_requested" => match recording.free(entry.addr, &entry.stream.to_string()) {
            Err(Broken::Unknown(_)) => skipped.earlier += 1,
            done => done?,
        },
        "oom" => skipped.failures += 1,
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    const SNAPSHOT: &[u8] = include_bytes!("../tests/recordings/snapshot.pickle");

    #[test]
    fn a_snapshot_becomes_a_trace() {
        let (trace, skipped) = read("torch", SNAPSHOT, Some(1)).unwrap();
        let events = vec![
            Event::Allocate { id: 0, bytes: 512, stream: 0 },
            Event::Allocate { id: 1, bytes: 4_194_304, stream: 1 },
            Event::Free { id: 0, stream: 0 },
            Event::Allocate { id: 2, bytes: 1000, stream: 0 },
            Event::Free { id: 1, stream: 1 },
        ];
        assert_eq!(trace, Trace { name: "torch".into(), streams: 2, events });
        assert_eq!(skipped, Skipped { earlier: 1, failures: 1 });
    }

    #[test]
    fn every_protocol_of_pickles_gives_the_same() {
        let expected = read("torch", SNAPSHOT, Some(1)).unwrap();
        for pickle in [
            &include_bytes!("../tests/recordings/snapshot-2.pickle")[..],
            include_bytes!("../tests/recordings/snapshot-5.pickle"),
        ] {
            assert_eq!(read("torch", pickle, Some(1)).unwrap(), expected);
        }
    }

    #[test]
    fn the_device_is_chosen_where_there_are_several() {
        assert!(matches!(read("", SNAPSHOT, None), Err(Error::Devices(present)) if present == [1, 3]));
        for device in [0, 2, 4] {
            let error = read("", SNAPSHOT, Some(device)).unwrap_err();
            assert!(matches!(error, Error::Device { device: asked, present } if asked == device && present == [1, 3]));
        }
        assert_eq!(read("", SNAPSHOT, Some(3)).unwrap().0.events.len(), 1);
    }

    #[test]
    fn other_files_are_refused() {
        for len in 0..SNAPSHOT.len() {
            assert!(matches!(read("", &SNAPSHOT[..len], None), Err(Error::Snapshot(_))), "{len} bytes");
        }
        let numbers = deser_pickle::to_vec(&[1, 2, 3]).unwrap();
        assert!(matches!(read("", &numbers, None), Err(Error::Snapshot(_))));
    }

    #[test]
    fn what_cannot_have_happened_is_refused() {
        let entry = |action: &str| Entry { action: action.into(), addr: 16, size: 8, stream: 0 };
        let perform_all = |actions: &[&str]| {
            let (mut recording, mut skipped) = (Recording::default(), Skipped::default());
            actions.iter().try_for_each(|action| perform(&entry(action), &mut recording, &mut skipped))
        };
        assert_eq!(perform_all(&["alloc", "alloc"]), Err(Broken::Taken(16)));
        let twice = ["alloc", "free_requested", "free_completed", "free_requested"];
        assert_eq!(perform_all(&twice), Err(Broken::DoubleFree(16)));
    }
}
