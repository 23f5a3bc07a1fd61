//! What must not compile. Each file in `tests/ui/` holds one misuse, and says in its first line why it is one.
//!
//! What makes it a misuse is under `#[cfg(misuse)]`, and `//~ E0505` ends the line at which the compiler must
//! object, and names its error. With the misuse, exactly these errors are expected; without it, where all files make one
//! crate, none is, so that no file fails for another reason than its own. The compiler's words are not compared: they
//! change from version to version.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test's own functions, as in its `#[test]` functions, a surprise ends the test"
)]

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

#[test]
fn misuse_does_not_compile() {
    check("tests/ui");
}

#[cfg(feature = "launch")]
#[test]
fn misuse_of_launches_does_not_compile() {
    check("tests/ui/launch");
}

#[cfg(feature = "dlpack")]
#[test]
fn misuse_of_tensors_does_not_compile() {
    check("tests/ui/dlpack");
}

/// A line and what the compiler objects to there.
type Errors = BTreeSet<(usize, String)>;

/// The crate as compiled for these tests, and the one whose traits its elements have.
struct Crates {
    cupool: PathBuf,
    bytemuck: PathBuf,
}

/// Compiles every file in `folder`, with its misuse and without.
fn check(folder: &str) {
    let mut files: Vec<String> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".rs"))
        .map(|name| format!("{folder}/{name}"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "nothing in {folder}");

    let (errors, output) = compile(&without_misuse(folder, &files), "without", &[]);
    assert!(errors.is_empty(), "not all of {folder} compiles without its misuse:\n\n{output}");

    let next = AtomicUsize::new(0);
    let work = || {
        let mine = || files.get(next.fetch_add(1, Ordering::Relaxed));
        core::iter::from_fn(mine).filter_map(|file| complaint(file)).collect()
    };
    let workers = thread::available_parallelism().map_or(1, Into::into);
    let complaints: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| -> Vec<String> { worker.join().unwrap() }).collect()
    });
    println!("{} files in {folder}", files.len());
    assert!(complaints.is_empty(), "{} of {} files:\n\n{}", complaints.len(), files.len(), complaints.join("\n"));
}

/// Writes a crate of all `files`, and returns its path.
fn without_misuse(folder: &str, files: &[String]) -> String {
    let text = files.iter().map(|file| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        format!("#[path = {path:?}]\npub mod {};\n", path.file_stem().unwrap().to_str().unwrap())
    });
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.rs", folder.replace('/', "-")));
    fs::write(&root, text.collect::<String>()).unwrap();
    root.into_os_string().into_string().unwrap()
}

/// What is wrong with `file`, if anything is.
fn complaint(file: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    if !text.starts_with("//! ") {
        return Some(format!("{file}: its first line does not say why it must not compile"));
    }
    let expected = annotated(&text);
    if expected.is_empty() || !["#[cfg(misuse)]", "#[cfg(not(misuse))]"].iter().any(|cfg| text.contains(cfg)) {
        return Some(format!("{file}: names no error, or no misuse"));
    }
    let (errors, output) = compile(file, "with", &["--cfg=misuse"]);
    (errors != expected).then(|| format!("{file}: expected {expected:?}, found {errors:?}\n{output}"))
}

/// The errors that the file itself names: `//~ E0505` for the same line, `//~^ E0505` for the one above.
fn annotated(text: &str) -> Errors {
    let annotation = |(at, line): (usize, &str)| {
        let (_, note) = line.split_once("//~")?;
        let code = note.trim_start_matches('^');
        Some((at + 1 - (note.len() - code.len()), code.trim().to_owned()))
    };
    text.lines().enumerate().filter_map(annotation).collect()
}

/// The errors in `file`, and all that the compiler says.
fn compile(file: &str, name: &str, arguments: &[&str]) -> (Errors, String) {
    let crates = crates();
    let object = format!("{}-{name}.o", Path::new(file).file_stem().unwrap().display());
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["--edition=2024", "--crate-type=lib", "--error-format=short", "--allow=warnings", "--crate-name=ui"])
        // Code, not metadata alone: some assertions are evaluated for it only.
        .args(["--emit=obj", "--codegen=codegen-units=1", "-o"])
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join(object))
        .arg(format!("--extern=cupool={}", crates.cupool.display()))
        .arg(format!("--extern=bytemuck={}", crates.bytemuck.display()))
        .arg(format!("-Ldependency={}", crates.cupool.parent().unwrap().display()))
        .args(arguments)
        .arg(file);
    let output = rustc.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut errors = reported(file, &text);
    if errors.is_empty() && !output.status.success() {
        errors.insert((0, output.status.to_string()));
    }
    (errors, text)
}

/// The errors in the compiler's short output. One that lies in another file counts where `file` brought it about,
/// which the note after it tells; line 0 if none does.
fn reported(file: &str, output: &str) -> Errors {
    let mut errors = Errors::new();
    let mut elsewhere = None;
    for line in output.lines() {
        let here = line.strip_prefix(file).and_then(|rest| rest.strip_prefix(':'));
        let number = here.and_then(|rest| rest.split_once(':')?.0.parse().ok());
        let code = line.split_once("error[").and_then(|(_, rest)| Some(rest.split_once(']')?.0.to_owned()));
        let uncoded = || line.contains("error: ") && !line.contains("error: aborting due to");
        match (number, code.or_else(|| uncoded().then(|| line.to_owned()))) {
            (Some(number), Some(code)) => drop(errors.insert((number, code))),
            (None, Some(code)) => errors.extend(elsewhere.replace(code).map(|code| (0, code))),
            (Some(number), None) => errors.extend(elsewhere.take().map(|code| (number, code))),
            (None, None) => {}
        }
    }
    errors.extend(elsewhere.map(|code| (0, code)));
    errors
}

/// Has cargo compile the crate (or find that it has done so), with the features that these tests have, and say where it is.
fn crates() -> &'static Crates {
    static CRATES: OnceLock<Crates> = OnceLock::new();
    CRATES.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "--lib", "--message-format=json"]);
        for (feature, has_it) in [("dlpack", cfg!(feature = "dlpack")), ("launch", cfg!(feature = "launch"))] {
            if has_it {
                cargo.args(["--features", feature]);
            }
        }
        let output = cargo.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        // Among the strings of the messages, the names of the files that were made.
        let made = |name: &str| -> PathBuf {
            let paths = text.split('"').map(|string| PathBuf::from(string.replace(r"\\", r"\")));
            let is_wanted = |path: &PathBuf| {
                path.extension().is_some_and(|extension| extension == "rmeta")
                    && path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))
            };
            let found = paths.into_iter().find(is_wanted);
            found.unwrap_or_else(|| panic!("no {name}\n{text}{}", String::from_utf8_lossy(&output.stderr)))
        };
        Crates { cupool: made("libcupool-"), bytemuck: made("libbytemuck-") }
    })
}
