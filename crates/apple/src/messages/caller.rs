//! Values of caller ID: the data that a device shows for a calling number.

use bytes::Bytes;
use prost::Message;

/// Identity of a caller.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CallIdentity {
    /// Name that the device shows.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Icon beside the name.
    #[prost(message, optional, tag = "2")]
    pub icon: Option<Icon>,
    /// Time for which the device reuses the response, in minutes.
    #[prost(uint32, tag = "3")]
    pub cache_expiry_minutes: u32,
    /// Category of the caller.
    #[prost(enumeration = "IdentityCategory", tag = "4")]
    pub category: i32,
}

impl CallIdentity {
    /// Returns the bytes that a table stores for the number.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// Icon of a caller.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Icon {
    /// Format of the image.
    #[prost(enumeration = "ImageFormat", tag = "1")]
    pub format: i32,
    /// The image in this format.
    #[prost(bytes = "bytes", tag = "2")]
    pub image: Bytes,
}

/// Format of an icon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ImageFormat {
    /// No format.
    Unspecified = 0,
    /// High Efficiency Image File Format.
    Heic = 1,
}

/// Category of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum IdentityCategory {
    /// No category.
    Unspecified = 0,
    /// A person.
    Person = 1,
    /// A business.
    Business = 2,
}
