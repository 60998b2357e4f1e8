//! The served table, in editions. Each value states its row and its edition, so that every answer
//! can be checked.

use std::path::{Path, PathBuf};

use spirea_client::{ClientError, ClientOptions, HttpClient, Value};
use spirea_specimens::snapshots::{columns, csv_options, try_build};
use spirea_store::repository::{Settings, Shrinking};
use spirea_store::{BuildOptions, Repository, Silent, Snapshot};

pub const ROWS: usize = 16;

pub fn key(row: usize) -> String {
    format!("key-{row}")
}

/// All values have the same length, so that a table's shape does not depend on its edition.
pub fn value(row: usize, edition: u64) -> String {
    format!("value {row:03} of edition {edition:09}")
}

/// Returns the edition of a row's value. Any other value is a wrong answer.
pub fn edition_of(row: usize, value: Option<&Value>) -> u64 {
    let bytes = &value.unwrap_or_else(|| panic!("row {row} is not there")).fields()[0];
    let text = String::from_utf8_lossy(bytes);
    let edition = text.rsplit(' ').next().and_then(|edition| edition.parse().ok());
    let edition = edition.unwrap_or_else(|| panic!("row {row} has the value {text:?}"));
    assert_eq!(text, self::value(row, edition), "a wrong value for row {row}");
    edition
}

/// Builds a snapshot of an edition of the table called `name`.
pub fn snapshot(folder: &Path, name: &str, protocol: &str, edition: u64) -> Snapshot {
    let rows: String = (0..ROWS).map(|row| format!("{},{}\n", key(row), value(row, edition))).collect();
    let out = folder.join(format!("{name}-{edition}"));
    let lines = format!("key,value\n{rows}");
    let options = csv_options(&out, protocol, columns(Some("key"), &["value"]), &lines);
    try_build(&BuildOptions { name: Some(name.into()), ..options }).unwrap()
}

/// Creates a repository with one snapshot.
pub fn repository(folder: &Path, snapshot: &Snapshot) -> PathBuf {
    let path = folder.join(format!("{}-repository", snapshot.manifest().name));
    Repository::create(&path, Settings::default())
        .unwrap()
        .add_base(snapshot, Shrinking::Refuse, &Silent)
        .unwrap();
    path
}

/// Packs a snapshot for upload.
pub fn archive(snapshot: &Snapshot) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let names = snapshot.manifest().files().map(|entry| entry.file.clone());
    for name in ["manifest.json".into()].into_iter().chain(names) {
        archive.append_path_with_name(snapshot.folder().join(&name), &name).unwrap();
    }
    archive.into_inner().unwrap()
}

/// Encodes changes of rows to an edition.
pub fn changes(rows: impl IntoIterator<Item = usize>, edition: u64) -> Vec<u8> {
    let line = |row| format!("{{\"key\": \"{}\", \"value\": \"{}\"}}\n", key(row), value(row, edition));
    rows.into_iter().map(line).collect::<String>().into_bytes()
}

/// Copies a folder.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

pub fn options(cache: &Path) -> ClientOptions {
    ClientOptions { cache: Some(cache.into()), ..ClientOptions::default() }
}

/// Returns the editions of all rows, as a new client finds them.
///
/// # Errors
/// Those of the client.
pub fn editions(url: &str, name: &str, cache: &Path) -> Result<Vec<u64>, ClientError> {
    let mut client = HttpClient::connect_with(&[url], name, options(cache))?;
    let keys: Vec<String> = (0..ROWS).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let values = client.get_keys(&keys)?;
    Ok(values.iter().enumerate().map(|(row, value)| edition_of(row, value.as_ref())).collect())
}
