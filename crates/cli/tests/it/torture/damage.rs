//! Files damaged on disk: the server answers rightly from intact files, or names the damaged one.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;

use crate::torture::service::{Http, Service, serve};
use crate::torture::table::{ROWS, changes, copy, editions, repository, snapshot};

const NAME: &str = "table";

/// Kind of damage to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    FlippedBit,
    Truncated,
    Empty,
}

impl Damage {
    fn apply(self, path: &Path) {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        match self {
            Self::FlippedBit => bytes[middle] ^= 0x10,
            Self::Truncated => bytes.truncate(middle),
            Self::Empty => bytes.clear(),
        }
        std::fs::write(path, bytes).unwrap();
    }
}

/// Collects all nonempty files below a folder, with paths relative to it.
pub fn files(folder: &Path, below: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        match entry.metadata().unwrap() {
            metadata if metadata.is_dir() => files(folder, &path, found),
            metadata if metadata.len() > 0 => found.push(path),
            _ => (),
        }
    }
}

/// Makes a repository of two versions, a base with changes and the base alone. Returns its path and
/// the editions of the first version.
pub fn changed_repository(folder: &Path) -> (PathBuf, Vec<u64>) {
    let path = repository(folder, &snapshot(folder, NAME, "simple", 1));
    let service = Service::started(serve(&[&path], &[]), &folder.join("server.log"));
    service.published(&Http::new(), NAME, "changes", &changes([0, 1], 2));
    let current = editions(&service.url, NAME, &folder.join("cache")).unwrap();
    (path, current)
}

/// Starts a server and returns the editions that it answers, or the reason why it does not answer.
pub fn answered_by(server: Command, folder: &Path) -> Result<Vec<u64>, String> {
    let service = Service::start(server, &folder.join("server.log"))?;
    service.ready()?;
    let cache = tempfile::tempdir_in(folder).unwrap();
    Ok(editions(&service.url, NAME, cache.path()).unwrap())
}

#[test]
fn a_damaged_file_is_named_or_not_needed() {
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let (whole, current) = changed_repository(folder);
    let former = vec![1; ROWS];
    let mut all = Vec::new();
    files(&whole, Path::new(""), &mut all);
    assert!(all.len() > 8, "{all:?}");
    let (mut refused, mut answered) = (0, 0);
    for file in &all {
        for damage in [Damage::FlippedBit, Damage::Truncated, Damage::Empty] {
            let damaged = folder.join("damaged");
            copy(&whole, &damaged);
            damage.apply(&damaged.join(file));
            match answered_by(serve(&[&damaged], &[]), folder) {
                Ok(found) => {
                    answered += 1;
                    assert!(found == current || found == former, "{damage:?} {}: {found:?}", file.display());
                }
                Err(said) => {
                    refused += 1;
                    let name = file.file_name().unwrap().to_string_lossy();
                    assert!(said.contains(&*name), "{damage:?} {}: {said}", file.display());
                }
            }
            std::fs::remove_dir_all(&damaged).unwrap();
        }
    }
    println!(
        "{} files damaged in 3 ways: refused with the file's name {refused} times, answered rightly without it {answered} times",
        all.len()
    );
    assert!(refused > 0);
}
