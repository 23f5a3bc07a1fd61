//! Objects dropped in every order.

use core::any::Any;
use std::sync::Arc;

use cupool::{Event, MemPool, Stream};
use cupool_sim::Simulator;

use crate::{fixture::Fixture, gate::Gate};

/// Every order of `0..len`.
fn orders(len: usize) -> Vec<Vec<usize>> {
    if len == 0 {
        return vec![vec![]];
    }
    let shorter = orders(len - 1);
    shorter
        .iter()
        .flat_map(|order| {
            (0..len).map(|at| {
                let mut order = order.clone();
                order.insert(at, len - 1);
                order
            })
        })
        .collect()
}

#[test]
fn there_are_as_many_orders_as_there_should_be() {
    let mut all = orders(5);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 120);
}

#[test]
fn d4_context_pool_stream_event_and_buffer_may_be_dropped_in_any_order() {
    for order in orders(5) {
        let fixture = Fixture::new();
        let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.shared_stream());
        let event = Event::new(&context).unwrap();
        let mut buffer = pool.alloc::<u32, _>(1000, Arc::clone(&stream)).unwrap();
        buffer.fill(1).unwrap();
        event.record(&stream).unwrap();
        let mut objects: [Option<Box<dyn Any>>; 5] = [
            Some(Box::new(context)),
            Some(Box::new(pool)),
            Some(Box::new(stream)),
            Some(Box::new(event)),
            Some(Box::new(buffer)),
        ];
        for at in &order {
            objects[*at] = None;
        }
        // The simulated driver must have found nothing wrong, and hold nothing.
    }
}

#[test]
fn d4_with_work_pending_as_well() {
    let fixture = Fixture::alone();
    let context = fixture.context();
    for order in orders(4) {
        let (pool, stream, other) = (fixture.pool(), fixture.shared_stream(), fixture.shared_stream());
        let gate = Gate::on(&fixture, &stream);
        let mut source = pool.alloc::<u32, _>(1000, Arc::clone(&stream)).unwrap();
        source.fill(1).unwrap();
        let mut target = pool.alloc::<u32, _>(1000, Arc::clone(&other)).unwrap();
        target.copy_from(source.as_slice()).unwrap();
        drop((stream, other));
        let mut objects: [Option<Box<dyn Any>>; 4] =
            [Some(Box::new(pool)), Some(Box::new(source)), Some(Box::new(target)), Some(Box::new(gate))];
        for at in &order {
            objects[*at] = None;
        }
        context.synchronize().unwrap();
    }
}

#[test]
fn i7_devices_and_their_memory_may_be_dropped_in_any_order() {
    for order in orders(4) {
        let fixture = Fixture::with(Simulator::builder().devices(2));
        let devices = [0, 1].map(|ordinal| fixture.driver().device(ordinal).unwrap());
        let contexts = devices.map(|device| device.primary_context().unwrap());
        let buffers = [0, 1].map(|at: usize| {
            let stream = Arc::new(Stream::new(&contexts[at]).unwrap());
            MemPool::new(&devices[at]).unwrap().alloc_zeroed::<u8, _>(100, stream).unwrap()
        });
        let [first, second] = contexts;
        let [slice, other] = buffers;
        let mut objects: [Option<Box<dyn Any>>; 4] =
            [Some(Box::new(first)), Some(Box::new(second)), Some(Box::new(slice)), Some(Box::new(other))];
        for at in &order {
            objects[*at] = None;
        }
    }
}
