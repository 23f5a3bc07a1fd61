//! There are two default streams: another kind would be another handle.
use cupool::DefaultStreamKind;

pub struct Third;

#[cfg(misuse)]
impl DefaultStreamKind for Third {} //~ E0277

pub fn f<K: DefaultStreamKind>() {}
