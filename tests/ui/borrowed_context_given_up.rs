//! A borrowed context is not the borrower's to give.
use cupool::ContextRef;

pub fn f(context: ContextRef<'_>) {
    #[cfg(misuse)]
    let _raw = context.into_raw(); //~ E0507
    #[cfg(not(misuse))]
    let _raw = context.as_raw();
}
