//! The count of a buffer's loans.

use cupool::{Buffer, Error};
use cupool_sim::{CUresult, Symbol};
use shuttle::thread;

use crate::world::{LEN, Left, World, alone, check, choose};

/// Three threads lend `buffer` to streams of their own and read it there. Answers how many loans could not be had, and
/// whether every one that could was returned.
fn read_on_three(world: &World, buffer: &Buffer<u32>, value: u32, forget: Option<usize>) -> usize {
    thread::scope(|scope| {
        let threads = [0, 1, 2].map(|number| {
            scope.spawn(move || {
                let stream = world.stream();
                let mut target = world.filled(&stream, 0);
                let Ok(loan) = buffer.read_on(&stream) else { return 1 };
                target.copy_from(loan.as_slice()).unwrap();
                if forget == Some(number) {
                    std::mem::forget(loan);
                } else {
                    drop(loan);
                }
                assert_eq!(target.to_vec().unwrap(), [value; LEN]);
                0
            })
        });
        // At home it can be read meanwhile.
        assert_eq!(buffer.to_vec().unwrap(), [value; LEN]);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

#[test]
fn a_buffer_is_its_owners_again_when_every_loan_was_returned() {
    check(|| {
        let world = World::new();
        let home = world.stream();
        let mut buffer = world.filled(&home, 5);
        assert_eq!(read_on_three(&world, &buffer, 5, None), 0);
        buffer.fill(6).unwrap();
        assert_eq!(read_on_three(&world, &buffer, 6, None), 0);
        buffer.free().unwrap();
        drop(home);
        world.end(Left::default());
    });
}

#[test]
fn a_buffer_is_given_up_if_one_of_several_loans_was_forgotten() {
    let _alone = alone();
    check(|| {
        let world = World::new();
        let home = world.stream();
        let mut buffer = world.filled(&home, 5);
        let forgotten = choose(3) as usize;
        assert_eq!(read_on_three(&world, &buffer, 5, Some(forgotten)), 0);
        assert_eq!(buffer.fill(6), Err(Error::LoanForgotten));
        drop((buffer, home));
        world.end(Left { allocations: 1, ..Left::default() });
    });
}

#[test]
fn a_buffer_is_given_up_if_the_end_of_one_of_several_loans_failed() {
    let _alone = alone();
    check(|| {
        let world = World::new();
        let home = world.stream();
        let mut buffer = world.filled(&home, 5);
        // What ends a loan, or begins one, fails once; and so does waiting in its place.
        let code = CUresult::CUDA_ERROR_LAUNCH_FAILED;
        world.simulator.fail_every(Symbol::cuStreamSynchronize, code);
        world.simulator.fail_every(Symbol::cuCtxSynchronize, code);
        world.simulator.fail(Symbol::cuStreamWaitEvent, choose(6), code);
        let refused = read_on_three(&world, &buffer, 5, None);
        world.simulator.clear_faults();
        let kept = if refused == 0 {
            assert_eq!(buffer.fill(6), Err(Error::LoanForgotten));
            1
        } else {
            buffer.fill(6).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [6; LEN]);
            0
        };
        drop((buffer, home));
        world.end(Left { allocations: kept, ..Left::default() });
    });
}
