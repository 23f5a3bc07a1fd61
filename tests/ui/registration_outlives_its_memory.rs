//! Memory that is freed while it is registered is used by the driver all the same.
use cupool::{Context, Error, Registered};

pub fn f(context: &Context, mut memory: Vec<u8>) -> Result<(), Error> {
    // SAFETY: a slice derefs to itself; the registration is dropped.
    let registered = unsafe { Registered::new(context, &mut memory[..]) }.map_err(|(error, _)| error)?;
    #[cfg(misuse)]
    drop(memory); //~ E0505
    drop(registered);
    Ok(())
}
