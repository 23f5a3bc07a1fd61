//! Gives the shared library the name that NVIDIA's driver and its stub carry inside: the dynamic linker goes by it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,libcuda.so.1");
    }
}
