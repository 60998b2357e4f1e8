//! A folder of files as the source of a stream: each file's end is a cursor.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use spirea_store::changes::Cursor;

use super::NO_THREAD;
use super::lines::{Lines, Piece, send_bytes};

/// Suffix of the names of files that are read. Other files are ignored, so a producer writes under
/// another name, and renames the complete file.
const ENDING: &str = ".jsonl";
/// Pause between two listings of the folder.
const LOOK: Duration = Duration::from_millis(200);

/// Returns the cursor that marks the end of a file.
///
/// # Errors
/// The name is too long.
pub fn cursor(name: &str, lines: u64) -> anyhow::Result<Cursor> {
    format!("{name}:{lines}").try_into().with_context(|| format!("{name}: its name is too long"))
}

/// Begins to read the files after a cursor, and files that appear later.
///
/// # Errors
/// The folder cannot be read; the cursor does not name a file; or the file has another number of
/// lines than the cursor says.
pub fn read(folder: &Path, after: Option<&Cursor>) -> anyhow::Result<Lines> {
    let last = after.map(|cursor| last(folder, cursor)).transpose()?;
    let mut reader = Reader { folder: folder.into(), read: names(folder)?, last: last.unwrap_or_default() };
    reader.read.retain(|name| *name <= reader.last);
    let name = folder.display().to_string();
    Lines::pieces(&name, move |pieces| reader.send(pieces)).context(NO_THREAD)
}

/// Returns the name of the last file that was read. If the file still exists, checks that its
/// number of lines is that of the cursor.
fn last(folder: &Path, cursor: &Cursor) -> anyhow::Result<String> {
    let parts = cursor.as_str().rsplit_once(':');
    let parts = parts.and_then(|(name, lines)| Some((name, lines.parse::<u64>().ok()?)));
    let Some((name, lines)) = parts.filter(|(name, _)| name.ends_with(ENDING)) else {
        bail!(
            "the current version has the cursor {cursor}, which names no file and line: a stream of another kind was published"
        );
    };
    let path = folder.join(name);
    if path.exists() {
        let mut found = 0;
        let mut file = BufReader::new(File::open(&path).with_context(|| path.display().to_string())?);
        let mut line = Vec::new();
        while file.read_until(b'\n', &mut line).with_context(|| path.display().to_string())? > 0 {
            found += 1;
            line.clear();
        }
        ensure!(
            found == lines,
            "{}: it has {found} lines, and {lines} were published: files must not change; add another one",
            path.display()
        );
    }
    Ok(name.into())
}

/// Returns the names of a folder's files.
fn names(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let place = || folder.display().to_string();
    let mut names = BTreeSet::new();
    for entry in folder.read_dir().with_context(place)? {
        // Names that are not valid text are ignored like names without the suffix.
        if let Ok(name) = entry.with_context(place)?.file_name().into_string()
            && name.ends_with(ENDING)
        {
            names.insert(name);
        }
    }
    Ok(names)
}

/// State of reading a folder.
struct Reader {
    folder: PathBuf,
    /// Names of files that were read.
    read: BTreeSet<String>,
    /// Name of the last file that was read.
    last: String,
}

impl Reader {
    /// Sends files as they appear, until the receiver is dropped or a file cannot be read.
    fn send(mut self, pieces: &SyncSender<io::Result<Piece>>) {
        loop {
            match self.send_new(pieces) {
                Ok(true) => thread::sleep(LOOK),
                Ok(false) => return,
                Err(error) => return drop(pieces.send(Err(io::Error::other(format!("{error:#}"))))),
            }
        }
    }

    /// Sends the files that are new. Returns true if further files may follow.
    fn send_new(&mut self, pieces: &SyncSender<io::Result<Piece>>) -> anyhow::Result<bool> {
        for name in names(&self.folder)? {
            if self.read.contains(&name) {
                continue;
            }
            ensure!(
                name > self.last,
                "{name} appeared after {}: names must rise in the order of bytes",
                self.last
            );
            let file = File::open(self.folder.join(&name)).with_context(|| name.clone())?;
            let begun = pieces.send(Ok(Piece::Begin(name.clone()))).is_ok();
            if !(begun && send_bytes(file, pieces) && pieces.send(Ok(Piece::End)).is_ok()) {
                return Ok(false);
            }
            self.read.insert(name.clone());
            self.last = name;
        }
        Ok(true)
    }
}
