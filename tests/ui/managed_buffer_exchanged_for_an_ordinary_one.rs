//! What a managed buffer holds must stay managed: the host could look into what it cannot reach.
use cupool::{Buffer, ManagedBuffer};

pub fn f(mut managed: ManagedBuffer<u32>, mut buffer: Buffer<u32>) {
    #[cfg(misuse)]
    core::mem::swap(&mut *managed, &mut buffer); //~ E0596
    drop((&mut managed, &mut buffer));
}
