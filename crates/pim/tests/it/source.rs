//! Tests of the source of the device program. `make check-pim-program` compiles it with compilers
//! other than the machine's.

use std::path::Path;

use spirea_pim::image_source_hash;

#[test]
fn the_image_of_32_bits_is_of_this_source() {
    let source = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("dpu/dpxor.c")).unwrap();
    let hash = source.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    assert_eq!(image_source_hash(), hash, "make the image anew: scripts/pim_image.py");
}

/// Tests that the program includes only headers from the SDK's list, and none of this project.
#[test]
fn the_program_has_only_the_headers_of_the_sdk() {
    let source = include_str!("../../dpu/dpxor.c");
    let included: Vec<&str> = source.lines().filter_map(|line| line.strip_prefix("#include ")).collect();
    assert_eq!(included, ["<alloc.h>", "<barrier.h>", "<defs.h>", "<mram.h>", "<stdint.h>"]);
}
