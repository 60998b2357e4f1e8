//! Files of private keys, which only their owner may be able to read.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use zeroize::Zeroizing;

/// Maximum length of a file, in bytes.
const MAX_BYTES: u64 = 16 << 10;

/// Reads a file that `command` made.
///
/// # Errors
/// A text with the file, the cause and the remedy.
pub(super) fn read(path: &Path, command: &str) -> Result<Zeroizing<String>, String> {
    let place = path.display();
    let unreadable = |error| format!("{place} cannot be read: {error}; name a file that `{command}` made");
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.mode() & 0o077 != 0 {
        return Err(format!(
            "{place}: others than its owner may read this private key: chmod 600 it, or make a new one if they have"
        ));
    }
    // Allocated at its maximum length: growing would leave copies in freed memory.
    let mut text = Zeroizing::new(String::with_capacity(MAX_BYTES as usize));
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}
