//! There may come to be other ways to fail.
use cupool::Rescue;

pub fn f(rescue: Rescue) -> bool {
    match rescue {
        //~^ E0004
        Rescue::Tried => true,
        Rescue::Off | Rescue::Capturing | Rescue::WaitFailed => false,
        #[cfg(not(misuse))]
        _ => false,
    }
}
