//! Buffers lent to other streams, moved there, and forgotten there.

use core::mem::forget;
use std::sync::Arc;

use cupool::{Buffer, Stream};
use cupool_sim::{CUresult, Symbol};

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    let mut all = scenarios! {
        Base: an_exclusive_loan, a_shared_loan, several_readers, loans_inside_each_other, loans_to_the_home_itself,
            loans_one_after_the_other, a_loan_that_copies_with_its_home, a_move, a_move_there_and_back,
            a_move_to_a_stream_of_its_own;
    };
    for scenario in scenarios! {
        Base: a_forgotten_exclusive_loan, a_forgotten_shared_loan, a_forgotten_shared_loan_and_a_free_by_hand;
    } {
        all.push(scenario.forgets(1));
    }
    all.extend(scenarios! { Base: a_stream_that_lost_its_order; }.into_iter().map(|scenario| scenario.forgets(2)));
    all
}

type Lent<'a> = Buffer<u32, &'a Stream>;

fn filled<'a>(world: &mut World<'_>, base: &'a Base, value: u32) -> Option<Lent<'a>> {
    let mut buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.go_on(buffer.fill(value));
    Some(buffer)
}

fn an_exclusive_loan(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = filled(world, &base, 1)?;
    let mut loan = world.get(buffer.on(&base.second))?;
    let mut part = world.get(loan.as_mut_slice().slice(50..))?;
    world.go_on(part.fill(2));
    world.equal(loan.as_slice().to_vec(), [[1; 50], [2; 50]].concat());
    drop(loan);
    world.equal(buffer.to_vec(), [[1; 50], [2; 50]].concat());
    Some(())
}

fn a_shared_loan(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = filled(world, &base, 1)?;
    let loan = world.get(buffer.read_on(&base.second))?;
    world.equal(loan.as_slice().to_vec(), [1; 100]);
    world.equal(buffer.to_vec(), [1; 100]);
    drop(loan);
    world.go_on(buffer.fill(2));
    Some(())
}

fn several_readers(world: &mut World<'_>, base: Base) -> Option<()> {
    let third = world.get(Stream::new(&base.context))?;
    let mut copies =
        [world.get(base.pool.alloc::<u32, _>(100, &*base.second))?, world.get(base.pool.alloc::<u32, _>(100, &third))?];
    let mut buffer = filled(world, &base, 1)?;
    let loans = [world.get(buffer.read_on(&base.second))?, world.get(buffer.read_on(&third))?];
    for (copy, loan) in copies.iter_mut().zip(&loans) {
        world.go_on(copy.copy_from(loan.as_slice()));
    }
    drop(loans);
    world.go_on(buffer.fill(2));
    drop(buffer);
    for copy in &copies {
        world.equal(copy.to_vec(), [1; 100]);
    }
    Some(())
}

fn loans_inside_each_other(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut here = filled(world, &base, 1)?;
    let mut there = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.second))?;
    let outer = world.get(here.on(&base.second))?;
    let mut inner = world.get(there.on(&base.first))?;
    world.go_on(inner.as_mut_slice().copy_from(outer.as_slice()));
    drop(outer);
    drop(inner);
    world.equal(there.to_vec(), [1; 100]);
    Some(())
}

fn loans_to_the_home_itself(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = filled(world, &base, 1)?;
    let mut loan = world.get(buffer.on(&base.first))?;
    world.go_on(loan.as_mut_slice().fill(3));
    drop(loan);
    let loan = world.get(buffer.read_on(&base.first))?;
    world.equal(loan.as_slice().to_vec(), [3; 100]);
    Some(())
}

fn loans_one_after_the_other(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = filled(world, &base, 0)?;
    for round in 1..4 {
        let mut loan = world.get(buffer.on(&base.second))?;
        world.go_on(loan.as_mut_slice().fill(round));
    }
    world.equal(buffer.to_vec(), [3; 100]);
    Some(())
}

fn a_loan_that_copies_with_its_home(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut lent = filled(world, &base, 1)?;
    let mut kept = filled(world, &base, 2)?;
    let mut loan = world.get(lent.on(&base.second))?;
    world.go_on(kept.copy_from(loan.as_slice()));
    world.go_on(kept.fill(3));
    world.go_on(loan.as_mut_slice().copy_from(kept.as_slice()));
    drop(loan);
    world.equal(lent.to_vec(), [3; 100]);
    Some(())
}

fn a_move(world: &mut World<'_>, base: Base) -> Option<()> {
    let buffer = filled(world, &base, 1)?;
    match buffer.move_to(&*base.second) {
        Ok(moved) => world.equal(moved.to_vec(), [1; 100]),
        Err((error, mut buffer)) => {
            world.go_on(Err::<(), _>(error));
            // It is as it was.
            assert_eq!(buffer.len(), 100);
            world.go_on(buffer.fill(2));
        }
    }
    Some(())
}

fn a_move_there_and_back(world: &mut World<'_>, base: Base) -> Option<()> {
    let moved = filled(world, &base, 1)?.move_to(&*base.second);
    let mut moved = world.get_or_drop(moved)?;
    world.go_on(moved.fill(2));
    let back = world.get_or_drop(moved.move_to(Arc::clone(&base.first)))?;
    world.equal(back.to_vec(), [2; 100]);
    Some(())
}

fn a_move_to_a_stream_of_its_own(world: &mut World<'_>, base: Base) -> Option<()> {
    let stream = world.get(Stream::new(&base.context))?;
    let moved = filled(world, &base, 1)?.move_to(stream);
    let moved = world.get_or_drop(moved)?;
    drop(base);
    world.equal(moved.to_vec(), [1; 100]);
    Some(())
}

fn a_forgotten_exclusive_loan(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = filled(world, &base, 1)?;
    let mut loan = world.get(buffer.on(&base.second))?;
    world.go_on(loan.as_mut_slice().fill(2));
    forget(loan);
    world.go_on(buffer.fill(3));
    Some(())
}

fn a_forgotten_shared_loan(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = filled(world, &base, 1)?;
    let loan = world.get(buffer.read_on(&base.second))?;
    world.equal(loan.as_slice().to_vec(), [1; 100]);
    forget(loan);
    // It can still be read at home.
    world.equal(buffer.to_vec(), [1; 100]);
    world.go_on(buffer.fill(2));
    Some(())
}

fn a_forgotten_shared_loan_and_a_free_by_hand(world: &mut World<'_>, base: Base) -> Option<()> {
    let buffer = filled(world, &base, 1)?;
    forget(world.get(buffer.read_on(&base.second))?);
    world.refused(buffer.free());
    Some(())
}

fn a_stream_that_lost_its_order(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut source = filled(world, &base, 1)?;
    let other = filled(world, &base, 2)?;
    let mut target = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.second))?;
    // The fence behind the copy fails, and both waits in its place.
    for (symbol, nth) in
        [(Symbol::cuStreamWaitEvent, 1), (Symbol::cuStreamSynchronize, 0), (Symbol::cuCtxSynchronize, 0)]
    {
        world.sim.fail(symbol, nth, CUresult::CUDA_ERROR_UNKNOWN);
    }
    world.may_fail(target.copy_from(source.as_slice()));
    world.may_fail(source.fill(3));
    world.may_fail(target.copy_from(other.as_slice()));
    world.may_fail(target.fill(4));
    world.may_fail(target.to_vec());
    Some(())
}
