//! New files of private keys.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;

/// Writes a key's text to a new file that its owner alone can read. Fails if the file exists,
/// because an overwritten key would be lost.
pub(crate) fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.with_context(|| format!("{}: the key cannot be written; name a new file", path.display()))
}
