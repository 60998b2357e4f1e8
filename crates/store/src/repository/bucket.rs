//! A repository in a bucket, as a publisher of versions.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta};
use parking_lot::Mutex;
use spirea_protocols::Version;

use super::BUCKETS;
use super::copy::{Published, Publisher};
use super::log::{BASES, DELTAS, MAX_RECORD_BYTES, StoredRecord, VERSIONS};
use crate::StoreError;
use crate::bucket::Bucket;
use crate::manifest::{FileEntry, MANIFEST_FILE, MAX_MANIFEST_BYTES};

/// A repository in a bucket of S3 or Google Cloud Storage: the keys of its objects are the paths of
/// the repository's files, below a prefix. Credentials come from the environment.
///
/// Snapshots must be uploaded before the records that name them. The bucket does not tell which
/// version answers elsewhere, so followers answer from the newest version at once.
#[derive(Debug)]
pub struct BucketPublisher {
    bucket: Bucket,
    /// The address in messages.
    address: String,
    /// Key of the repository's folder.
    prefix: Path,
    /// The delta that the last record names. It tells deltas from bases, whose files are in another
    /// folder.
    delta: Mutex<Option<Version>>,
}

impl BucketPublisher {
    /// Prepares requests to the repository at an address such as `s3://bucket/tables/words`.
    /// Nothing is requested.
    ///
    /// # Errors
    /// [`StoreError::BadOption`] if the address or the environment's settings cannot be used.
    pub fn new(address: &str) -> Result<Self, StoreError> {
        let bad = |detail: &str| StoreError::BadOption(format!("{address}: {detail}"));
        let found = BUCKETS.into_iter().find_map(|scheme| Some((scheme, address.strip_prefix(scheme)?)));
        let Some((scheme, rest)) = found else {
            return Err(bad("addresses of buckets begin with s3:// or gs://"));
        };
        let (host, key) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() {
            return Err(bad("it names no bucket; give one such as s3://BUCKET/FOLDER"));
        }
        let prefix = Path::parse(key).map_err(|_| bad("what follows the bucket is no key of an object"))?;
        let scheme = scheme.trim_end_matches("://");
        let bucket = Bucket::of_cloud(scheme, host).map_err(|detail| bad(&detail))?;
        Ok(Self { bucket, address: address.trim_end_matches('/').into(), prefix, delta: Mutex::default() })
    }

    fn failed(&self, action: &'static str, below: &str) -> impl FnOnce(io::Error) -> StoreError {
        let path = format!("{}/{below}", self.address).into();
        move |source| StoreError::Io { path, action, source }
    }

    fn key(&self, below: &str) -> Path {
        below.split('/').fold(self.prefix.clone(), |key, part| key.join(part))
    }

    /// Finds the record of the newest version; `None` if there is none.
    fn newest_record(&self) -> Result<Option<ObjectMeta>, StoreError> {
        let below = self.key(VERSIONS);
        let listed = self.bucket.ask(self.bucket.store().list(Some(&below)).try_collect::<Vec<_>>());
        let listed = listed.map_err(self.failed("list", VERSIONS))?;
        let is_record = |meta: &ObjectMeta| {
            let name = meta.location.filename().and_then(|name| name.strip_suffix(".json"));
            // Every name has twenty digits, so that names sort in the order of the numbers.
            name.is_some_and(|name| name.len() == 20 && name.bytes().all(|digit| digit.is_ascii_digit()))
        };
        Ok(listed.into_iter().filter(is_record).max_by(|a, b| a.location.cmp(&b.location)))
    }

    /// Reads a whole object of at most `most` bytes, or a range of an object with exactly `most`
    /// bytes.
    fn read(&self, below: &str, most: u64, range: Option<Range<u64>>) -> Result<Bytes, StoreError> {
        let wrong = |detail: String| StoreError::BadCopy(format!("{}/{below}: {detail}", self.address));
        let options = GetOptions { range: range.clone().map(GetRange::Bounded), ..GetOptions::default() };
        let got = self.bucket.ask(self.bucket.store().get_opts(&self.key(below), options));
        let got = got.map_err(self.failed("read", below))?;
        match &range {
            None if got.meta.size > most => {
                return Err(wrong(format!("it has {} bytes, above the limit of {most}", got.meta.size)));
            }
            Some(_) if got.meta.size != most => {
                return Err(wrong(format!("it has {} bytes, not {most}", got.meta.size)));
            }
            Some(range) if got.range != *range => {
                return Err(wrong(format!("the bytes {:?} came, not {range:?}", got.range)));
            }
            _ => {}
        }
        self.bucket.ask(got.bytes()).map_err(self.failed("read", below))
    }

    fn file(&self, snapshot: &Version, file: &str) -> String {
        let kind = if *self.delta.lock() == Some(*snapshot) { DELTAS } else { BASES };
        format!("{kind}/{snapshot}/{file}")
    }
}

impl Publisher for BucketPublisher {
    type Error = StoreError;

    fn record(&self) -> Result<Option<Published>, StoreError> {
        let Some(newest) = self.newest_record()? else { return Ok(None) };
        let name = newest.location.filename().unwrap_or_default();
        let record = self.read(&format!("{VERSIONS}/{name}"), MAX_RECORD_BYTES as u64, None)?;
        *self.delta.lock() = StoredRecord::from_bytes(&record).ok().and_then(|record| record.delta);
        Ok(Some(Published { record: record.into(), answering: None }))
    }

    fn manifest(&self, snapshot: &Version) -> Result<Vec<u8>, StoreError> {
        Ok(self.read(&self.file(snapshot, MANIFEST_FILE), MAX_MANIFEST_BYTES, None)?.into())
    }

    fn piece(&self, snapshot: &Version, file: &FileEntry, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        Ok(self.read(&self.file(snapshot, &file.file), file.bytes, Some(range))?.into())
    }
}
