//! Copies of versions, from repositories that are cut off, lie or go back.

use std::cell::Cell;

use spirea_protocols::signature::{PrivateKey, Signature};
use tempfile::{TempDir, tempdir};

use super::*;
use crate::repository::Settings;
use crate::repository::tests::{backend, base, changes, copy, interrupted, open};

const NAME: &str = "rows";
const TRUST: Trust<'_> = Trust { name: NAME, key: None, disk: None };

/// Function that falsifies what a publisher sends. Its first argument is `record`, `manifest`, or
/// the name of a file.
type Lie<'a> = &'a dyn Fn(&str, Vec<u8>) -> Vec<u8>;

/// The folder of a repository as a publisher. It counts the bytes of files that it sends, and can
/// break off.
struct Local<'a> {
    folder: &'a Path,
    lie: Lie<'a>,
    sent: Cell<u64>,
    /// Number of pieces until the connection breaks.
    pieces: Cell<u64>,
}

impl<'a> Local<'a> {
    fn honest(repository: &'a Repository) -> Self {
        Self::at(repository.folder())
    }

    fn at(folder: &'a Path) -> Self {
        Self { folder, lie: &|_, bytes| bytes, sent: Cell::new(0), pieces: Cell::new(u64::MAX) }
    }

    fn lying(repository: &'a Repository, lie: Lie<'a>) -> Self {
        Self { lie, ..Self::honest(repository) }
    }

    fn read(&self, snapshot: &Version, file: &str) -> Vec<u8> {
        let folders = [BASES, DELTAS].map(|kind| snapshot_path(self.folder, kind, snapshot));
        fs::read(folders.iter().find(|folder| folder.is_dir()).unwrap().join(file)).unwrap()
    }
}

impl Publisher for Local<'_> {
    type Error = StoreError;

    fn record(&self) -> Result<Option<Published>, StoreError> {
        let records = log::read(self.folder)?;
        let newest = records.first().map(|record| StoredRecord::from(record).to_bytes());
        Ok(newest.map(|bytes| Published { record: (self.lie)("record", bytes), answering: None }))
    }

    fn manifest(&self, snapshot: &Version) -> Result<Vec<u8>, StoreError> {
        Ok((self.lie)("manifest", self.read(snapshot, MANIFEST_FILE)))
    }

    fn piece(&self, snapshot: &Version, file: &FileEntry, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let left = self.pieces.get().checked_sub(1);
        self.pieces.set(left.ok_or_else(|| StoreError::BadCopy("the connection broke".into()))?);
        self.sent.set(self.sent.get() + range.end - range.start);
        let bytes = self.read(snapshot, &file.file)[range.start as usize..range.end as usize].to_vec();
        Ok((self.lie)(&file.file, bytes))
    }
}

/// A publisher's repository and a follower's, in one folder.
struct Pair {
    folder: TempDir,
    publisher: Repository,
    follower: Repository,
}

impl Pair {
    /// Creates the repositories; the publisher has a base, and signs with `key` if there is one.
    fn new(key: Option<PrivateKey>) -> Self {
        let folder = tempdir().unwrap();
        let create = |name: &str, key| {
            Repository::create(folder.path().join(name), Settings { key, ..Settings::default() }).unwrap()
        };
        let (publisher, follower) = (create("publisher", key), create("follower", None));
        let base = base(folder.path());
        publisher.add_base(&base, Shrinking::Refuse, &Silent).unwrap();
        Self { folder, publisher, follower }
    }

    fn change(&self, row: u64, value: &str) {
        self.publisher.apply(changes(&[(row, Some(value))]), backend(), &Silent).unwrap();
    }

    fn follow(&self) -> Result<bool, StoreError> {
        follow(&self.follower, &Local::honest(&self.publisher))
    }
}

/// Copies the current version; returns true if it is new.
fn follow(follower: &Repository, publisher: &Local<'_>) -> Result<bool, StoreError> {
    follow_with(follower, publisher, TRUST)
}

fn follow_with(follower: &Repository, publisher: &Local<'_>, trust: Trust<'_>) -> Result<bool, StoreError> {
    let Offer::Newer { record, .. } = follower.offered(publisher, trust)? else { return Ok(false) };
    let version = follower.receive(publisher, &record, trust)?;
    follower.commit_copy(version)?;
    Ok(true)
}

fn record(repository: &Repository) -> Vec<u8> {
    StoredRecord::from(&repository.current().unwrap()).to_bytes()
}

#[test]
fn a_follower_has_the_publisher_s_records_bases_and_deltas() {
    let pair = Pair::new(Some(PrivateKey::from_bytes(&[3; 32])));
    let steps: [&dyn Fn(); 5] = [
        &|| (),
        &|| pair.change(3, "changed"),
        &|| pair.change(5, "changed, too"),
        &|| drop(pair.publisher.roll_back(None).unwrap()),
        &|| drop(pair.publisher.compact(backend(), &Silent).unwrap()),
    ];
    for (i, step) in steps.iter().enumerate() {
        step();
        assert!(pair.follow().unwrap(), "step {i}");
        assert!(!pair.follow().unwrap(), "step {i}");
        assert_eq!(record(&pair.follower), record(&pair.publisher), "step {i}");
        let current = pair.follower.current().unwrap();
        current.snapshots().for_each(|snapshot| snapshot.verify(&Silent).unwrap());
    }
    // The version is the same after a restart, and for a follower that starts now.
    let Pair { folder, publisher, follower } = pair;
    let path = follower.folder().to_path_buf();
    drop(follower);
    assert_eq!(record(&Repository::open(path, Settings::default()).unwrap()), record(&publisher));
    let late = open(&folder.path().join("late"));
    assert!(follow(&late, &Local::honest(&publisher)).unwrap());
    assert_eq!(record(&late), record(&publisher));
}

#[test]
fn a_transfer_goes_on_where_it_broke_off() {
    let pair = Pair::new(None);
    let whole: u64 = pair.publisher.current().unwrap().base.manifest().files().map(|file| file.bytes).sum();
    let (mut sent, mut attempts) = (0, 0);
    let path = pair.follower.folder().to_path_buf();
    let mut follower = pair.follower;
    loop {
        let publisher = Local::honest(&pair.publisher);
        publisher.pieces.set(1);
        let outcome = follow(&follower, &publisher);
        sent += publisher.sent.get();
        attempts += 1;
        if outcome.is_ok() {
            break;
        }
        assert!(follower.current().is_none());
        // Received bytes survive a restart.
        drop(follower);
        follower = Repository::open(&path, Settings::default()).unwrap();
    }
    assert!(attempts > 2, "{attempts} attempts for {whole} bytes");
    assert_eq!(sent, whole, "no byte is sent twice");
    assert_eq!(record(&follower), record(&pair.publisher));
}

#[test]
fn a_lying_publisher_changes_nothing() {
    let pair = Pair::new(None);
    pair.follow().unwrap();
    let before = record(&pair.follower);
    pair.change(3, "changed");
    let flipped = |mut bytes: Vec<u8>, at: usize| {
        bytes[at] ^= 1;
        bytes
    };
    let renumbered = |bytes: &[u8], change: &dyn Fn(&mut StoredRecord)| {
        let mut record = StoredRecord::from_bytes(bytes).unwrap();
        change(&mut record);
        record.to_bytes()
    };
    let lies: [(&str, Lie<'_>); 10] = [
        ("record", &|_, bytes| flipped(bytes, 60)),
        ("record", &|_, _| Vec::new()),
        ("record", &|_, bytes| renumbered(&bytes, &|record| record.sequence = 1)),
        // The first record names a delta as its base; the second names a base as its delta.
        ("record", &|_, bytes| renumbered(&bytes, &|record| record.base = record.delta.unwrap())),
        ("record", &|_, bytes| renumbered(&bytes, &|record| record.delta = Some(record.base))),
        ("manifest", &|_, bytes| flipped(bytes, 600)),
        ("manifest", &|_, _| fs::read(pair.folder.path().join(NAME).join(MANIFEST_FILE)).unwrap()),
        ("matrix.bin", &|_, bytes| [bytes, vec![0]].concat()),
        ("changes.bin", &|_, bytes| flipped(bytes, 0)),
        ("changes.bin", &|_, bytes| bytes[1..].to_vec()),
    ];
    for (i, (what, lie)) in lies.into_iter().enumerate() {
        let told = Cell::new(false);
        let lie = |name: &str, bytes| {
            if name != what {
                return bytes;
            }
            told.set(true);
            lie(name, bytes)
        };
        let outcome = follow(&pair.follower, &Local::lying(&pair.publisher, &lie));
        assert!(outcome.is_err() && told.get(), "lie {i}: {outcome:?}");
        assert_eq!(record(&pair.follower), before, "lie {i}");
    }
    assert!(pair.follow().unwrap());
    assert_eq!(record(&pair.follower), record(&pair.publisher));
}

#[test]
fn an_older_version_is_not_followed_back() {
    let pair = Pair::new(None);
    let old = Local::honest(&pair.publisher).record().unwrap();
    pair.change(3, "changed");
    pair.follow().unwrap();
    let back = |name: &str, bytes| if name == "record" { old.clone().unwrap().record } else { bytes };
    let refused = follow(&pair.follower, &Local::lying(&pair.publisher, &back)).unwrap_err();
    assert!(refused.to_string().contains("not followed back"), "{refused}");
    assert_eq!(record(&pair.follower), record(&pair.publisher));
}

#[test]
fn with_a_key_only_its_signatures_are_followed() {
    let (own, other) = ([3; 32], [4; 32]);
    let key = PrivateKey::from_bytes(&own).public();
    let trust = Trust { key: Some(&key), ..TRUST };
    for signer in [None, Some(PrivateKey::from_bytes(&other))] {
        let pair = Pair::new(signer);
        let refused = follow_with(&pair.follower, &Local::honest(&pair.publisher), trust).unwrap_err();
        assert!(matches!(refused, StoreError::Protocol(_)), "{refused}");
        assert!(pair.follower.current().is_none());
    }
    let pair = Pair::new(Some(PrivateKey::from_bytes(&own)));
    // A signed version under a higher number would hide the versions between.
    let raised = |name: &str, bytes: Vec<u8>| match name {
        "record" => {
            let mut record = StoredRecord::from_bytes(&bytes).unwrap();
            record.sequence += 1;
            record.to_bytes()
        }
        _ => bytes,
    };
    for trust in [trust, Trust { key: None, ..trust }] {
        follow_with(&pair.follower, &Local::lying(&pair.publisher, &raised), trust).unwrap_err();
    }
    // A signature that is not the key's is refused without a pinned key, too.
    let forged = |name: &str, bytes: Vec<u8>| match name {
        "record" => {
            let mut record = StoredRecord::from_bytes(&bytes).unwrap();
            let key = PrivateKey::from_bytes(&own);
            record.signature =
                Some(Signature::new(&key, NAME, &Version::default(), record.sequence, &record.created));
            record.to_bytes()
        }
        _ => bytes,
    };
    follow(&pair.follower, &Local::lying(&pair.publisher, &forged)).unwrap_err();
    assert!(pair.follower.current().is_none());
    assert!(follow_with(&pair.follower, &Local::honest(&pair.publisher), trust).unwrap());
    assert_eq!(record(&pair.follower), record(&pair.publisher));
}

#[test]
fn another_database_is_not_followed() {
    let pair = Pair::new(None);
    let trust = Trust { name: "columns", ..TRUST };
    let refused = follow_with(&pair.follower, &Local::honest(&pair.publisher), trust).unwrap_err();
    assert!(refused.to_string().contains("columns"), "{refused}");
}

#[test]
fn a_copy_that_is_interrupted_is_the_former_version_or_the_new_one() {
    let pair = Pair::new(None);
    let former = pair.folder.path().join("former");
    copy(pair.publisher.folder(), &former);
    pair.change(3, "changed");
    let step = |repository: &Repository| {
        follow(repository, &Local::honest(&pair.publisher))?;
        Ok(repository.current().unwrap())
    };
    interrupted(|_| (), step);
    interrupted(|repository| assert!(follow(repository, &Local::at(&former)).unwrap()), step);
}

#[test]
fn a_copy_takes_no_more_of_the_disk_than_is_allowed() {
    let pair = Pair::new(None);
    pair.follow().unwrap();
    let before = record(&pair.follower);
    pair.change(3, "changed");
    let kept = bytes_below(&pair.follower.folder().join(BASES)).unwrap();
    let delta = pair.publisher.current().unwrap().delta.unwrap();
    let files: u64 = delta.manifest().files().map(|file| file.bytes).sum();
    // The manifest is received before the files, and its bytes count towards the limit.
    let manifest = fs::metadata(delta.folder().join(MANIFEST_FILE)).unwrap().len();
    let needed = u64::try_from(kept).unwrap() + files + manifest;
    let within = |most| {
        let trust = Trust { disk: Some(most), ..TRUST };
        follow_with(&pair.follower, &Local::honest(&pair.publisher), trust)
    };
    let error = within(needed - 1).unwrap_err();
    assert!(matches!(error, StoreError::OverQuota { most, .. } if most == needed - 1), "{error}");
    assert_eq!(record(&pair.follower), before);
    assert!(within(needed).unwrap());
    assert_eq!(record(&pair.follower), record(&pair.publisher));
}
