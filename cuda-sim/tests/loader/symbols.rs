//! Which entry points a driver has, and what is made of those it lacks.

use cuda_sys::{CUresult, Library, Need, Reason, Symbol};
use libloading::os::unix::{Library as SharedObject, RTLD_LOCAL, RTLD_NOW};

use crate::layout::{Layout, image, load, only_attempt, without_export};

fn symbols(need: Need) -> impl Iterator<Item = Symbol> {
    Symbol::ALL.iter().copied().filter(move |symbol| symbol.need() == need)
}

fn missing(library: &Library) -> Vec<Symbol> {
    library.missing().collect()
}

#[test]
fn a1_each_required_entry_point_fails_the_load_by_name() {
    let layout = Layout::new();
    let driver = layout.driver("libcuda.so.1");
    for symbol in symbols(Need::Required) {
        layout.file("libcuda.so.1.sim", format!("version = 12080\nwithout = {}", symbol.row()));
        let attempt = only_attempt(load(&driver));
        assert_eq!(attempt.reason, Reason::MissingRequired { symbol, version: 12080 });
        assert!(
            attempt.to_string().contains(&format!("(CUDA 12.8) lacks the required entry point `{}`", symbol.row()))
        );
    }
}

#[test]
fn a1_each_optional_entry_point_is_missed_alone() {
    let layout = Layout::new();
    let complete = missing(load(&layout.driver("complete.so")).unwrap());
    for symbol in symbols(Need::Optional).filter(|symbol| !complete.contains(symbol)) {
        let name = format!("without-{}.so", symbol.row());
        let library = load(&layout.altered(&name, &format!("without = {}", symbol.row()))).unwrap();
        let expected: Vec<_> =
            Symbol::ALL.iter().copied().filter(|other| *other == symbol || complete.contains(other)).collect();
        assert_eq!(missing(library), expected);
    }
}

#[test]
fn a1_an_older_driver_lacks_what_is_newer_and_nothing_else() {
    let layout = Layout::new();
    let complete = missing(load(&layout.driver("complete.so")).unwrap());
    for version in [11030, 11040, 12000, 12020, 12080] {
        let library = load(&layout.altered(&format!("{version}.so"), &format!("version = {version}"))).unwrap();
        assert_eq!(library.driver_version(), version);
        let newer = |symbol: &Symbol| symbol.since() > version || complete.contains(symbol);
        assert_eq!(missing(library), Symbol::ALL.iter().copied().filter(newer).collect::<Vec<_>>());
    }
}

#[test]
fn a9_either_signature_of_the_look_up_is_enough() {
    let layout = Layout::new();
    let complete = missing(load(&layout.driver("both.so")).unwrap());
    let only_v1 = without_export(image(), c"cuGetProcAddress_v2");
    let only_v2 = without_export(image(), c"cuGetProcAddress");
    for (name, image) in [("only-v1.so", &only_v1), ("only-v2.so", &only_v2)] {
        let library = load(&layout.file(name, image)).unwrap();
        assert_eq!(missing(library), complete, "{name}");
    }

    // A missing function is an error code through the one, and a null pointer through the other.
    for (name, image) in [("short-v1.so", &only_v1), ("short-v2.so", &only_v2)] {
        layout.file(&format!("{name}.sim"), "without = cuMemPoolTrimTo");
        let attempt = only_attempt(load(&layout.file(name, image)));
        assert!(matches!(attempt.reason, Reason::MissingRequired { symbol: Symbol::cuMemPoolTrimTo, .. }), "{attempt}");
    }
}

#[test]
fn a9_neither_signature_of_the_look_up_is_not_a_driver() {
    let layout = Layout::new();
    let neither = without_export(&without_export(image(), c"cuGetProcAddress_v2"), c"cuGetProcAddress");
    let attempt = only_attempt(load(&layout.file("libcuda.so.1", neither)));
    assert_eq!(attempt.reason, Reason::NotADriver { missing: "cuGetProcAddress" });
}

#[test]
fn a9_two_signatures_of_one_name_are_two_functions_or_one_is_missing() {
    let layout = Layout::new();
    let library = load(&layout.altered("libcuda.so.1", "without = cuDeviceGetUuid_v2")).unwrap();
    assert!(library.functions().cuDeviceGetUuid_v2.is_none());
    let library = load(&layout.altered("other.so", "without = cuDeviceGetUuid")).unwrap();
    assert!(library.functions().cuDeviceGetUuid.is_none());
}

#[test]
fn a12_loading_initialises_nothing() {
    let layout = Layout::new();
    let driver = layout.driver("libcuda.so.1");
    let library = load(&driver).unwrap();
    let functions = library.functions();
    assert_eq!(inits(library), 0);
    assert!(library.driver_version() >= 11030);
    let mut count = 0;
    // SAFETY: `count` outlives the call.
    let code = unsafe { (functions.cuDeviceGetCount)(&mut count) };
    assert_eq!(code, CUresult::CUDA_ERROR_NOT_INITIALIZED);

    // SAFETY: `cuInit` takes no pointers.
    let code = unsafe { (functions.cuInit)(0) };
    assert_eq!((code, inits(library)), (CUresult::CUDA_SUCCESS, 1), "the counter counts");
}

#[test]
fn a_code_of_cu_init_is_the_programs_to_see() {
    let layout = Layout::new();
    let library = load(&layout.altered("libcuda.so.1", "init = 802")).unwrap();
    // SAFETY: `cuInit` takes no pointers.
    let code = unsafe { (library.functions().cuInit)(0) };
    assert_eq!(code, CUresult::CUDA_ERROR_SYSTEM_NOT_READY);
}

/// How many times `cuInit` was called in this copy of the simulated driver.
fn inits(library: &Library) -> u64 {
    // SAFETY: it is loaded already, and the function has this signature.
    unsafe {
        let object = SharedObject::open(Some(library.path()), RTLD_NOW | RTLD_LOCAL).unwrap();
        object.get::<extern "C" fn() -> u64>(c"cupool_sim_inits").unwrap()()
    }
}
