//! Events: recorded or not, passed or not, and never made where one stream does all.

use cupool::{Error, Event, Stream, TimedEvent};
use cupool_sim::{Simulator, Symbol};

use crate::{fixture::Fixture, gate::Gate};

#[test]
fn j1_the_time_between_marks_that_are_not_passed_is_not_ready() {
    let fixture = Fixture::alone();
    let (context, stream) = (fixture.context(), fixture.stream());
    let (start, end) = (TimedEvent::new(&context).unwrap(), TimedEvent::new(&context).unwrap());
    start.record(&stream).unwrap();
    let gate = Gate::on(&fixture, &stream);
    end.record(&stream).unwrap();
    assert_eq!(end.elapsed_ms_since(&start), Err(Error::NotReady));
    fixture.assert_pending(&stream);
    gate.open();
    end.synchronize().unwrap();
    assert_eq!(end.query(), Ok(true));
    let elapsed = end.elapsed_ms_since(&start).unwrap();
    assert!((0.0..20_000.0).contains(&elapsed), "{elapsed}");
    let backwards = start.elapsed_ms_since(&end).unwrap();
    assert!((elapsed + backwards).abs() < 0.01, "{elapsed} there, {backwards} back");
}

#[test]
fn j3_the_time_since_an_event_that_was_never_recorded_is_an_error() {
    let fixture = Fixture::new();
    let (context, stream) = (fixture.context(), fixture.stream());
    let (start, end) = (TimedEvent::new(&context).unwrap(), TimedEvent::new(&context).unwrap());
    assert_eq!(end.elapsed_ms_since(&start), Err(Error::NotRecorded));
    end.record(&stream).unwrap();
    end.synchronize().unwrap();
    assert_eq!(end.elapsed_ms_since(&start), Err(Error::NotRecorded));
    assert_eq!(start.elapsed_ms_since(&end), Err(Error::NotRecorded));
    assert_eq!(Error::NotRecorded.to_string(), "the event was never recorded");
}

#[test]
fn j3_there_is_no_time_between_the_marks_of_two_devices() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let events = [0, 1].map(|ordinal| {
        let context = fixture.driver().device(ordinal).unwrap().primary_context().unwrap();
        let (stream, event) = (Stream::new(&context).unwrap(), TimedEvent::new(&context).unwrap());
        event.record(&stream).unwrap();
        event.synchronize().unwrap();
        event
    });
    assert_eq!(events[1].elapsed_ms_since(&events[0]), Err(Error::ContextMismatch));
    assert!(events[1].elapsed_ms_since(&events[1]).is_ok());
}

#[test]
fn j3_waiting_for_an_event_that_was_never_recorded_is_no_wait() {
    let fixture = Fixture::new();
    let (context, stream) = (fixture.context(), fixture.stream());
    let event = Event::new(&context).unwrap();
    assert_eq!(event.query(), Ok(true));
    event.synchronize().unwrap();
    stream.wait(&event).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn j3_a_stream_goes_on_waiting_for_the_mark_that_was_there_when_it_began_to() {
    let fixture = Fixture::alone();
    let (context, first, second) = (fixture.context(), fixture.stream(), fixture.stream());
    let other = fixture.stream();
    let event = Event::new(&context).unwrap();
    let gate = Gate::on(&fixture, &first);
    event.record(&first).unwrap();
    second.wait(&event).unwrap();
    event.record(&other).unwrap();
    event.synchronize().unwrap();
    fixture.assert_pending(&second);
    gate.open();
    second.synchronize().unwrap();
}

#[test]
fn j5_one_stream_needs_no_events() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.shared_stream());
    let mut one = pool.alloc_zeroed::<u32, _>(100, &*stream).unwrap();
    let mut two = pool.alloc::<u32, _>(100, std::sync::Arc::clone(&stream)).unwrap();
    for _ in 0..10 {
        one.copy_from(two.as_slice()).unwrap();
        two.fill(2).unwrap();
        two = two.move_to(std::sync::Arc::clone(&stream)).unwrap();
        one.on(&stream).unwrap().as_mut_slice().fill(3).unwrap();
        drop(two.read_on(&stream).unwrap());
    }
    drop((one, two));
    for symbol in [Symbol::cuEventCreate, Symbol::cuEventRecord, Symbol::cuStreamWaitEvent, Symbol::cuEventQuery] {
        assert_eq!(fixture.sim().count(symbol), 0, "{symbol:?}");
    }
}

#[test]
fn an_event_may_be_dropped_while_streams_wait_for_it() {
    let fixture = Fixture::alone();
    let (context, first, second) = (fixture.context(), fixture.stream(), fixture.stream());
    let gate = Gate::on(&fixture, &first);
    let event = Event::new(&context).unwrap();
    event.record(&first).unwrap();
    second.wait(&event).unwrap();
    drop(event);
    fixture.assert_pending(&second);
    gate.open();
    second.synchronize().unwrap();
}
