//! The registration has the memory to itself.
use cupool::{Context, Error, Registered};

pub fn f(context: &Context, memory: &mut [u8]) -> Result<(), Error> {
    // SAFETY: a slice derefs to itself; the registration is dropped.
    let registered = unsafe { Registered::new(context, &mut *memory) }.map_err(|(error, _)| error)?;
    #[cfg(misuse)]
    memory.fill(1); //~ E0499
    drop(registered);
    Ok(())
}
