//! Compiles the device program and the emulation of its machine with the processor's C compiler.

fn main() {
    for path in ["dpu", "emulation"] {
        println!("cargo::rerun-if-changed={path}");
    }
    cc::Build::new()
        .files(["emulation/runtime.c", "emulation/program.c", "emulation/planted.c"])
        .include("emulation/include")
        .std("gnu17")
        // Even a debug build must process its records in acceptable time.
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        // Fibers jump between stacks, which the checks of longjmp would reject.
        .flag("-U_FORTIFY_SOURCE")
        .flag("-fno-strict-aliasing")
        // A fiber's stack has 96 KiB.
        .flag_if_supported("-Wframe-larger-than=32768")
        .compile("spirea_pim_emulation");
}
