//! The registration owns the vector, and gives it back.
use cupool::{Context, Error, Registered};

pub fn f(context: &Context, memory: Vec<u8>) -> Result<(), Error> {
    let registered = Registered::from_vec(context, memory).map_err(|(error, _)| error)?;
    #[cfg(misuse)]
    drop(memory); //~ E0382
    drop(registered.into_vec());
    Ok(())
}
