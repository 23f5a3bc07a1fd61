//! What was called during an operation: the log of the simulated driver that this process has as its `libcuda`.

use std::{
    ffi::c_char,
    fmt,
    mem::ManuallyDrop,
    time::{Duration, Instant},
};

use libloading::Library;

use crate::peer::Outcome;

macro_rules! operations {
    ($( $operation:ident = $name:literal; )*) => {
        /// What is done, in the order of the page.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Operation { $( $operation, )* }

        impl Operation {
            pub(super) const ALL: &[Self] = &[ $( Self::$operation, )* ];

            pub(super) const fn name(self) -> &'static str {
                match self { $( Self::$operation => $name, )* }
            }
        }
    };
}

operations! {
    Allocate = "allocate";
    Free = "free";
    AllocateZeroed = "allocate zeroed";
    Fill = "fill with zeroes";
    FromHost = "copy from a host slice";
    ToHost = "copy to a host slice";
    OnDevice = "copy on the device, one stream";
    BetweenStreams = "copy on the device, between two streams' buffers";
    Lend = "lend to another stream and take back";
    CreateStream = "create a stream";
    DestroyStream = "destroy a stream";
    Synchronize = "synchronise a stream";
    OrderStreams = "order a stream behind another";
    CreateEvent = "create an event";
    Record = "record an event";
    Wait = "have a stream wait for an event";
    DestroyEvent = "destroy an event";
}

/// An operation, and the calls that it made.
pub(super) struct Row {
    pub(super) operation: Operation,
    /// What does it.
    pub(super) by: String,
    pub(super) calls: Vec<String>,
    /// Those that another thread made, by name.
    pub(super) elsewhere: Vec<String>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}\t{}\t{}", self.operation.name(), self.by, self.calls.join(" "), self.elsewhere.join(" "))
    }
}

impl Row {
    /// A row as it was printed.
    pub(super) fn parse(line: &str) -> Outcome<Self> {
        let [name, by, calls, elsewhere] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(format!("no row: {line}").into());
        };
        let operation = Operation::ALL.iter().find(|operation| operation.name() == name);
        let words = |of: &str| of.split_whitespace().map(str::to_owned).collect();
        Ok(Self {
            operation: *operation.ok_or_else(|| format!("no operation: {name}"))?,
            by: by.to_owned(),
            calls: words(calls),
            elsewhere: words(elsewhere),
        })
    }
}

/// Rows, and the log that they are made from.
pub(super) struct Counts {
    pub(super) rows: Vec<Row>,
    has_thread: bool,
    // Never unloaded: the peer has it as well.
    library: ManuallyDrop<Library>,
}

impl Counts {
    pub(super) fn open(has_thread: bool) -> Outcome<Self> {
        // SAFETY: the simulated driver, which does nothing when it is loaded; or the search for its log fails.
        let library = ManuallyDrop::new(unsafe { Library::new("libcuda.so.1") }?);
        let counts = Self { rows: Vec::new(), has_thread, library };
        counts.start()?;
        Ok(counts)
    }

    /// Runs an operation, and makes a row of what it called.
    pub(super) fn of<R>(&mut self, operation: Operation, by: &str, run: impl FnOnce() -> Outcome<R>) -> Outcome<R> {
        self.settle()?;
        self.start()?;
        let result = run()?;
        self.settle()?;
        let log = self.log()?;
        let (mut calls, mut elsewhere) = (Vec::new(), Vec::new());
        for line in log.lines() {
            match line.strip_suffix(" elsewhere") {
                Some(name) => elsewhere.push(name),
                None => calls.push(line.to_owned()),
            }
        }
        self.rows.push(Row { operation, by: by.to_owned(), calls, elsewhere: less_chance(elsewhere) });
        Ok(result)
    }

    /// Drops a value, of the type that is named, and makes a row of that.
    pub(super) fn drop_of<T>(&mut self, operation: Operation, name: &str, value: T) -> Outcome<()> {
        self.of(operation, &format!("drop of {name}"), || {
            drop(value);
            Ok(())
        })
    }

    /// Waits until a thread of the peer's has nothing more to do.
    fn settle(&self) -> Outcome<()> {
        const QUIET: Duration = Duration::from_millis(100);
        if !self.has_thread {
            return Ok(());
        }
        let (mut log, mut since) = (self.log()?, Instant::now());
        while since.elapsed() < QUIET {
            std::thread::sleep(QUIET / 10);
            let now = self.log()?;
            if now != log {
                (log, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    fn start(&self) -> Outcome<()> {
        // SAFETY: the simulated driver has the function, with this signature.
        unsafe { self.library.get::<extern "C" fn()>("cupool_sim_log_start") }?();
        Ok(())
    }

    fn log(&self) -> Outcome<String> {
        type Read = unsafe extern "C" fn(*mut c_char, usize) -> usize;
        // SAFETY: the simulated driver has the function, with this signature.
        let read = unsafe { self.library.get::<Read>("cupool_sim_log_read") }?;
        let mut text: Vec<u8> = Vec::new();
        loop {
            // SAFETY: the vector is as long as that.
            let bytes = unsafe { read(text.as_mut_ptr().cast(), text.len()) };
            if bytes <= text.len() {
                text.truncate(bytes);
                return Ok(String::from_utf8(text)?);
            }
            // Another thread may have made calls since.
            text.resize(bytes, 0);
        }
    }
}

/// The calls of a thread that asks events, one after the other and again, whether they have passed, and destroys them then.
/// How often it has to ask is chance, so that no more questions are left than there were events, each with the one for
/// the context that comes before it; and so is the order.
fn less_chance(calls: Vec<&str>) -> Vec<String> {
    let events = calls.iter().filter(|call| **call == "cuEventDestroy").count();
    let (mut kept, mut questions) = (Vec::new(), 0);
    for call in calls {
        questions += usize::from(call == "cuEventQuery");
        if call == "cuEventQuery" && questions > events {
            kept.pop();
        } else {
            kept.push(call.to_owned());
        }
    }
    kept.sort();
    kept
}

#[test]
fn questions_are_as_many_as_events_however_often_they_were_asked() {
    let question = ["cuCtxGetCurrent", "cuEventQuery"];
    let end = ["cuCtxGetCurrent", "cuEventDestroy"];
    let once = less_chance([question, end, question, end].concat());
    assert_eq!(once, less_chance([question, question, question, end, question, end].concat()));
    assert_eq!(once.len(), 8);
    assert_eq!(less_chance(vec!["cuCtxGetCurrent", "cuMemFreeAsync"]), ["cuCtxGetCurrent", "cuMemFreeAsync"]);
}
