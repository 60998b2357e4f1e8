//! Any bytes decode to a file of `spirea get --resume`, or give an error that names the file.
#![no_main]

#[path = "../../crates/cli/src/get/resume/check.rs"]
mod check;
// Includes this file directly, because its package would compile a server with sanitisers.
#[path = "../../crates/cli/src/get/resume.rs"]
#[expect(dead_code, reason = "the command restarts lists")]
mod resume;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use resume::{Asked, Resume};
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

fuzz_target!(|bytes: &[u8]| check::check(FOLDER.path(), bytes));
