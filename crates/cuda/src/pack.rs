//! The compiled kernels: `pack/kernels.pack`, which is part of this library.
//!
//! `scripts/cuda_pack.py` writes the pack and `docs/kernels/pack.md` describes it. Everything read
//! from it is checked: a damaged pack causes an error, and the driver never loads a damaged module.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::sync::OnceLock;

use lzma_rust2::XzReader;
use sha2::{Digest, Sha256};
use spirea_backend::BackendError;

use crate::driver::Compute;

static PACK: &[u8] = include_bytes!("../pack/kernels.pack");

const MAGIC: &[u8] = b"SPIRCUDA";
const FORMAT: u32 = 4;
/// Maximum length of a cubin or of PTX, far above any real length. It bounds the allocation for a
/// length that is read from the table.
const MAX_IMAGE_BYTES: usize = 16 << 20;
/// Maximum length of a stream before an image's end, far above any real length. It bounds the
/// decompression up to a position that is read from the table.
const MAX_STREAM_BYTES: usize = 64 << 20;
/// Maximum memory of the decoder, in KiB: a dictionary of 16 MiB, which `scripts/cuda_pack.py`
/// sets, and its tables.
const MAX_DECODER_KIB: u32 = 17 << 10;

/// Reason why there are no kernels for a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PackError {
    /// No kernels were compiled for this device.
    #[error("no kernels for compute capability {capability}; there are some for {there}")]
    Capability {
        /// Compute capability of the device.
        capability: Compute,
        /// The architectures in the pack, such as `sm_80, sm_90a`.
        there: String,
    },
    /// The pack is damaged.
    #[error("the pack of kernels is damaged: {0}; build or install Spirea again")]
    Damaged(&'static str),
}

/// One file of kernels, compiled for one target.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// The name of the file, without its ending.
    pub(crate) name: String,
    /// Target that it was compiled for.
    pub(crate) target: Target,
    /// Names of its kernels.
    pub(crate) kernels: Vec<&'static str>,
    /// Bytes that the driver loads: a cubin, or PTX that ends with a zero.
    pub(crate) bytes: Vec<u8>,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}, {} bytes", self.name, self.target, self.bytes.len())
    }
}

/// Returns the library's pack. Its hash is computed once in a process.
fn whole() -> Result<&'static Pack<'static>, PackError> {
    static WHOLE: OnceLock<Result<Pack<'static>, PackError>> = OnceLock::new();
    WHOLE.get_or_init(|| Pack::parse(PACK)).as_ref().map_err(PackError::clone)
}

/// Returns the kernels for a device: the best image of every file that runs there.
pub(crate) fn images(device: Compute) -> Result<Vec<Image>, PackError> {
    whole()?.images(device)
}

/// Returns the oldest CUDA version whose drivers load the cubins, such as 12000.
pub(crate) fn least_driver() -> Result<i32, PackError> {
    Ok(whole()?.least_driver)
}

/// Returns the names of the architectures for which the pack has kernels, such as `sm_80, sm_90a`.
///
/// # Errors
///
/// [`BackendError::Unavailable`] if the pack is damaged.
pub fn pack_architectures() -> Result<String, BackendError> {
    let pack = whole().map_err(|error| BackendError::Unavailable(error.to_string()))?;
    Ok(pack.architectures())
}

/// Target of an image. The better of two targets is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// PTX, which the driver compiles for this compute capability or any later one.
    Ptx(Compute),
    /// Machine code.
    Cubin {
        /// Architecture.
        compute: Compute,
        /// True if the code uses instructions that only this architecture has (the `a` of
        /// `sm_90a`).
        specific: bool,
    },
}

impl Target {
    /// Reads a target from its fields in the table.
    fn of([major, minor, kind]: [u8; 3]) -> Result<Self, PackError> {
        let compute = Compute { major: major.into(), minor: minor.into() };
        match kind {
            0 | 1 => Ok(Self::Cubin { compute, specific: kind == 1 }),
            2 => Ok(Self::Ptx(compute)),
            _ => Err(PackError::Damaged("an entry is of an unknown kind")),
        }
    }

    /// Returns true if the code runs on `device`. A cubin runs on the same major version with the
    /// same or a later minor version, or, with specific instructions, on exactly this version.
    fn runs_on(self, device: Compute) -> bool {
        match self {
            Self::Ptx(compute) => compute <= device,
            Self::Cubin { compute, specific: true } => compute == device,
            Self::Cubin { compute, specific: false } => {
                compute.major == device.major && compute.minor <= device.minor
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ptx(Compute { major, minor }) => write!(f, "PTX for compute_{major}{minor}"),
            Self::Cubin { compute: Compute { major, minor }, specific } => {
                write!(f, "sm_{major}{minor}{}", if *specific { "a" } else { "" })
            }
        }
    }
}

/// Row of the table.
#[derive(Debug)]
struct Entry<'a> {
    name: &'a str,
    target: Target,
    kernels: &'a str,
    /// Position of the stream in the pack.
    offset: usize,
    /// Compressed images, one after another.
    stream: &'a [u8],
    /// Position of the image in the decompressed stream.
    start: usize,
    length: usize,
    digest: [u8; 32],
}

impl Entry<'_> {
    /// Checks the decompressed bytes of the entry.
    fn check(&self, bytes: &[u8]) -> Result<(), PackError> {
        if bytes.len() != self.length {
            return Err(PackError::Damaged("an image has another length"));
        }
        if sha256(bytes) != self.digest {
            return Err(PackError::Damaged("an image has another hash"));
        }
        // The driver reads PTX up to the zero.
        if matches!(self.target, Target::Ptx(_)) && bytes.last() != Some(&0) {
            return Err(PackError::Damaged("its PTX does not end"));
        }
        Ok(())
    }
}

/// Decompresses entries in the order in which they are stored, so that each stream is read once.
struct Decompressor<'a> {
    /// Offset of the stream that is read.
    offset: usize,
    stream: XzReader<&'a [u8]>,
    /// Bytes that were read from the stream.
    position: usize,
}

impl<'a> Decompressor<'a> {
    /// Begins at the front of an entry's stream.
    fn new(entry: &Entry<'a>) -> Self {
        let stream = XzReader::new_mem_limit(entry.stream, false, MAX_DECODER_KIB);
        Self { offset: entry.offset, stream, position: 0 }
    }

    /// Decompresses an entry and checks its bytes. Begins again if the entry lies in another
    /// stream, or before the position.
    fn bytes(&mut self, entry: &Entry<'a>) -> Result<Vec<u8>, PackError> {
        if entry.offset != self.offset || entry.start < self.position {
            *self = Self::new(entry);
        }
        let mut bytes = Vec::with_capacity(entry.length);
        let skipped = (entry.start - self.position) as u64;
        io::copy(&mut self.stream.by_ref().take(skipped), &mut io::sink())
            .and_then(|_| self.stream.by_ref().take(entry.length as u64).read_to_end(&mut bytes))
            .map_err(|_| PackError::Damaged("an image cannot be decompressed"))?;
        self.position = entry.start + entry.length;
        entry.check(&bytes)?;
        Ok(bytes)
    }
}

/// Table of a pack whose hash was verified.
#[derive(Debug)]
struct Pack<'a> {
    /// Oldest CUDA version whose drivers load the cubins, such as 12000.
    least_driver: i32,
    entries: Vec<Entry<'a>>,
}

impl<'a> Pack<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, PackError> {
        let mut head = Reader { rest: bytes };
        if head.take(MAGIC.len())? != MAGIC {
            return Err(PackError::Damaged("it does not begin like one"));
        }
        if head.word()? != FORMAT {
            return Err(PackError::Damaged("it has another format"));
        }
        let digest = head.array::<32>()?;
        if sha256(head.rest) != digest {
            return Err(PackError::Damaged("its hash is another"));
        }

        let least_driver = i32::try_from(head.word()?)
            .map_err(|_| PackError::Damaged("no driver is as new as it asks for"))?;
        let count = head.word()?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let [major, minor, kind, name] = head.array()?;
            let (offset, stored, start, length) = (head.size()?, head.size()?, head.size()?, head.size()?);
            let listed = u16::from_le_bytes(head.array()?);
            let digest = head.array()?;
            let mut text = |length| {
                let bytes = head.take(length)?;
                std::str::from_utf8(bytes).map_err(|_| PackError::Damaged("a name is not text"))
            };
            let (name, kernels) = (text(name.into())?, text(listed.into())?);
            let stream = bytes
                .get(offset..)
                .and_then(|from| from.get(..stored))
                .ok_or(PackError::Damaged("an image lies beyond its end"))?;
            if length > MAX_IMAGE_BYTES || start > MAX_STREAM_BYTES - length {
                return Err(PackError::Damaged("an image is too large"));
            }
            let target = Target::of([major, minor, kind])?;
            entries.push(Entry { name, target, kernels, offset, stream, start, length, digest });
        }
        Ok(Self { least_driver, entries })
    }

    /// Returns the best entry of every file that runs on a device.
    fn best(&self, device: Compute) -> Result<Vec<&Entry<'a>>, PackError> {
        let mut best = BTreeMap::<&str, &Entry<'a>>::new();
        for entry in self.entries.iter().filter(|entry| entry.target.runs_on(device)) {
            let chosen = best.entry(entry.name).or_insert(entry);
            if chosen.target < entry.target {
                *chosen = entry;
            }
        }
        if best.is_empty() {
            return Err(PackError::Capability { capability: device, there: self.architectures() });
        }
        Ok(best.into_values().collect())
    }

    /// Decompresses entries. Returns each with its bytes, in the order in which they are stored.
    fn decompress<'e>(entries: &[&'e Entry<'a>]) -> Result<Vec<(&'e Entry<'a>, Vec<u8>)>, PackError> {
        let mut entries = entries.to_vec();
        entries.sort_unstable_by_key(|entry| (entry.offset, entry.start));
        let Some(first) = entries.first() else { return Ok(Vec::new()) };
        let mut decompressor = Decompressor::new(first);
        entries.into_iter().map(|entry| Ok((entry, decompressor.bytes(entry)?))).collect()
    }

    /// Lists the targets in the pack, as text.
    fn architectures(&self) -> String {
        let mut there: Vec<_> = self.entries.iter().map(|entry| entry.target).collect();
        there.sort_unstable();
        there.dedup();
        if there.is_empty() {
            return "none".to_owned();
        }
        there.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl Pack<'static> {
    fn images(&self, device: Compute) -> Result<Vec<Image>, PackError> {
        let image = |(entry, bytes): (&Entry<'static>, Vec<u8>)| Image {
            name: entry.name.to_owned(),
            target: entry.target,
            kernels: entry.kernels.split(' ').collect(),
            bytes,
        };
        Ok(Self::decompress(&self.best(device)?)?.into_iter().map(image).collect())
    }
}

/// Reads fields from the front of a slice.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], PackError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(PackError::Damaged("it is too short"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PackError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(PackError::Damaged("it is too short"))?;
        self.rest = rest;
        Ok(*taken)
    }

    fn word(&mut self) -> Result<u32, PackError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn size(&mut self) -> Result<usize, PackError> {
        self.word().map(|word| word as usize)
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lzma_rust2::{XzOptions, XzWriter};

    use super::*;

    const fn compute(major: u32, minor: u32) -> Compute {
        Compute { major, minor }
    }

    /// Row of a pack to write: the table's fields, which may disagree with the stored bytes.
    struct Row {
        name: &'static str,
        target: (u8, u8, u8),
        kernels: &'static str,
        /// Compressed images of the file: first another image, then the row's image.
        stored: Vec<u8>,
        /// Number that is added to the row's true offset.
        shift: u32,
        stored_length: u32,
        start: u32,
        length: u32,
        digest: [u8; 32],
    }

    fn row(name: &'static str, target: (u8, u8, u8)) -> Row {
        let (before, raw) = (image(name, (7, 5, 0)), image(name, target));
        let stored = compress(&[before.as_slice(), &raw].concat(), 4 << 20);
        let (stored_length, start, length) = (stored.len() as u32, before.len() as u32, raw.len() as u32);
        let digest = sha256(&raw);
        Row { name, target, kernels: "one two", stored, shift: 0, stored_length, start, length, digest }
    }

    /// Decompresses one entry.
    fn bytes(entry: &Entry<'_>) -> Result<Vec<u8>, PackError> {
        Decompressor::new(entry).bytes(entry)
    }

    fn compress(raw: &[u8], dictionary_bytes: u32) -> Vec<u8> {
        let mut options = XzOptions::with_preset(0);
        options.lzma_options.dict_size = dictionary_bytes;
        let mut writer = XzWriter::new(Vec::new(), options).unwrap();
        writer.write_all(raw).unwrap();
        writer.finish().unwrap()
    }

    fn image(name: &str, target: (u8, u8, u8)) -> Vec<u8> {
        let mut bytes = format!("{name} {target:?} ").repeat(20).into_bytes();
        bytes.push(0);
        bytes
    }

    /// Writes a pack with a valid hash.
    fn write(rows: &[Row]) -> Vec<u8> {
        let mut body = [12_000, rows.len() as u32].map(u32::to_le_bytes).concat();
        let mut offset = 52 + rows.iter().map(|row| 54 + row.name.len() + row.kernels.len()).sum::<usize>();
        for row in rows {
            let (major, minor, kind) = row.target;
            body.extend([major, minor, kind, row.name.len() as u8]);
            body.extend((offset as u32).wrapping_add(row.shift).to_le_bytes());
            body.extend(row.stored_length.to_le_bytes());
            body.extend(row.start.to_le_bytes());
            body.extend(row.length.to_le_bytes());
            body.extend((row.kernels.len() as u16).to_le_bytes());
            body.extend(row.digest);
            body.extend([row.name, row.kernels].concat().into_bytes());
            offset += row.stored.len();
        }
        body.extend(rows.iter().flat_map(|row| &row.stored));
        seal(&body)
    }

    fn seal(body: &[u8]) -> Vec<u8> {
        [MAGIC, &FORMAT.to_le_bytes(), &sha256(body), body].concat()
    }

    fn sample() -> Vec<Row> {
        let general = [(8, 0, 0), (8, 6, 0), (8, 9, 0), (9, 0, 1), (10, 0, 0), (12, 0, 0), (9, 0, 2)];
        let mut rows: Vec<_> = general.iter().map(|&target| row("fold", target)).collect();
        rows.push(row("planes", (9, 0, 1)));
        rows.push(row("share", (8, 0, 0)));
        rows.push(row("share", (9, 0, 0)));
        rows
    }

    fn chosen(device: Compute) -> Result<Vec<(String, String)>, PackError> {
        let bytes = write(&sample());
        let pack = Pack::parse(&bytes)?;
        let best = pack.best(device)?;
        Ok(best.iter().map(|entry| (entry.name.to_owned(), entry.target.to_string())).collect())
    }

    #[test]
    fn a_device_gets_the_best_of_every_file() {
        let cases: [(Compute, &[(&str, &str)]); 12] = [
            (compute(8, 0), &[("fold", "sm_80"), ("share", "sm_80")]),
            (compute(8, 6), &[("fold", "sm_86"), ("share", "sm_80")]),
            (compute(8, 7), &[("fold", "sm_86"), ("share", "sm_80")]),
            (compute(8, 9), &[("fold", "sm_89"), ("share", "sm_80")]),
            (compute(9, 0), &[("fold", "sm_90a"), ("planes", "sm_90a"), ("share", "sm_90")]),
            // Code specific to 9.0 does not run on a later version, but PTX does.
            (compute(9, 1), &[("fold", "PTX for compute_90"), ("share", "sm_90")]),
            (compute(10, 3), &[("fold", "sm_100")]),
            (compute(12, 0), &[("fold", "sm_120")]),
            (compute(12, 1), &[("fold", "sm_120")]),
            // No cubin runs there.
            (compute(9, 9), &[("fold", "PTX for compute_90"), ("share", "sm_90")]),
            (compute(11, 0), &[("fold", "PTX for compute_90")]),
            (compute(13, 0), &[("fold", "PTX for compute_90")]),
        ];
        for (device, expected) in cases {
            let found = chosen(device).unwrap();
            let found: Vec<_> = found.iter().map(|(name, place)| (name.as_str(), place.as_str())).collect();
            assert_eq!(found, expected, "{device}");
        }
    }

    #[test]
    fn a_specific_cubin_is_better_than_a_general_one() {
        for rows in [[row("x", (9, 0, 0)), row("x", (9, 0, 1))], [row("x", (9, 0, 1)), row("x", (9, 0, 0))]] {
            let written = write(&rows);
            let pack = Pack::parse(&written).unwrap();
            let best = pack.best(compute(9, 0)).unwrap();
            assert_eq!(best.len(), 1);
            assert_eq!(best[0].target.to_string(), "sm_90a");
            assert_eq!(best[0].kernels, "one two");
            assert_eq!(bytes(best[0]).unwrap(), image("x", (9, 0, 1)));
        }
    }

    #[test]
    fn a_device_without_kernels_is_named_with_those_that_have_some() {
        for device in [compute(7, 5), compute(6, 0)] {
            let message = chosen(device).unwrap_err().to_string();
            let there = "PTX for compute_90, sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_120";
            let expected = format!("no kernels for compute capability {device}; there are some for {there}");
            assert_eq!(message, expected);
        }
        let empty = write(&[]);
        let message = Pack::parse(&empty).unwrap().best(compute(8, 0)).unwrap_err().to_string();
        assert!(message.ends_with("there are some for none"), "{message}");
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_an_error() {
        let bytes = write(&sample()[3..8]);
        assert!(Pack::parse(&bytes).is_ok());
        for end in 0..bytes.len() {
            assert!(matches!(Pack::parse(&bytes[..end]), Err(PackError::Damaged(_))), "{end} bytes");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Pack::parse(&longer).is_err());
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(Pack::parse(&flipped), Err(PackError::Damaged(_))), "bit {bit}");
        }
    }

    /// With a valid hash, damage reaches the table and the images; it must cause an error or be
    /// harmless.
    #[test]
    fn damage_under_a_right_hash_never_panics() {
        let written = write(&sample()[3..8]);
        let whole = &written[44..];
        let devices = [compute(9, 0), compute(10, 0), compute(12, 0)];
        let read = |body: &[u8]| {
            let sealed = seal(body);
            if let Ok(pack) = Pack::parse(&sealed) {
                for entry in devices.iter().flat_map(|&device| pack.best(device).into_iter().flatten()) {
                    assert!(bytes(entry).is_ok_and(|bytes| bytes.len() <= MAX_IMAGE_BYTES) || body != whole);
                }
            }
        };
        for end in 0..whole.len() {
            read(&whole[..end]);
        }
        for bit in 0..8 * whole.len() {
            let mut flipped = whole.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            read(&flipped);
        }
    }

    #[test]
    fn a_lying_table_is_an_error() {
        type Lie = fn(&mut Row);
        let lies: [(Lie, &str); 11] = [
            (|row| row.digest[0] ^= 1, "another hash"),
            (|row| row.length += 1, "another length"),
            (|row| row.length -= 1, "another hash"),
            (|row| row.length = u32::MAX, "too large"),
            (|row| row.start += 1, "another length"),
            (|row| row.start -= 1, "another hash"),
            (|row| row.start = u32::MAX, "too large"),
            (|row| row.stored_length = u32::MAX, "beyond its end"),
            (|row| row.shift = 1 << 31, "beyond its end"),
            (|row| row.stored_length /= 2, "cannot be decompressed"),
            (|row| row.target.2 = 3, "unknown kind"),
        ];
        for (lie, expected) in lies {
            let mut rows = [row("fold", (8, 0, 0))];
            lie(&mut rows[0]);
            let written = write(&rows);
            let message = Pack::parse(&written)
                .and_then(|pack| bytes(&pack.entries[0]))
                .expect_err("a lie is seen")
                .to_string();
            assert!(message.contains(expected), "{message}, not {expected}");
        }
        let many = seal(&[12_000, u32::MAX].map(u32::to_le_bytes).concat());
        assert_eq!(Pack::parse(&many).unwrap_err(), PackError::Damaged("it is too short"));
    }

    #[test]
    fn the_pack_of_this_library_is_whole() {
        let pack = Pack::parse(PACK).unwrap();
        let entries: Vec<_> = pack.entries.iter().collect();
        for (entry, bytes) in Pack::decompress(&entries).unwrap() {
            match entry.target {
                Target::Cubin { .. } => assert!(bytes.starts_with(b"\x7fELF"), "{}", entry.name),
                Target::Ptx(_) => {
                    let text = std::str::from_utf8(&bytes).unwrap();
                    let entries = entry.kernels.split(' ').map(|kernel| format!(".entry {kernel}("));
                    entries.for_each(|line| assert!(text.contains(&line), "{line} is not in {}", entry.name));
                }
            }
        }
        for (major, minor) in [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (11, 0), (12, 0), (13, 0)] {
            let images = images(compute(major, minor)).unwrap();
            assert!(
                images.iter().any(|image| image.kernels.contains(&"selftest_words")),
                "sm_{major}{minor}"
            );
        }
        assert_eq!(least_driver().unwrap(), 12_000);
    }

    #[test]
    fn a_dictionary_beyond_the_memory_of_the_decoder_is_an_error() {
        let mut rows = [row("fold", (9, 0, 2))];
        rows[0].stored = compress(&image("fold", (9, 0, 2)), 32 << 20);
        rows[0].stored_length = rows[0].stored.len() as u32;
        let written = write(&rows);
        let error = bytes(&Pack::parse(&written).unwrap().entries[0]).unwrap_err();
        assert_eq!(error, PackError::Damaged("an image cannot be decompressed"));
    }

    #[test]
    fn ptx_without_an_end_is_an_error() {
        let mut rows = [row("fold", (9, 0, 2))];
        let raw = &image("fold", (9, 0, 2))[..20];
        rows[0].stored = compress(raw, 4 << 20);
        (rows[0].stored_length, rows[0].start, rows[0].length) = (rows[0].stored.len() as u32, 0, 20);
        rows[0].digest = sha256(raw);
        let written = write(&rows);
        let error = bytes(&Pack::parse(&written).unwrap().entries[0]).unwrap_err();
        assert_eq!(error, PackError::Damaged("its PTX does not end"));
    }
}
