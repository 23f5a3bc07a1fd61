//! Passes the version of the headers behind the bindings on to dependants, and regenerates the bindings on request.

/// The headers the committed bindings were generated from, as `CUDA_VERSION` states it.
const HEADER_VERSION: u32 = 13020;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=header_version={HEADER_VERSION}");
    #[cfg(feature = "bindgen")]
    generate::run();
}

#[cfg(feature = "bindgen")]
#[allow(clippy::expect_used, reason = "a build script fails by panicking")]
mod generate {
    use std::{env, fmt::Write as _, fs, path::PathBuf};

    use bindgen::{
        Builder, EnumVariation,
        callbacks::{DeriveTrait, EnumVariantCustomBehavior, EnumVariantValue, ImplementsTrait, ParseCallbacks},
    };

    /// Types and constants that no signature mentions but callers need.
    const ALSO: &[&str] = &[
        "CUdevice_attribute_enum",
        "CUpointer_attribute_enum",
        "CUmemPool_attribute_enum",
        "CUmem_advise_enum",
        "CUmem_range_attribute_enum",
        "CUstream_flags_enum",
        "CUevent_flags_enum",
        "CUevent_wait_flags_enum",
        "CUmemAttach_flags_enum",
        "CUmemorytype_enum",
        "CUstreamCaptureMode_enum",
        "CUstreamCaptureStatus_enum",
        "CUgraphInstantiate_flags_enum",
        "CUgraphMem_attribute_enum",
        "CUdriverProcAddressQueryResult_enum",
        "PFN_cuGetProcAddress_v11030",
        "PFN_cuGetProcAddress_v12000",
    ];
    const CONSTANTS: &[&str] = &[
        "CUDA_VERSION",
        "CU_IPC_HANDLE_SIZE",
        "CU_MEMHOSTALLOC_.*",
        "CU_MEMHOSTREGISTER_.*",
        "CU_MEM_CREATE_USAGE_.*",
        "CU_MEM_POOL_CREATE_USAGE_.*",
    ];

    /// Since CUDA 13.2 the headers have a union with one member where `id` is. It is laid out as the member is, and could
    /// be neither compared nor printed. That the size is the headers' is asserted for the structures that contain it.
    const LOCATION: &str = "\
        #[repr(C)]\n\
        #[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]\n\
        pub struct CUmemLocation_st { pub type_: CUmemLocationType, pub id: ::core::ffi::c_int }";

    /// Leaves out what this crate has no use for: limits of textures and surfaces, and the sentinels `…_MAX`, whose
    /// values change with every release of the headers.
    #[derive(Debug)]
    struct Narrow;

    impl ParseCallbacks for Narrow {
        fn enum_variant_behavior(
            &self,
            enum_name: Option<&str>,
            variant: &str,
            _value: EnumVariantValue,
        ) -> Option<EnumVariantCustomBehavior> {
            let limit = enum_name.is_some_and(|name| name.contains("CUdevice_attribute"))
                && ["TEXTURE", "SURFACE", "TEX2D"].iter().any(|word| variant.contains(word));
            let sentinel = variant.ends_with("ATTRIBUTE_MAX") || variant.ends_with("_TYPE_MAX");
            (limit || sentinel).then_some(EnumVariantCustomBehavior::Hide)
        }

        /// [`LOCATION`] has them all.
        fn blocklisted_type_implements_trait(&self, _name: &str, _derive: DeriveTrait) -> Option<ImplementsTrait> {
            Some(ImplementsTrait::Yes)
        }
    }

    pub(crate) fn run() {
        println!("cargo::rerun-if-env-changed=CUPOOL_CUDA_INCLUDE");
        println!("cargo::rerun-if-changed=src/functions.rs");
        let include = PathBuf::from(env::var_os("CUPOOL_CUDA_INCLUDE").expect(
            "feature `bindgen` regenerates the bindings: set CUPOOL_CUDA_INCLUDE to a folder with cuda.h and \
             cudaTypedefs.h",
        ));
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        let table = fs::read_to_string("src/functions.rs").expect("src/functions.rs");
        let signatures =
            table.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| word.starts_with("PFN_cu"));

        let mut builder = Builder::default()
            .header(include.join("cuda.h").display().to_string())
            .header(include.join("cudaTypedefs.h").display().to_string())
            .clang_arg(format!("-I{}", include.display()))
            .allowlist_recursively(true)
            .default_enum_style(EnumVariation::NewType { is_bitfield: false, is_global: false })
            .generate_comments(false)
            .layout_tests(true)
            .derive_debug(true)
            .derive_eq(true)
            .derive_hash(true)
            .prepend_enum_name(false)
            .disable_header_comment()
            .merge_extern_blocks(true)
            .raw_line("// Generated from the CUDA headers by `scripts/bindings`; do not edit.")
            .blocklist_type("CUmemLocation_st.*")
            .raw_line(LOCATION)
            .parse_callbacks(Box::new(Narrow))
            .use_core();
        for name in signatures.chain(ALSO.iter().copied()) {
            builder = builder.allowlist_type(format!("^{name}$"));
        }
        for name in CONSTANTS {
            builder = builder.allowlist_var(format!("^{name}$"));
        }
        let bindings = builder.generate().expect("bindgen").to_string();
        fs::write(out.join("result_names.rs"), result_names(&bindings)).expect("result_names.rs");
        fs::write(out.join("bindings.rs"), bindings).expect("bindings.rs");
    }

    /// The names of the result codes, so that printing one needs no driver.
    fn result_names(bindings: &str) -> String {
        let mut names = String::from(
            "// Generated from the CUDA headers by `scripts/bindings`; do not edit.\n\n\
             pub(crate) const fn result_name(code: core::ffi::c_uint) -> Option<&'static str> {\n    \
             Some(match code {\n",
        );
        let mut known = 0;
        let flat = bindings.split_whitespace().collect::<Vec<_>>().join(" ");
        for constant in flat.split("pub const ").skip(1) {
            let Some((name, rest)) = constant.split_once(": cudaError_enum = cudaError_enum(") else { continue };
            let Some((code, _)) = rest.split_once(')') else { continue };
            writeln!(names, "        {code} => \"{name}\",").expect("to a string");
            known += 1;
        }
        assert!(known > 50, "only {known} result codes found");
        names.push_str("        _ => return None,\n    })\n}\n");
        names
    }
}
