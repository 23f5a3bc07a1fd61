//! The protocols again, each with the fault that it must not have: shuttle has to find it, or the other tests show
//! nothing.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
};

use shuttle::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use crate::world::check;

/// Some order of the threads makes `test` panic with `message`.
fn fails(message: &str, test: impl Fn() + Send + Sync + 'static) {
    let payload = catch_unwind(AssertUnwindSafe(|| check(test))).expect_err("the fault was not found");
    let found = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    assert!(found.is_some_and(|found| found.contains(message)), "another fault was found: {found:?}");
}

/// Does `work` on three threads.
fn on_three(work: impl Fn() + Send + Sync + 'static) {
    let work = Arc::new(work);
    let threads = [(); 3].map(|()| {
        let work = Arc::clone(&work);
        thread::spawn(move || work())
    });
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn an_event_that_is_looked_for_and_then_stored_is_made_twice() {
    fails("an event is lost", || {
        let (fence, live) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (of_all, counted) = (Arc::clone(&fence), Arc::clone(&live));
        on_three(move || {
            if of_all.load(SeqCst) == 0 {
                let made = counted.fetch_add(1, SeqCst) + 1;
                of_all.store(made, SeqCst);
            }
        });
        assert_eq!(live.load(SeqCst), 1, "an event is lost");
    });
}

#[test]
fn a_loan_that_is_counted_in_two_steps_is_forgotten() {
    fails("a loan is miscounted", || {
        let lent = Arc::new(AtomicUsize::new(0));
        let of_all = Arc::clone(&lent);
        on_three(move || {
            of_all.store(of_all.load(SeqCst) + 1, SeqCst);
            of_all.fetch_sub(1, SeqCst);
        });
        assert_eq!(lent.load(SeqCst), 0, "a loan is miscounted");
    });
}

#[test]
fn a_block_that_is_chosen_under_one_lock_and_taken_under_another_is_shared() {
    fails("a block is shared", || {
        let shelf = Arc::new(Mutex::new(VecDeque::from([1, 2, 3])));
        let users = Arc::new([const { AtomicUsize::new(0) }; 4]);
        on_three(move || {
            let block = shelf.lock().unwrap().front().copied().unwrap();
            shelf.lock().unwrap().retain(|other| *other != block);
            assert_eq!(users[block].fetch_add(1, SeqCst), 0, "a block is shared");
            users[block].fetch_sub(1, SeqCst);
            shelf.lock().unwrap().push_back(block);
        });
    });
}

#[test]
fn a_view_that_clears_what_began_meanwhile_shows_memory_too_early() {
    #[derive(Clone, Copy, Default)]
    struct Pending {
        copies: usize,
        any: bool,
    }
    fails("a copy is forgotten", || {
        let (pending, done) = (Arc::new(Mutex::new(Pending::default())), Arc::new(AtomicUsize::new(0)));
        let (of_all, all_done) = (Arc::clone(&pending), Arc::clone(&done));
        on_three(move || {
            let mut now = of_all.lock().unwrap();
            *now = Pending { copies: now.copies + 1, any: true };
            drop(now);
            // A view waits for what there is, and clears the mark without asking whether that is still all.
            let until = of_all.lock().unwrap().copies;
            all_done.fetch_max(until, SeqCst);
            of_all.lock().unwrap().any = false;
            let now = *of_all.lock().unwrap();
            assert!(now.any || all_done.load(SeqCst) >= now.copies, "a copy is forgotten");
        });
    });
}

#[test]
fn a_lock_that_is_held_over_a_wait_for_its_next_owner_never_ends() {
    fails("deadlock", || {
        let locks = Arc::new([Mutex::new(()), Mutex::new(())]);
        let other = Arc::clone(&locks);
        let thread = thread::spawn(move || {
            let _shelf = other[0].lock().unwrap();
            drop(other[1].lock().unwrap());
        });
        let shelf = locks[1].lock().unwrap();
        drop(locks[0].lock().unwrap());
        drop(shelf);
        thread.join().unwrap();
    });
}
