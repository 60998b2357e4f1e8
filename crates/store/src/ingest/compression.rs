//! Compressed inputs: gzip, zstd, xz, and zip with a single file, all decoded as streams.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use zip::{CompressionMethod, ZipArchive};

use crate::error::IoContext;
use crate::{Location, StoreError};

/// Number of bytes at the start of an input that identify its compression.
pub(super) const MAGIC_BYTES: usize = 6;
/// Memory limit of an xz decoder, in KiB: four times the need of `xz -9`.
const XZ_MEMORY_KIB: u32 = 256 << 10;

/// Compression of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Zstd,
    Xz,
    Zip,
}

impl Compression {
    /// Detects the compression of an input that begins with these bytes.
    pub(super) fn detect(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            // Zstd content begins with a zstd frame, or with a skippable frame.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Self::Zip),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Zip => "zip",
        }
    }

    /// Decodes a stream; `None` for zip, whose directory is at its end.
    pub(super) fn stream<'r>(self, input: impl Read + 'r) -> io::Result<Option<Box<dyn Read + 'r>>> {
        let decoder: Box<dyn Read + 'r> = match self {
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(input)),
            Self::Zstd => Box::new(zstd::Decoder::new(input)?),
            Self::Xz => {
                Box::new(lzma_rust2::XzReader::new_mem_limit(BufReader::new(input), true, XZ_MEMORY_KIB))
            }
            Self::Zip => return Ok(None),
        };
        Ok(Some(self.explaining(decoder)))
    }

    fn explaining<'r>(self, decoder: impl Read + 'r) -> Box<dyn Read + 'r> {
        Box::new(Explaining { decoder, name: self.name() })
    }
}

/// Position of a zip's only file.
pub(super) struct Member {
    method: CompressionMethod,
    start: u64,
    compressed_bytes: u64,
    bytes: u64,
    crc32: u32,
}

impl Member {
    /// Finds the only file of a zip, which messages call `path`.
    ///
    /// # Errors
    /// [`StoreError::Malformed`] with a list of the files unless there is exactly one, or with the
    /// reason why the zip cannot be read.
    pub(super) fn find(file: &File, path: &Path) -> Result<Self, StoreError> {
        let malformed = |detail: String| StoreError::malformed(Location::File(path.into()), detail);
        let damaged = |error: zip::result::ZipError| {
            malformed(format!("its zip data cannot be read: {error}; fetch it again"))
        };
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
        let files = archive.file_names_raw().enumerate().filter(|(_, name)| !name.ends_with(b"/"));
        let files: Vec<_> = files.map(|(i, name)| (i, String::from_utf8_lossy(name).into_owned())).collect();
        let [(index, _)] = files[..] else {
            let shown =
                files.iter().take(10).map(|(_, name)| format!("{name:?}")).collect::<Vec<_>>().join(", ");
            let count = files.len();
            return Err(malformed(format!(
                "a zip must hold exactly one file, and this one holds {count}: {shown}; unpack it and name the files"
            )));
        };
        let member = archive.by_index_raw(index).map_err(damaged)?;
        let method = member.compression();
        if member.encrypted() || !matches!(method, CompressionMethod::Stored | CompressionMethod::Deflated) {
            return Err(malformed(
                "its file is encrypted, or compressed otherwise than by deflate; unpack it".into(),
            ));
        }
        let start = member
            .data_start()
            .ok_or_else(|| malformed("its file has no place in the zip; fetch it again".into()))?;
        let (compressed_bytes, bytes, crc32) = (member.compressed_size(), member.size(), member.crc32());
        Ok(Self { method, start, compressed_bytes, bytes, crc32 })
    }

    /// Decodes this file of `zip`.
    pub(super) fn decode<R: Read + Seek + 'static>(
        self,
        mut zip: R,
        path: &Path,
    ) -> Result<Box<dyn Read>, StoreError> {
        zip.seek(SeekFrom::Start(self.start)).at("read", path)?;
        let stored = zip.take(self.compressed_bytes);
        let content: Box<dyn Read> = match self.method {
            CompressionMethod::Deflated => Box::new(flate2::read::DeflateDecoder::new(stored)),
            _ => Box::new(stored),
        };
        let checked =
            Checked { content, crc: flate2::Crc::new(), bytes: 0, expected: (self.bytes, self.crc32) };
        Ok(Compression::Zip.explaining(checked))
    }
}

/// A reader that verifies the length and the checksum once the content ends.
struct Checked {
    content: Box<dyn Read>,
    crc: flate2::Crc,
    bytes: u64,
    expected: (u64, u32),
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.crc.update(&buffer[..read]);
        self.bytes += read as u64;
        let is_wrong = self.bytes > self.expected.0
            || (read == 0 && !buffer.is_empty() && (self.bytes, self.crc.sum()) != self.expected);
        match is_wrong {
            true => Err(io::Error::new(io::ErrorKind::InvalidData, "its length or its checksum is wrong")),
            false => Ok(read),
        }
    }
}

/// A decoder whose errors name the damaged data; errors of the system are passed through.
struct Explaining<R> {
    decoder: R,
    name: &'static str,
}

impl<R: Read> Read for Explaining<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(buffer).map_err(|error| match (error.raw_os_error(), error.kind()) {
            (Some(_), _) | (_, io::ErrorKind::Interrupted) => error,
            (None, kind) => {
                let detail = format!("its {} data is damaged or cut off: {error}; fetch it again", self.name);
                io::Error::new(kind, detail)
            }
        })
    }
}
