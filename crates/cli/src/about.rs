//! Facts about the program and this machine: `spirea --version --verbose` and `spirea doctor
//! --report`.

use std::env::consts::{ARCH, OS};
use std::ffi::OsStr;
use std::fs::read_to_string;

use spirea_cpu::Isa;
use spirea_cuda::driver::{Device, device_count, driver_version};

/// Name and value of a fact.
pub type Fact = (&'static str, String);

/// Environment variables, besides those with the program's own prefix, whose presence changes the
/// program's behaviour.
const VARIABLES: [&str; 5] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "rust_backtrace"];
const PREFIX: &str = "spirea_";

/// Formats a fact as a line of text.
pub fn line((name, value): &Fact) -> String {
    format!("{name:<13}  {value}")
}

/// True if these are the arguments `--version` and `--verbose`, in either order.
pub fn is_asked(arguments: &[impl AsRef<OsStr>]) -> bool {
    let [first, second] = arguments else { return false };
    let given = [first.as_ref(), second.as_ref()];
    let version = given.iter().any(|argument| *argument == "--version" || *argument == "-V");
    version && given.iter().any(|argument| *argument == "--verbose")
}

/// Returns facts about the program. The commit is the value of `SPIREA_COMMIT` at compile time.
pub fn program() -> Vec<Fact> {
    let commit = option_env!("SPIREA_COMMIT").filter(|commit| !commit.is_empty());
    let checked = if cfg!(debug_assertions) { "with debug assertions" } else { "without debug assertions" };
    let stores = if cfg!(feature = "object-store") { "object-store" } else { "none" };
    vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("commit", commit.unwrap_or("not recorded when it was compiled").to_owned()),
        ("compiled for", format!("{ARCH}-{OS}-{}, {checked}", environment())),
        ("features", stores.to_owned()),
        ("CPU kernels", names(Isa::available())),
        ("GPU kernels", spirea_cuda::pack_architectures().unwrap_or_else(|error| error.to_string())),
    ]
}

/// Returns facts about the machine, without any name, path or value that a user chose.
pub fn machine() -> Vec<Fact> {
    let release = read_to_string("/etc/os-release").unwrap_or_default();
    let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or(OS);
    let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    vec![
        ("system", format!("{} {}", system.trim_matches('"'), kernel.trim()).trim_end().to_owned()),
        ("processor", format!("{}, {threads} threads", processor())),
        ("memory", format!("{:.1} GiB", spirea_cpu::memory_bytes() as f64 / f64::from(1 << 30))),
        ("open files", open_files()),
        ("GPU", gpus()),
        ("variables set", names(variables())),
    ]
}

/// Returns the processor's name if the system reports it, else its architecture.
pub fn processor() -> String {
    let described = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = described.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or(ARCH, |(_, name)| name.trim()).to_owned()
}

/// Returns the C library that the program is linked to.
fn environment() -> &'static str {
    match () {
        () if cfg!(target_env = "gnu") => "gnu",
        () if cfg!(target_env = "musl") => "musl",
        () if cfg!(target_env = "msvc") => "msvc",
        () => "system",
    }
}

/// Returns the soft and the hard limit of open files.
fn open_files() -> String {
    let limits = read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut values = line.into_iter().flat_map(str::split_whitespace);
    match (values.next(), values.next()) {
        (Some(soft), Some(hard)) => format!("{soft}, at most {hard}"),
        _ => "not told by the system".to_owned(),
    }
}

/// Returns the driver and the devices, or the reason why there are none.
fn gpus() -> String {
    let described = driver_version().and_then(|driver| {
        let devices: Result<Vec<_>, _> = (0..device_count()?).map(Device::open).collect();
        let devices = devices?;
        let devices = devices
            .iter()
            .map(|device| format!("{} (kernels {})", device.properties().name, device.targets()));
        let devices = names(devices);
        Ok(format!("driver {driver}: {devices}"))
    });
    described.unwrap_or_else(|error| format!("none: {error}"))
}

/// Returns the names of those environment variables that are set and matter to the program. Their
/// values may be secret.
fn variables() -> Vec<String> {
    let mut set: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    set.retain(|name| {
        let name = name.to_ascii_lowercase();
        name.starts_with(PREFIX) || VARIABLES.contains(&&*name)
    });
    set.sort_unstable();
    set
}

/// Joins names with commas.
fn names<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_flags_in_either_order_ask() {
        assert!(is_asked(&["--version", "--verbose"]) && is_asked(&["--verbose", "-V"]));
        assert!(!is_asked(&["--version"]) && !is_asked(&["--verbose", "--verbose"]));
        assert!(!is_asked(&["--version", "--verbose", "get"]));
    }

    #[test]
    fn facts_have_values() {
        for (name, value) in program().into_iter().chain(machine()) {
            assert!(!value.trim().is_empty() && !value.contains('\n'), "{name}: {value:?}");
        }
    }
}
