//! Order between streams: what makes memory of one stream safe to use on another.
//!
//! One stream needs none of this. Between two, a fence (an event recorded on one, waited for on the other) is put
//! before the foreign work and another after it, so that both streams agree on when the memory is whose. No host
//! thread waits, unless a fence fails: then the host waits in its place, and if that fails too the memory is given up
//! for lost rather than freed too early.

use core::sync::atomic::Ordering;

use crate::{DriverError, Error, Result, Stream, gate, raw, release};

/// Everything enqueued on `earlier` so far comes before whatever is enqueued on `later` from now on.
#[inline]
pub(crate) fn fence(earlier: &Stream, later: &Stream) -> Result<()> {
    // In as few steps as can be: over the driver's two calls, this is most of what a loan costs.
    let Some(event) = earlier.ordinary_fence(later) else { return fence_warily(earlier, later) };
    // One event serves every fence of the stream, from every thread: a wait means the last record before it, and a
    // later record of the same stream orders after more, never after less.
    let functions = earlier.driver().functions();
    // SAFETY: both streams are borrowed, hence live; the event is live as long as its stream, and of its context; the
    // gate was asked.
    match unsafe { raw::event::fence(functions, event, earlier.as_raw(), later.as_raw()) } {
        Ok(()) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// The same where something is out of the ordinary.
#[cold]
#[inline(never)]
fn fence_warily(earlier: &Stream, later: &Stream) -> Result<()> {
    earlier.driver().ensure_same(later.driver())?;
    if earlier.is_same(later) {
        return Ok(());
    }
    // A fence would draw the other stream into the capture, and order nothing outside it.
    earlier.ensure_outside_captures()?;
    later.ensure_outside_captures()?;
    let event = earlier.fence_event()?;
    gate::check()?;
    // SAFETY: as above.
    Ok(unsafe { raw::event::fence(earlier.driver().functions(), event, earlier.as_raw(), later.as_raw()) }?)
}

/// Apart, so that the error takes no room among what is done otherwise.
#[cold]
#[inline(never)]
fn failed(error: DriverError) -> Error {
    error.into()
}

/// Has `enqueue` put work on `stream` that uses memory whose home is `home`.
///
/// On return the work comes after what was on `home` before, and before whatever `home` gets from now on.
#[inline]
pub(crate) fn foreign(stream: &Stream, home: &Stream, enqueue: impl FnOnce() -> Result<()>) -> Result<()> {
    home.ensure_ordered()?;
    if stream.is_same(home) { enqueue() } else { fenced(stream, home, enqueue) }
}

fn fenced(stream: &Stream, home: &Stream, enqueue: impl FnOnce() -> Result<()>) -> Result<()> {
    fence(home, stream)?;
    // The second fence must not fail for want of an event.
    stream.fence_event()?;
    let enqueued = enqueue();
    // Also after a failure: the driver does not promise that a failed call has enqueued nothing.
    enqueued.and(give_back_or_lose(stream, home))
}

/// Orders `home` after all that `stream` was given, one way or another; if there is none, no memory at home there is
/// freed any more.
pub(crate) fn give_back_or_lose(stream: &Stream, home: &Stream) -> Result<()> {
    let returned = give_back(stream, home);
    if let Err(error) = &returned {
        home.lose_order();
        release::report(Err(error.clone()));
    }
    returned
}

/// Orders `home` after all that `stream` was given: by a fence, or else by a wait of the host. If neither can be had,
/// the memory must be given up.
#[inline]
pub(crate) fn give_back(stream: &Stream, home: &Stream) -> Result<()> {
    match fence(stream, home) {
        Ok(()) => Ok(()),
        Err(error) => wait_in_place_of(error, stream),
    }
}

#[cold]
#[inline(never)]
fn wait_in_place_of(error: Error, stream: &Stream) -> Result<()> {
    wait_on_host(stream).map_err(|_| error)
}

/// Waits for `stream`, by other means if the first fails. What is captured cannot be waited for, nor would its capture
/// survive that.
pub(crate) fn wait_on_host(stream: &Stream) -> Result<()> {
    stream.ensure_outside_captures()?;
    stream.synchronize_at_once().or_else(|error| stream.context().synchronize().map_err(|_| error))
}

impl Stream {
    /// From now on no memory at home here is freed, since foreign work may still use it.
    fn lose_order(&self) {
        self.order_lost.store(true, Ordering::Relaxed);
        gate::note_order_lost();
    }

    /// Fails in a forked child, and once foreign work on this stream's memory could neither be ordered nor waited for.
    /// Frees what a capture had put off.
    #[inline(always)]
    pub(crate) fn ensure_ordered(&self) -> Result<()> {
        if gate::is_open() { Ok(()) } else { self.check_ordered() }
    }

    #[cold]
    pub(crate) fn check_ordered(&self) -> Result<()> {
        gate::check()?;
        self.free_deferred();
        if self.order_lost.load(Ordering::Relaxed) { Err(Error::OrderLost) } else { Ok(()) }
    }
}
