//! Readers of settings and of files of tokens take any bytes, or name the fault and its place.
//! `SPIREA_CONFORMANCE=long` makes 100,000 inputs.

use std::path::{Path, PathBuf};

use spirea_server::settings::{Configured, SettingError};
use spirea_specimens::{Inputs, inputs};

/// Variables whose values have different forms: addresses, sizes, times, quotas, names, lists.
const VARIABLES: [&str; 10] = [
    "SPIREA_LISTEN",
    "SPIREA_BACKEND",
    "SPIREA_MEMORY",
    "SPIREA_DATABASES",
    "SPIREA_ADMIN_NAMES",
    "SPIREA_ACTIVATE_AFTER",
    "SPIREA_FOLLOW__PIN_KEY",
    "SPIREA_LIMITS__BODY_MEMORY",
    "SPIREA_APPLE__QUOTA",
    "SPIREA_KEYS__REDIS",
];

/// Checks the readers of settings and of tokens with a file in `folder`, and the reader of
/// variables.
///
/// # Panics
/// If bytes are read differently a second time, or an error does not name its place.
fn check(folder: &Path, bytes: &[u8]) {
    let path = folder.join("spirea.toml");
    std::fs::write(&path, bytes).unwrap();
    let read = || Configured::read(Some(&path), []);
    match read() {
        Ok(configured) => {
            assert_eq!(format!("{configured:?}"), format!("{:?}", read().unwrap()));
            // A relative path in the file is relative to the file's folder, which is absolute.
            assert!(files(&configured).all(|named| named.is_absolute()), "{configured:?}");
        }
        Err(error) => check_error(&error, &path, bytes),
    }
    let text = String::from_utf8_lossy(bytes);
    for variable in VARIABLES {
        if let Err(error) = Configured::read(None, [(variable.to_owned(), text.clone().into_owned())]) {
            assert_eq!(error.place, variable);
        }
    }
    let mut configured = Configured::read(None, []).unwrap();
    configured.config.tokens = Some(path.clone());
    if let Err(error) = configured.check_settings() {
        assert_eq!(error.place, "tokens.file");
        assert!(error.cause.starts_with(&*path.to_string_lossy()), "{error}");
    }
}

/// Returns the files and folders that a configuration names.
fn files(configured: &Configured) -> impl Iterator<Item = &PathBuf> {
    let config = &configured.config;
    let single = [&config.signing_key, &config.keys.folder, &config.tokens];
    config.snapshots.iter().chain(single.into_iter().flatten())
}

/// Checks that an error names the file and one of its lines, unless the file is no text.
fn check_error(error: &SettingError, path: &Path, bytes: &[u8]) {
    let place = error.place.strip_prefix(&*path.to_string_lossy()).unwrap_or_else(|| panic!("{error}"));
    if str::from_utf8(bytes).is_ok() {
        let line = place.strip_prefix(':').and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
        let lines = 1 + bytes.iter().filter(|&&byte| byte == b'\n').count();
        assert!(line.is_some_and(|line| (1..=lines).contains(&line)), "{error}");
    } else {
        assert_eq!(place, "");
    }
}

#[test]
fn any_bytes_are_settings_and_tokens_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/spirea.toml")).unwrap();
    let mut corpus: Vec<Vec<u8>> = [
        "listen = \"[::1]:8080\"\nparty = 1\ndatabases = [{ path = \"urls\" }, { path = \"/srv/words\" }]\n",
        "[follow]\nurl = \"https://a\"\ndisk = \"3GiB\"\n[limits]\nread_timeout = \"1s\"\n[keys]\ndisk_sets = 4\n",
        "[apple]\nquota = \"5/day\"\n[log]\nlevel = \"info\"\nformat = \"json\"\n[keys]\nredis = \"redis://a\"\n",
        "[{ path = \"urls\" }]",
        "0.0.0.0:80",
        "30d",
        "\"\\u001b[31m\" = 1\n",
        "[log]\nformat = \"\\u001b[31m\"\n",
        "[[token]]\nname = \"a\"\nblake3 = \"12\"\nscopes = [\"\\u0007\"]\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    let hash = blake3::hash(b"token").to_hex();
    for scopes in
        ["scopes = [\"query\"]\nquota = \"5/day\"", "scopes = [\"admin\", \"follow\"]\nconcurrency = 3"]
    {
        let token = format!("[[token]]\nname = \"a\"\nblake3 = \"{hash}\"\n{scopes}\n");
        corpus.push(token.into_bytes());
    }
    corpus.push(whole);
    corpus.iter().for_each(|file| check(folder.path(), file));
    for open in ["a.", "[", "{a=", "[a."] {
        check(folder.path(), open.repeat(50_000).as_bytes());
        check(folder.path(), format!("{}a = 1", open.repeat(50_000)).as_bytes());
    }
    let mut made = Inputs::new(8);
    (0..inputs(300)).for_each(|_| check(folder.path(), &made.changed(&corpus)));
}
