//! Two owners would destroy the pool twice; an `Arc` shares it.
use std::sync::Arc;

use cupool::MemPool;

pub fn f(pool: MemPool) {
    #[cfg(not(misuse))]
    let pool = Arc::new(pool);
    drop(pool.clone()); //~ E0599
    drop::<Arc<MemPool>>(pool.into());
}
