//! Properties of a file of `--resume` of any bytes; the fuzzer `resume` includes this file, too.

use std::path::Path;

use super::{Asked, Resume};

/// Checks the reader with two files in `folder`: a file that consists of the bytes, and a valid
/// file whose progress is replaced by the bytes.
///
/// # Panics
/// If the progress exceeds the list, is read differently a second time or cannot be continued, or
/// if an error does not name the file.
pub fn check(folder: &Path, bytes: &[u8]) {
    let (path, fresh) = (folder.join("progress"), folder.join("fresh"));
    let keys = [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
    let asked = Asked { database: "words", addresses: vec!["http://a"], keys: &keys, indices: &[] };
    // The file is created only once, because each new file is synced to the disk.
    assert_eq!(Resume::open(&fresh, &asked).unwrap().complete(), 0);
    let fresh = std::fs::read(&fresh).unwrap();
    let progress = fresh.strip_suffix(b"0}\n").expect("the progress is the last member");
    for file in [bytes, &[progress, bytes, b"}\n"].concat()] {
        std::fs::write(&path, file).unwrap();
        match Resume::open(&path, &asked) {
            Ok(mut resume) => {
                assert!(resume.complete() <= keys.len());
                assert_eq!(Resume::open(&path, &asked).unwrap().complete(), resume.complete());
                resume.record(keys.len()).unwrap();
                assert_eq!(Resume::open(&path, &asked).unwrap().complete(), keys.len());
            }
            Err(error) => assert!(format!("{error:#}").starts_with(&*path.to_string_lossy()), "{error:#}"),
        }
    }
}
