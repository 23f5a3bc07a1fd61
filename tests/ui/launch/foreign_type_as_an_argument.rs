//! What an argument is in memory must be what the driver reads, so only this crate says what is one.
use cupool::launch::Argument;

pub struct Matrix([f32; 16]);

#[cfg(misuse)]
impl Argument for Matrix {} //~ E0277

pub fn f(matrix: &Matrix) -> &impl Argument {
    &matrix.0[0]
}
