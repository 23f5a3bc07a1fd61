//! A borrowed slice can be freed after a registration that was forgotten; a vector is forgotten with it.
use cupool::{Context, Registered};

pub fn f(context: &Context, memory: Vec<u8>) {
    #[cfg(misuse)]
    let _registered = Registered::new(context, memory); //~ E0133
    #[cfg(not(misuse))]
    let _registered = Registered::from_vec(context, memory);
}
