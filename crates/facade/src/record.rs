use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use spirea_client::{Value, Version};

/// A record: its fields by name, as bytes.
///
/// # Examples
///
/// ```
/// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
/// let record: spirea::Record = spirea::Client::connect(&url, "domains")?.get("example.net")?.unwrap();
/// assert_eq!(record.bytes("verdict"), Some(&b"bad"[..]));
/// # Ok::<_, spirea::LookUpError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    names: Arc<[String]>,
    value: Value,
    version: Version,
}

impl Record {
    pub(crate) fn new(names: &Arc<[String]>, value: Value, version: Version) -> Self {
        Self { names: Arc::clone(names), value, version }
    }

    /// Returns a field's bytes; `None` if the table has no such field.
    ///
    /// # Examples
    ///
    /// ```
    /// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
    /// let record = spirea::Client::connect(&url, "domains")?.get("example.net")?.unwrap();
    /// assert_eq!(record.bytes("verdict"), Some(&b"bad"[..]));
    /// assert_eq!(record.bytes("colour"), None);
    /// # Ok::<_, spirea::LookUpError>(())
    /// ```
    pub fn bytes(&self, field: &str) -> Option<&[u8]> {
        self.fields().find(|(name, _)| *name == field).map(|(_, bytes)| bytes)
    }

    /// Returns a field as text; `None` if the table has no such field. Bytes that are not UTF-8 are
    /// replaced.
    ///
    /// # Examples
    ///
    /// ```
    /// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
    /// let record = spirea::Client::connect(&url, "domains")?.get("example.net")?.unwrap();
    /// assert_eq!(record.text("verdict").as_deref(), Some("bad"));
    /// # Ok::<_, spirea::LookUpError>(())
    /// ```
    pub fn text(&self, field: &str) -> Option<Cow<'_, str>> {
        self.bytes(field).map(String::from_utf8_lossy)
    }

    /// Returns the names and bytes of all fields, in the table's order. A record of a set has no
    /// fields.
    ///
    /// # Examples
    ///
    /// ```
    /// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
    /// let record = spirea::Client::connect(&url, "domains")?.get("example.net")?.unwrap();
    /// assert_eq!(record.fields().collect::<Vec<_>>(), [("verdict", &b"bad"[..])]);
    /// # Ok::<_, spirea::LookUpError>(())
    /// ```
    pub fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.names.iter().map(String::as_str).zip(self.value.fields().iter().map(Vec::as_slice))
    }

    /// Returns the version of the database that answered, in 64 hexadecimal digits.
    ///
    /// # Examples
    ///
    /// ```
    /// # let (url, _served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
    /// let record = spirea::Client::connect(&url, "domains")?.get("example.net")?.unwrap();
    /// assert_eq!(record.version().len(), 64);
    /// # Ok::<_, spirea::LookUpError>(())
    /// ```
    pub fn version(&self) -> String {
        self.version.to_string()
    }
}

/// Shows lengths only: a value tells what was looked up.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths = self.fields().map(|(name, bytes)| (name, bytes.len()));
        f.write_str("Record ")?;
        f.debug_map().entries(lengths).finish()
    }
}
