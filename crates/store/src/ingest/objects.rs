//! Objects of S3, Google Cloud Storage and web servers as inputs.

use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::{Buf as _, Bytes};
use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, GetResult, ObjectMeta};
use url::{Host, Url};

use super::names::{PATTERNS, WILDCARDS, is_found, is_left_out};
use crate::bucket::{Bucket, Fault};
use crate::{Location, StoreError};

/// Bytes requested at once.
const PIECE_BYTES: u64 = 8 << 20;

/// An object, which can be opened repeatedly.
#[derive(Clone, Debug)]
pub(super) struct Object {
    bucket: Arc<Bucket>,
    location: Path,
    name: PathBuf,
    /// Identity of the content, known from a listing or from the first response.
    content: Arc<OnceLock<Content>>,
}

/// Identity of an object's content, which differs if the content differs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    bytes: u64,
    e_tag: Option<String>,
    version: Option<String>,
}

impl Content {
    fn of(meta: &ObjectMeta) -> Self {
        Self { bytes: meta.size, e_tag: meta.e_tag.clone(), version: meta.version.clone() }
    }

    /// True if a response has this content. A listing and a response may give different fields, but
    /// fields that both give must agree.
    fn is_of(&self, meta: &ObjectMeta) -> bool {
        let agree = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
        self.bytes == meta.size && agree(&self.e_tag, &meta.e_tag) && agree(&self.version, &meta.version)
    }
}

/// Finds the objects at an address: a single object, all objects below a prefix that ends in `/`,
/// or all that match a pattern. Several objects come in the byte order of their keys.
///
/// # Errors
/// [`StoreError::Malformed`] for an address that cannot be parsed or has no objects;
/// [`StoreError::Io`].
pub(super) fn find(address: &str) -> Result<Vec<Object>, StoreError> {
    let name = without_secrets(address);
    let malformed = |detail: &str| StoreError::malformed(Location::File(name.clone().into()), detail);
    let (scheme, rest) = address.split_once("://").unwrap_or_default();
    if scheme == "https" || scheme == "http" {
        return Ok(vec![of_web(address, &name).map_err(|detail| malformed(&detail))?]);
    }
    let (host, key) = rest.split_once('/').unwrap_or((rest, ""));
    let bucket = Arc::new(Bucket::of_cloud(scheme, host).map_err(|detail| malformed(&detail))?);
    let object = |location: Path, content| {
        let name = format!("{scheme}://{host}/{location}").into();
        Object { bucket: Arc::clone(&bucket), location, name, content: Arc::new(content) }
    };
    let parse = |key: &str| Path::parse(key).map_err(|_| malformed("it is no key of an object"));
    let Some(literal) = key.find(WILDCARDS).or((key.is_empty() || key.ends_with('/')).then_some(key.len()))
    else {
        return Ok(vec![object(parse(key)?, OnceLock::new())]);
    };
    let prefix = &key[..key[..literal].rfind('/').map_or(0, |slash| slash + 1)];
    let pattern = (literal < key.len())
        .then(|| glob::Pattern::new(key))
        .transpose()
        .map_err(|error| malformed(&format!("the pattern cannot be read: {}", error.msg)))?;
    let is_wanted = |key: &str| match &pattern {
        _ if !key.starts_with(prefix) => false,
        Some(pattern) => {
            pattern.matches_with(key, PATTERNS) && is_found(pattern.as_str().as_ref(), key.as_ref())
        }
        None => !key[prefix.len()..].split('/').any(is_left_out),
    };
    let listed = bucket.ask(bucket.store().list(Some(&parse(prefix)?)).try_collect::<Vec<ObjectMeta>>());
    let mut found =
        listed.map_err(|source| StoreError::Io { path: name.clone().into(), action: "list", source })?;
    found.retain(|meta| is_wanted(meta.location.as_ref()));
    found.sort_unstable_by(|a, b| a.location.as_ref().cmp(b.location.as_ref()));
    // Web consoles represent folders by empty objects.
    let is_folder = |meta: &ObjectMeta| {
        let below = format!("{}/", meta.location);
        let after = found.partition_point(|other| other.location.as_ref() < below.as_str());
        meta.size == 0 && found.get(after).is_some_and(|other| other.location.as_ref().starts_with(&below))
    };
    let files = found.iter().filter(|meta| !is_folder(meta));
    let objects: Vec<Object> =
        files.map(|meta| object(meta.location.clone(), Content::of(meta).into())).collect();
    match (objects.is_empty(), pattern) {
        (false, _) => Ok(objects),
        (true, Some(_)) => Err(malformed("no object matches this pattern")),
        (true, None) => Err(malformed("there is no object below this prefix")),
    }
}

/// Returns the object of a web server, which messages call `name`.
fn of_web(address: &str, name: &str) -> Result<Object, String> {
    let mut url = Url::parse(address).map_err(|error| format!("it is no address: {error}"))?;
    let is_loopback = match url.host() {
        Some(Host::Domain(host)) => host == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return Err("it is no address: it has no host".into()),
    };
    if url.scheme() == "http" && !is_loopback {
        return Err(
            "anybody on the way could change what comes over http://; give an address with https://".into()
        );
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has a user or a password, which are not sent; leave them out".into());
    }
    if url.path().ends_with('/') {
        return Err("a web server lists no folders; name each file".into());
    }
    let location = Path::from_url_path(url.path()).map_err(|_| "its path cannot be read")?;
    url.set_path("");
    url.set_fragment(None);
    let bucket = Arc::new(Bucket::of_web(&url)?);
    Ok(Object { bucket, location, name: name.into(), content: Arc::default() })
}

/// Returns an address without its query, user and password.
fn without_secrets(address: &str) -> String {
    match address.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => {
            let rest = rest.split(['?', '#']).next().unwrap_or_default();
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = host.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        _ => address.to_owned(),
    }
}

impl Object {
    /// Returns the name in messages.
    pub fn name(&self) -> PathBuf {
        self.name.clone()
    }

    /// Returns the path below the bucket or the server.
    pub fn key(&self) -> &str {
        self.location.as_ref()
    }

    /// Returns the length in bytes, as far as known.
    pub fn bytes(&self) -> u64 {
        self.content.get().map_or(0, |content| content.bytes)
    }

    /// Opens the content; also returns its length. Each piece is requested only after the previous
    /// piece has been read.
    ///
    /// # Errors
    /// The fault of the first request; the reader returns the errors of later ones. Refuses an
    /// object that differs from a listing or an earlier response.
    pub fn open(&self) -> io::Result<(impl Read + 'static, u64)> {
        let mut reader =
            ObjectReader { object: self.clone(), position: 0, end: 0, piece: None, chunk: Bytes::new() };
        if self.content.get().is_none_or(|content| content.bytes > 0) {
            let first = match self.get(Some(0..PIECE_BYTES)) {
                // The server supports no ranges, or the object is empty.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => self.get(None),
                first => first,
            }?;
            reader.end = first.range.end;
            reader.piece = Some(first.into_stream());
        }
        Ok((reader, self.bytes()))
    }

    /// Requests a range, or the whole object.
    fn get(&self, range: Option<Range<u64>>) -> io::Result<GetResult> {
        let e_tag = self.content.get().and_then(|content| content.e_tag.clone());
        // Weak tags never match `If-Match`; their responses are compared instead.
        let if_match = e_tag.filter(|e_tag| !e_tag.starts_with("W/"));
        let options = GetOptions { range: range.map(GetRange::Bounded), if_match, ..GetOptions::default() };
        let result = self.bucket.ask(self.bucket.store().get_opts(&self.location, options))?;
        match self.content.get_or_init(|| Content::of(&result.meta)).is_of(&result.meta) {
            true => Ok(result),
            false => Err(Fault::Changed.into()),
        }
    }
}

/// Reads an object in pieces.
struct ObjectReader {
    object: Object,
    /// Number of bytes received.
    position: u64,
    /// End of the piece.
    end: u64,
    piece: Option<BoxStream<'static, Result<Bytes, Error>>>,
    /// Received bytes that have not been returned yet.
    chunk: Bytes,
}

impl ObjectReader {
    /// Waits for more bytes; `false` at the end.
    fn fill(&mut self) -> io::Result<bool> {
        while self.chunk.is_empty() {
            let Some(piece) = &mut self.piece else {
                let total = self.object.bytes();
                if self.position == total {
                    return Ok(false);
                }
                self.end = total.min(self.position + PIECE_BYTES);
                self.piece = Some(self.object.get(Some(self.position..self.end))?.into_stream());
                continue;
            };
            match self.object.bucket.ask(piece.try_next())? {
                Some(chunk) => {
                    self.position += chunk.len() as u64;
                    self.chunk = chunk;
                }
                None if self.position == self.end => self.piece = None,
                None => return Err(Fault::Broken.into()),
            }
        }
        Ok(true)
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || !self.fill()? {
            return Ok(0);
        }
        let count = buffer.len().min(self.chunk.len());
        self.chunk.split_to(count).copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
