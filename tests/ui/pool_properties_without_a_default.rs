//! Properties are added to with time, so a caller's code names those it means and leaves out the rest.
use cupool::MemPoolProperties;

pub fn f() -> MemPoolProperties {
    #[cfg(misuse)]
    return MemPoolProperties { max_size: 1 << 20, ..MemPoolProperties::new() }; //~ E0639
    #[cfg(not(misuse))]
    MemPoolProperties::new().max_size(1 << 20)
}
