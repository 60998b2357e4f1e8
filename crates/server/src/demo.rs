//! The demo page: the files of a folder, read once. `routes` serves them beside the endpoints for
//! clients.
//!
//! The page is an ordinary client. It is only a demo because the server also supplies the client's
//! code: a user who does not trust a server must not take the code from it either.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzEncoder;
use spirea_protocols::FileHash;

/// The page's first file.
pub(crate) const INDEX: &str = "index.html";
/// Maximum depth of nested folders, and maximum bytes of all files.
const MOST: (usize, u64) = (4, 16 << 20);

/// Reason why the demo page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A file cannot be read.
    #[error("{}: the demo page cannot be read: {source}; `make web` makes it", .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder holds no page.
    #[error("{}: there is no {INDEX} in it, or much that is no page: this is not the folder that `make web` makes", .0.display())]
    NoPage(PathBuf),
}

/// A file of the page.
pub(crate) struct PageFile {
    pub content_type: &'static str,
    pub blake3: FileHash,
    pub content: Bytes,
    /// The content, compressed with gzip.
    pub packed: Bytes,
}

/// The page's files by path.
pub(crate) struct Demo(HashMap<String, PageFile>);

/// Content types and contents of files, by path.
type Files = HashMap<String, (&'static str, Bytes)>;

impl Demo {
    /// Reads those files of a folder whose types a page may have.
    pub fn read(folder: &Path) -> Result<Self, DemoError> {
        let pack = |(path, (content_type, content)): (String, (&'static str, Bytes))| {
            let (blake3, packed) = (blake3::hash(&content).into(), packed(&content));
            (path, PageFile { content_type, blake3, content, packed })
        };
        Ok(Self(files(folder)?.into_iter().map(pack).collect()))
    }

    /// Checks that there is a page in a folder.
    pub fn check(folder: &Path) -> Result<(), DemoError> {
        files(folder).map(drop)
    }

    /// Returns the file of a path.
    pub fn file(&self, path: &str) -> Option<&PageFile> {
        self.0.get(path)
    }
}

fn packed(content: &[u8]) -> Bytes {
    let mut packed = Vec::new();
    io::copy(&mut GzEncoder::new(content, Compression::default()), &mut packed)
        .expect("memory is read and written");
    packed.into()
}

fn files(folder: &Path) -> Result<Files, DemoError> {
    let mut files = HashMap::new();
    let mut left = MOST.1;
    collect(folder, "", MOST.0, &mut left, &mut files)?;
    if files.contains_key(INDEX) && left > 0 { Ok(files) } else { Err(DemoError::NoPage(folder.into())) }
}

fn collect(
    folder: &Path,
    prefix: &str,
    depth: usize,
    left: &mut u64,
    files: &mut Files,
) -> Result<(), DemoError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| DemoError::Read { path, source }
    };
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let about = fs::metadata(&path).map_err(failed(&path))?;
        if about.is_dir() && depth > 0 {
            collect(&path, &format!("{prefix}{name}/"), depth - 1, left, files)?;
        } else if let Some(content_type) = content_type(name) {
            *left = left.saturating_sub(about.len());
            if *left > 0 {
                let content = fs::read(&path).map_err(failed(&path))?;
                files.insert(format!("{prefix}{name}"), (content_type, content.into()));
            }
        }
    }
    Ok(())
}

/// Returns the content type of a file, if a page may have such a file.
fn content_type(name: &str) -> Option<&'static str> {
    Some(match name.rsplit('.').next()? {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_page_are_read_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Demo::read(&folder.path().join("none")), Err(DemoError::Read { .. })));
        fs::create_dir_all(folder.path().join("worker/deep")).unwrap();
        fs::write(folder.path().join("worker/web.js"), "1").unwrap();
        fs::write(folder.path().join("private.pem"), "2").unwrap();
        assert!(matches!(Demo::read(folder.path()), Err(DemoError::NoPage(_))));
        fs::write(folder.path().join("index.html"), "<!doctype html>").unwrap();
        fs::write(folder.path().join("worker/deep/client.wasm"), "3").unwrap();
        let demo = Demo::read(folder.path()).unwrap();
        let mut paths: Vec<_> = demo.0.keys().map(String::as_str).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["index.html", "worker/deep/client.wasm", "worker/web.js"]);
        let module = demo.file("worker/deep/client.wasm").unwrap();
        assert_eq!((module.content_type, &module.content[..]), ("application/wasm", &b"3"[..]));
        fs::File::create(folder.path().join("large.js")).unwrap().set_len(MOST.1).unwrap();
        assert!(matches!(Demo::read(folder.path()), Err(DemoError::NoPage(_))));
    }
}
