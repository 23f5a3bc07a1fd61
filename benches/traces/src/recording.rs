//! Makes a trace of a recording that names allocations by their addresses and streams by their handles.

use std::collections::{HashMap, HashSet};

use crate::{Broken, Event, Trace};

/// The events so far.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    events: Vec<Event>,
    allocated: u32,
    /// What is live: the allocation at each address.
    live: HashMap<u64, u32>,
    /// Addresses at which something was, and is no more.
    freed: HashSet<u64>,
    streams: HashMap<String, u32>,
}

impl Recording {
    pub(crate) fn allocate(&mut self, address: u64, bytes: u64, stream: &str) -> Result<(), Broken> {
        if bytes == 0 {
            return Err(Broken::Empty);
        }
        if self.live.contains_key(&address) {
            return Err(Broken::Taken(address));
        }
        let id = self.allocated;
        let stream = self.stream(stream)?;
        self.allocated = id.checked_add(1).ok_or(Broken::TooMany)?;
        self.live.insert(address, id);
        self.events.push(Event::Allocate { id, bytes, stream });
        Ok(())
    }

    pub(crate) fn free(&mut self, address: u64, stream: &str) -> Result<(), Broken> {
        let Some(&id) = self.live.get(&address) else {
            let freed = self.freed.contains(&address);
            return Err(if freed { Broken::DoubleFree(address) } else { Broken::Unknown(address) });
        };
        let stream = self.stream(stream)?;
        self.live.remove(&address);
        self.freed.insert(address);
        self.events.push(Event::Free { id, stream });
        Ok(())
    }

    /// Numbers streams in the order in which they come.
    fn stream(&mut self, handle: &str) -> Result<u32, Broken> {
        if let Some(&stream) = self.streams.get(handle) {
            return Ok(stream);
        }
        let stream = u32::try_from(self.streams.len()).ok().filter(|stream| *stream < u32::MAX);
        let stream = stream.ok_or(Broken::TooMany)?;
        self.streams.insert(handle.to_owned(), stream);
        Ok(stream)
    }

    pub(crate) fn finish(self, name: String) -> Trace {
        let streams = u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        Trace { name, streams, events: self.events }
    }
}
