//! A kernel keeps its module loaded.
use cupool::launch::{Function, Module};

pub fn f(function: Function, module: Module) -> Function {
    #[cfg(misuse)]
    return Function { raw: function.as_raw(), module }; //~ E0451
    #[cfg(not(misuse))]
    drop(module);
    #[cfg(not(misuse))]
    function
}
