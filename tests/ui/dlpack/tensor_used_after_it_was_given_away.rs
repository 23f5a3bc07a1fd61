//! Whoever has the pointer calls the deleter; a second call would free again.
use cupool::dlpack::ManagedTensor;

pub fn f(tensor: ManagedTensor) {
    let _raw = tensor.into_raw();
    #[cfg(misuse)]
    drop(tensor); //~ E0382
}
