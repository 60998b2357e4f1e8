//! Other users of a machine cannot read the cache, and file names reveal no database.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use spirea_protocols::signature::{Pin, PrivateKey};

use super::*;
use crate::HintCache;
use crate::http::cache::FileCache;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn files_of_the_cache_are_their_users_own_and_name_no_database() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("above/cache");
    let mut cache = FileCache::open(&folder).unwrap();
    let description = Description::parse("test", config(OLD).encode().into()).unwrap();
    let part = description.base();
    let mut download = cache.begin(part).unwrap();
    download.push(b"hint").unwrap();
    cache.succeed("secret-name-base", part).unwrap();
    let key = PrivateKey::from_bytes(&[7; 32]).public();
    cache.saw("secret-name", &Pin { key, sequence: 5 }).unwrap();
    assert_eq!(cache.seen("secret-name", &key), 5);

    assert_eq!((mode(&folder), mode(folder.parent().unwrap())), (0o700, 0o700));
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        assert!(!file.to_str().unwrap().contains("secret-name"), "{}", file.display());
    }
}

#[test]
fn a_download_that_ends_early_leaves_no_part_of_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let mut cache = FileCache::open(folder.path()).unwrap();
    let description = Description::parse("test", config(OLD).encode().into()).unwrap();
    let part = description.base();
    let parts = || {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
        files.filter(|file| file.extension().is_some_and(|extension| extension == "part")).count()
    };
    let mut download = cache.begin(part).unwrap();
    download.push(b"hint").unwrap();
    assert_eq!(parts(), 1);
    drop(download);
    assert_eq!(parts(), 0);

    let mut download = cache.begin(part).unwrap();
    download.push(&vec![0; part.hint_bytes() as usize]).unwrap();
    download.finish(part).unwrap();
    drop(download);
    assert!(parts() == 0 && cache.load(part).unwrap().is_some());
}
