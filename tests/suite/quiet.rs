//! Looking at things calls nothing.

use cupool::{ContextRef, Event, EventRef, MemPoolRef, PinnedBuffer, Registered, StreamRef, TimedEvent};

use crate::fixture::Fixture;

#[test]
fn debug_and_display_make_no_driver_call() {
    let fixture = Fixture::simulated();
    let (device, context, pool, stream) = (fixture.device(), fixture.context(), fixture.pool(), fixture.stream());
    let (event, timed) = (Event::new(&context).unwrap(), TimedEvent::new(&context).unwrap());
    let mut buffer = pool.alloc::<u32, _>(10, &stream).unwrap();
    let (address, uuid) = (buffer.as_raw(), device.uuid().unwrap());
    let error = pool.alloc::<u8, _>(1 << 40, &stream).unwrap_err();
    let usage = pool.usage().unwrap();
    // SAFETY: the objects are live for longer than what borrows them.
    let borrowed = unsafe {
        (
            ContextRef::borrow_raw(device, context.as_raw()),
            MemPoolRef::borrow_raw(device, pool.as_raw()),
            StreamRef::borrow_raw(&context, stream.as_raw()),
            EventRef::borrow_raw(&context, event.as_raw()),
        )
    };
    let pinned = PinnedBuffer::<u8>::new(&context, 10).unwrap();
    let registered = Registered::from_vec(&context, vec![1_u8; 10]).unwrap();
    let (other, mut lent) = (fixture.stream(), pool.alloc::<u32, _>(10, &stream).unwrap());
    let loan = lent.on(&other).unwrap();
    let texts = fixture.expect_calls(&[], || {
        [
            format!("{pinned:?} {registered:?} {loan:?}"),
            format!("{:?}", fixture.driver()),
            format!("{device:?}"),
            format!("{context:?}"),
            format!("{pool:?}"),
            format!("{stream:?}"),
            format!("{event:?} {timed:?}"),
            format!("{borrowed:?}"),
            format!("{error:?} {error}"),
            format!("{usage:?} {uuid:?} {uuid}"),
            format!("{:?}", buffer.as_slice()),
            format!("{:?}", buffer.as_mut_slice()),
            format!("{buffer:?}"),
        ]
    });
    assert!(texts.iter().all(|text| !text.is_empty()));
    let address = format!("{address:#x}");
    for text in &texts[10..] {
        assert!(text.contains(&address) && text.contains("len: 10"), "{text}");
    }
    assert!(texts[10].starts_with("DeviceSlice {") && texts[11].starts_with("DeviceSliceMut {"), "{texts:?}");
    assert_eq!(uuid.to_string().len(), 36);
}

#[test]
fn handles_and_properties_are_read_without_a_call() {
    let fixture = Fixture::simulated();
    let (device, context) = (fixture.device(), fixture.context());
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let event = Event::new(&context).unwrap();
    fixture.expect_calls(&[], || {
        assert_eq!(stream.context().as_raw(), context.as_raw());
        assert_eq!(event.context().as_raw(), context.as_raw());
        assert_eq!((context.device(), pool.device()), (device, device));
        for driver in [context.driver(), pool.driver(), stream.driver(), event.driver()] {
            assert_eq!(driver, fixture.driver());
        }
        assert!(stream.is_same(&stream));
        pool.set_rescue(true);
        let _ = (stream.as_raw(), event.as_raw(), pool.as_raw());
    });
}
