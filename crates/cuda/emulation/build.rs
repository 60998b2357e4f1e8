//! Compiles the runtime and the kernels with the machine's C++ compiler into libraries that pass
//! for `libcuda.so`.

use std::collections::VecDeque;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::SystemTime;

/// The checks cover operations that a GPU refuses, or that it executes differently from this
/// processor: misaligned accesses, and shifts by a word's width. A failed check traps, which the
/// runtime reports as an error of the launch.
const KERNEL_FLAGS: [&str; 6] = [
    "-O2",
    // A frame may take half of a fiber's stack.
    "-Werror=frame-larger-than=32768",
    "-fsanitize=alignment,shift-exponent,bounds,integer-divide-by-zero",
    "-fsanitize-undefined-trap-on-error",
    "-Wno-unused-function",
    "-Wno-unknown-pragmas",
];
/// Products of fragments need the vectoriser.
const RUNTIME_FLAGS: [&str; 1] = ["-O3"];
/// In DWARF 5, addr2line takes the first file of a unit for the one that it includes.
const COMMON_FLAGS: [&str; 8] = [
    "-std=c++20",
    "-g1",
    "-gdwarf-4",
    "-fno-strict-aliasing",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
];
/// At this level, instrumented kernels compile in two thirds of the time that `-O2` takes, and run
/// as fast.
const ASAN_KERNEL_FLAGS: [&str; 1] = ["-O1"];
/// Frames grow under the sanitizer, and stacks are larger.
const ASAN_FLAGS: [&str; 3] = ["-fsanitize=address", "-fno-omit-frame-pointer", "-Wno-frame-larger-than"];

/// Compiler call.
struct Unit {
    source: PathBuf,
    object: PathBuf,
    flags: Vec<String>,
}

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let (runtime, kernels, planted) = (root.join("runtime"), root.join("../kernels"), root.join("planted"));
    for folder in [&runtime, &kernels, &planted] {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    println!("cargo::rerun-if-env-changed=CXX");
    println!("cargo::rerun-if-env-changed=SPIREA_EMULATION_ASAN");
    println!("cargo::rustc-check-cfg=cfg(address_sanitizer)");

    let sanitized = env::var_os("SPIREA_EMULATION_ASAN").is_some_and(|value| value == "1");
    if sanitized {
        println!("cargo::rustc-cfg=address_sanitizer");
    }
    // Clippy runs build scripts of its own, and never runs anything that would load a library.
    let wrapper = env::var_os("RUSTC_WORKSPACE_WRAPPER").map(PathBuf::from);
    if wrapper.is_some_and(|wrapper| wrapper.file_stem().is_some_and(|name| name == "clippy-driver")) {
        return;
    }
    build(&out, "", &[], &[], [&runtime, &kernels, &planted]);
    if sanitized {
        build(&out, "asan", &ASAN_FLAGS, &ASAN_KERNEL_FLAGS, [&runtime, &kernels, &planted]);
    }
}

/// Builds the two libraries of a variant: with the product's kernels, and with the planted ones.
fn build(
    out: &Path,
    variant: &str,
    flags: &[&str],
    of_kernels: &[&str],
    [runtime, kernels, planted]: [&PathBuf; 3],
) {
    let (objects, wrappers) = (out.join("objects").join(variant), out.join("units"));
    let include = [format!("-I{}", kernels.display()), format!("-I{}", runtime.display())];
    let units = |folder: &Path, extension: &str, own: &[&str]| -> Vec<Unit> {
        let name = folder.file_name().expect("a folder's name");
        let flags = COMMON_FLAGS.iter().chain(own).chain(flags).map(ToString::to_string);
        let flags: Vec<_> = flags.chain(include.iter().cloned()).collect();
        sources(folder, extension)
            .map(|source| {
                let stem = source.file_stem().expect("a file's name");
                let object = objects.join(name).join(stem).with_extension("o");
                Unit { source, object, flags: flags.clone() }
            })
            .collect()
    };
    let mut kernel_flags = KERNEL_FLAGS.to_vec();
    kernel_flags.extend(of_kernels);
    kernel_flags.push("-DSPIREA_EMULATION");
    let units_of_kernels = |folder: &Path| {
        let mut units = units(folder, "cu", &kernel_flags);
        units.iter_mut().for_each(|unit| unit.source = wrapped(&unit.source, &wrappers));
        units
    };
    let runtime = units(runtime, "cpp", &RUNTIME_FLAGS);
    let (kernels, planted) = (units_of_kernels(kernels), units_of_kernels(planted));

    compile(runtime.iter().chain(&kernels).chain(&planted));
    link(&out.join(variant), flags, runtime.iter().chain(&kernels));
    link(&out.join(variant).join("planted"), flags, runtime.iter().chain(&planted));
}

/// Writes a file that makes all functions of a kernel's file the unit's own, and returns its path.
/// Otherwise the linker would merge functions of the same name from two files.
fn wrapped(kernel: &Path, wrappers: &Path) -> PathBuf {
    let folder = wrappers.join(kernel.parent().and_then(Path::file_name).expect("a folder's name"));
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let text = format!(
        "#include \"emulation.hpp\"\n\
         namespace {{\n\
         namespace spirea {{\n\
         using namespace ::spirea;\n\
         }}  // namespace spirea\n\
         #include \"{}\"\n\
         }}  // namespace\n",
        kernel.display()
    );
    let wrapper = folder.join(kernel.file_stem().expect("a file's name")).with_extension("cpp");
    // An object is older than a file that was written again.
    if fs::read_to_string(&wrapper).is_ok_and(|written| written == text) {
        return wrapper;
    }
    fs::write(&wrapper, text).unwrap_or_else(|error| panic!("{}: {error}", wrapper.display()));
    wrapper
}

fn sources(folder: &Path, extension: &str) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == extension));
    files.sort();
    files.into_iter()
}

/// Compiles outdated units, on as many threads as cargo allows.
fn compile<'a>(units: impl Iterator<Item = &'a Unit>) {
    let queue = Mutex::new(units.filter(|unit| !unit.is_current()).collect::<VecDeque<_>>());
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(unit) = { queue.lock().expect("no panic").pop_front() } {
                    if let Err(failure) = unit.compile() {
                        failures.lock().expect("no panic").push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

impl Unit {
    fn command(&self) -> Command {
        let mut command = compiler();
        command.args(&self.flags).arg("-MMD").arg("-c").arg(&self.source).arg("-o").arg(&self.object);
        command
    }

    /// Returns true if the object is newer than its inputs and was made by the same command. The
    /// command and the list of inputs are stored beside the object.
    fn is_current(&self) -> bool {
        let Ok(made) = modified(&self.object) else { return false };
        let command = fs::read_to_string(self.object.with_extension("command")).unwrap_or_default();
        let inputs = fs::read_to_string(self.object.with_extension("d")).unwrap_or_default();
        let mut inputs =
            inputs.split_ascii_whitespace().filter(|word| *word != "\\" && !word.ends_with(':')).peekable();
        command == format!("{:?}", self.command())
            && inputs.peek().is_some()
            && inputs.all(|input| modified(Path::new(input)).is_ok_and(|time| time < made))
    }

    fn compile(&self) -> Result<(), String> {
        fs::create_dir_all(self.object.parent().expect("a folder")).map_err(|error| error.to_string())?;
        let mut command = self.command();
        run(&mut command)?;
        let text = format!("{command:?}");
        fs::write(self.object.with_extension("command"), text).map_err(|error| error.to_string())
    }
}

fn modified(file: &Path) -> io::Result<SystemTime> {
    fs::metadata(file)?.modified()
}

fn link<'a>(folder: &Path, flags: &[&str], units: impl Iterator<Item = &'a Unit>) {
    fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let fresh = folder.join("libcuda.so.fresh");
    let mut command = compiler();
    command.args(flags).args(["-shared", "-pthread", "-Wl,-soname,libcuda.so", "-o"]).arg(&fresh);
    command.args(units.map(|unit| &unit.object));
    run(&mut command).unwrap_or_else(|failure| panic!("{failure}"));
    // Renamed, so that a process that has loaded the old library keeps it intact.
    let library = folder.join("libcuda.so");
    fs::rename(&fresh, &library).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
}

fn compiler() -> Command {
    Command::new(env::var_os("CXX").unwrap_or_else(|| "g++".into()))
}

/// Runs a command. Cargo shows its warnings; an error contains all of the compiler's output.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| {
        format!(
            "the CUDA emulation needs a C++20 compiler (g++ 12 or later, or set CXX); {:?}: {error}",
            command.get_program()
        )
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{command:?}\n{said}"));
    }
    for line in said.lines() {
        println!("cargo::warning={line}");
    }
    Ok(())
}
