//! What is done with a pool (attributes, trims, the device's current one) is not to be done with an imported one.
use cupool::{MemPool, ipc::ImportedPool};

pub fn f<'a>(pool: &'a MemPool, imported: &'a ImportedPool) -> &'a MemPool {
    #[cfg(misuse)]
    return imported; //~ E0308
    let _ = imported;
    pool
}
