//! Streams: how they are made, told apart and waited for.

use cupool::{Stream, StreamOptions, StreamRef};

use crate::{fixture::Fixture, gate::Gate};

#[test]
fn a_stream_is_made_as_it_was_asked_for() {
    let fixture = Fixture::new();
    let context = fixture.context();
    assert_eq!(fixture.stream().options(), Ok(StreamOptions { blocking: false, priority: 0 }));
    let (least, greatest) = context.stream_priority_range().unwrap();
    assert!(least >= greatest);
    for blocking in [false, true] {
        for priority in [least, greatest] {
            let options = StreamOptions { blocking, priority };
            assert_eq!(Stream::with_options(&context, options).unwrap().options(), Ok(options));
        }
    }
    let eager = StreamOptions { blocking: false, priority: -1000 };
    assert_eq!(Stream::with_options(&context, eager).unwrap().options().unwrap().priority, greatest);
}

#[test]
fn ids_are_never_used_again_though_handles_are() {
    let fixture = Fixture::new();
    let kept = fixture.stream();
    let mut seen = vec![kept.id().unwrap()];
    for _ in 0..20 {
        let id = fixture.stream().id().unwrap();
        assert!(!seen.contains(&id), "{id} was used before");
        seen.push(id);
    }
}

#[test]
fn streams_are_the_same_by_their_handle() {
    let fixture = Fixture::new();
    let (stream, other) = (fixture.stream(), fixture.stream());
    // SAFETY: the stream is of that context, and lives longer.
    let borrowed = unsafe { StreamRef::borrow_raw(stream.context(), stream.as_raw()) };
    assert!(stream.is_same(&stream) && stream.is_same(&borrowed) && borrowed.is_same(&stream));
    assert!(!stream.is_same(&other) && !other.is_same(&borrowed));
    stream.wait_for(&borrowed).unwrap();
}

#[test]
fn queries_tell_whether_the_work_is_done_and_synchronise_waits_for_it() {
    let fixture = Fixture::alone();
    let (pool, stream, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    assert_eq!(stream.query(), Ok(true));
    let event = cupool::Event::new(stream.context()).unwrap();
    let mut buffer = pool.alloc::<u8, _>(1000, &stream).unwrap();
    let gate = Gate::on(&fixture, &stream);
    buffer.fill(1).unwrap();
    event.record(&stream).unwrap();
    fixture.assert_pending(&stream);
    assert_eq!(other.query(), Ok(true), "another stream's work is its own");
    other.synchronize().unwrap();
    gate.open();
    event.synchronize().unwrap();
    assert_eq!(event.query(), Ok(true));
    buffer.fill(2).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(stream.query(), Ok(true));
}

#[test]
fn a_context_waits_for_all_its_streams() {
    let fixture = Fixture::new();
    let (context, pool) = (fixture.context(), fixture.pool());
    let streams = [fixture.stream(), fixture.stream(), fixture.stream()];
    let buffers = streams.each_ref().map(|stream| pool.alloc_zeroed::<u8, _>(1 << 20, stream).unwrap());
    context.synchronize().unwrap();
    assert_eq!(streams.each_ref().map(Stream::query), [Ok(true), Ok(true), Ok(true)]);
    drop(buffers);
}

#[test]
fn wait_for_holds_up_what_comes_later_only() {
    let fixture = Fixture::alone();
    let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
    let gate = Gate::on(&fixture, &first);
    let mut earlier = pool.alloc::<u8, _>(10, &second).unwrap();
    earlier.fill(1).unwrap();
    second.synchronize().unwrap();
    second.wait_for(&first).unwrap();
    earlier.fill(2).unwrap();
    fixture.assert_pending(&second);
    gate.open();
    assert_eq!(earlier.to_vec().unwrap(), [2; 10]);
}

#[test]
fn a_stream_may_be_dropped_while_its_work_runs() {
    let fixture = Fixture::alone();
    let context = fixture.context();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let other = fixture.stream();
    let mut buffer = pool.alloc::<u32, _>(1000, &other).unwrap();
    {
        let gate = Gate::on(&fixture, &stream);
        let mut source = pool.alloc::<u32, _>(1000, stream).unwrap();
        source.fill(6).unwrap();
        buffer.copy_from(source.as_slice()).unwrap();
        drop(source);
        gate.open();
    }
    assert_eq!(buffer.to_vec().unwrap(), [6; 1000]);
    context.synchronize().unwrap();
}
