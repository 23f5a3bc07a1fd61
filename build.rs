//! Passes the version of the CUDA headers on, from the bindings to `cupool::HEADER_VERSION`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DEP_CUDA_HEADER_VERSION");
    match std::env::var("DEP_CUDA_HEADER_VERSION") {
        Ok(version) => println!("cargo::rustc-env=CUPOOL_HEADER_VERSION={version}"),
        Err(error) => println!("cargo::error=cupool-sys did not say its header version: {error}"),
    }
}
