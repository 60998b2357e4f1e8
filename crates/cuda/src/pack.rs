//! The compiled kernels: `pack/kernels.pack`, which is part of this library.
//!
//! `scripts/cuda_pack.py` writes the pack and `docs/kernels/pack.md` describes it. Everything read
//! from it is checked: a damaged pack causes an error, and the driver never loads a damaged module.

use std::collections::BTreeMap;
use std::fmt;

use miniz_oxide::inflate::decompress_slice_iter_to_slice;
use sha2::{Digest, Sha256};
use spirea_backend::BackendError;

use crate::driver::Compute;

static PACK: &[u8] = include_bytes!("../pack/kernels.pack");

const MAGIC: &[u8] = b"SPIRCUDA";
const FORMAT: u32 = 1;
/// Maximum length of a cubin, far above any real one: bounds what is allocated for a length read
/// from the table.
const MAX_CUBIN_BYTES: usize = 16 << 20;

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

/// One file of kernels, compiled for one architecture.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Cubin {
    /// The name of the file, without its ending.
    pub(crate) name: String,
    /// Architecture that it was compiled for, such as `sm_90a`.
    pub(crate) architecture: String,
    /// Image that the driver loads.
    pub(crate) image: Vec<u8>,
}

impl fmt::Debug for Cubin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}, {} bytes", self.name, self.architecture, self.image.len())
    }
}

/// Returns the kernels for a device: the best cubin of every file that runs there.
pub(crate) fn cubins(architecture: Compute) -> Result<Vec<Cubin>, PackError> {
    Pack::parse(PACK)?.cubins(architecture)
}

/// Returns the names of the architectures for which the pack has kernels, such as `sm_80, sm_90a`.
///
/// # Errors
///
/// [`BackendError::Unavailable`] if the pack is damaged.
pub fn pack_architectures() -> Result<String, BackendError> {
    let pack = Pack::parse(PACK).map_err(|error| BackendError::Unavailable(error.to_string()))?;
    Ok(pack.architectures())
}

/// Target of a cubin. The order is from the lesser to the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Architecture {
    compute: Compute,
    /// True if the code uses instructions that only this architecture has (the `a` of `sm_90a`).
    specific: bool,
}

impl Architecture {
    /// Returns true if the code runs on `device`: on the same major version with the same or a
    /// later minor version, or, with specific instructions, on exactly this version.
    fn runs_on(self, device: Compute) -> bool {
        if self.specific {
            self.compute == device
        } else {
            self.compute.major == device.major && self.compute.minor <= device.minor
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compute { major, minor } = self.compute;
        write!(f, "sm_{major}{minor}{}", if self.specific { "a" } else { "" })
    }
}

/// Row of the table.
#[derive(Debug)]
struct Entry<'a> {
    name: &'a str,
    architecture: Architecture,
    stored: &'a [u8],
    length: usize,
    digest: [u8; 32],
}

impl Entry<'_> {
    fn cubin(&self) -> Result<Cubin, PackError> {
        let mut image = vec![0; self.length];
        let written = decompress_slice_iter_to_slice(&mut image, std::iter::once(self.stored), true, false)
            .map_err(|_| PackError::Damaged("a cubin cannot be decompressed"))?;
        if written != self.length {
            return Err(PackError::Damaged("a cubin has another length"));
        }
        if sha256(&image) != self.digest {
            return Err(PackError::Damaged("a cubin has another hash"));
        }
        Ok(Cubin { name: self.name.to_owned(), architecture: self.architecture.to_string(), image })
    }
}

/// Table of a pack whose hash was verified.
#[derive(Debug)]
struct Pack<'a> {
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

        let count = head.word()?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let [major, minor, specific, name] = head.array()?;
            let (offset, stored, length) = (head.size()?, head.size()?, head.size()?);
            let digest = head.array()?;
            let name = std::str::from_utf8(head.take(name.into())?)
                .map_err(|_| PackError::Damaged("a name is not text"))?;
            let stored = bytes
                .get(offset..)
                .and_then(|from| from.get(..stored))
                .ok_or(PackError::Damaged("a cubin lies beyond its end"))?;
            if length > MAX_CUBIN_BYTES {
                return Err(PackError::Damaged("a cubin is too large"));
            }
            let compute = Compute { major: major.into(), minor: minor.into() };
            let architecture = Architecture { compute, specific: specific != 0 };
            entries.push(Entry { name, architecture, stored, length, digest });
        }
        Ok(Self { entries })
    }

    fn cubins(&self, device: Compute) -> Result<Vec<Cubin>, PackError> {
        let mut best = BTreeMap::<&str, &Entry<'_>>::new();
        for entry in self.entries.iter().filter(|entry| entry.architecture.runs_on(device)) {
            let chosen = best.entry(entry.name).or_insert(entry);
            if chosen.architecture < entry.architecture {
                *chosen = entry;
            }
        }
        if best.is_empty() {
            return Err(PackError::Capability { capability: device, there: self.architectures() });
        }
        best.into_values().map(Entry::cubin).collect()
    }

    /// Lists the architectures in the pack, as text.
    fn architectures(&self) -> String {
        let mut there: Vec<_> = self.entries.iter().map(|entry| entry.architecture).collect();
        there.sort_unstable();
        there.dedup();
        if there.is_empty() {
            return "none".to_owned();
        }
        there.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
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
    use super::*;

    const fn compute(major: u32, minor: u32) -> Compute {
        Compute { major, minor }
    }

    /// Row of a pack to write: the table's fields, which may disagree with the stored bytes.
    struct Row {
        name: &'static str,
        architecture: (u8, u8, u8),
        stored: Vec<u8>,
        /// Added to the row's true offset.
        shift: u32,
        stored_length: u32,
        length: u32,
        digest: [u8; 32],
    }

    fn row(name: &'static str, architecture: (u8, u8, u8)) -> Row {
        let raw = image(name, architecture);
        let stored = miniz_oxide::deflate::compress_to_vec_zlib(&raw, 9);
        let (stored_length, length) = (stored.len() as u32, raw.len() as u32);
        Row { name, architecture, stored, shift: 0, stored_length, length, digest: sha256(&raw) }
    }

    fn image(name: &str, architecture: (u8, u8, u8)) -> Vec<u8> {
        format!("{name} {architecture:?} ").repeat(20).into_bytes()
    }

    /// Writes a pack with a valid hash.
    fn write(rows: &[Row]) -> Vec<u8> {
        let mut body = (rows.len() as u32).to_le_bytes().to_vec();
        let mut offset = 48 + rows.iter().map(|row| 48 + row.name.len()).sum::<usize>();
        for row in rows {
            let (major, minor, specific) = row.architecture;
            body.extend([major, minor, specific, row.name.len() as u8]);
            body.extend((offset as u32).wrapping_add(row.shift).to_le_bytes());
            body.extend(row.stored_length.to_le_bytes());
            body.extend(row.length.to_le_bytes());
            body.extend(row.digest);
            body.extend(row.name.as_bytes());
            offset += row.stored.len();
        }
        body.extend(rows.iter().flat_map(|row| &row.stored));
        seal(&body)
    }

    fn seal(body: &[u8]) -> Vec<u8> {
        [MAGIC, &FORMAT.to_le_bytes(), &sha256(body), body].concat()
    }

    fn sample() -> Vec<Row> {
        let general = [(8, 0, 0), (8, 6, 0), (8, 9, 0), (9, 0, 1), (10, 0, 0), (12, 0, 0)];
        let mut rows: Vec<_> = general.iter().map(|&architecture| row("fold", architecture)).collect();
        rows.push(row("planes", (9, 0, 1)));
        rows.push(row("share", (8, 0, 0)));
        rows.push(row("share", (9, 0, 0)));
        rows
    }

    fn chosen(device: Compute) -> Result<Vec<(String, String)>, PackError> {
        let bytes = write(&sample());
        let cubins = Pack::parse(&bytes)?.cubins(device)?;
        Ok(cubins.into_iter().map(|cubin| (cubin.name, cubin.architecture)).collect())
    }

    #[test]
    fn a_device_gets_the_best_of_every_file() {
        let cases: [(Compute, &[(&str, &str)]); 9] = [
            (compute(8, 0), &[("fold", "sm_80"), ("share", "sm_80")]),
            (compute(8, 6), &[("fold", "sm_86"), ("share", "sm_80")]),
            (compute(8, 7), &[("fold", "sm_86"), ("share", "sm_80")]),
            (compute(8, 9), &[("fold", "sm_89"), ("share", "sm_80")]),
            (compute(9, 0), &[("fold", "sm_90a"), ("planes", "sm_90a"), ("share", "sm_90")]),
            // Code specific to 9.0 does not run on a later version.
            (compute(9, 1), &[("share", "sm_90")]),
            (compute(10, 3), &[("fold", "sm_100")]),
            (compute(12, 0), &[("fold", "sm_120")]),
            (compute(12, 1), &[("fold", "sm_120")]),
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
            let bytes = write(&rows);
            let cubins = Pack::parse(&bytes).unwrap().cubins(compute(9, 0)).unwrap();
            assert_eq!(cubins.len(), 1);
            assert_eq!(cubins[0].architecture, "sm_90a");
            assert_eq!(cubins[0].image, image("x", (9, 0, 1)));
        }
    }

    #[test]
    fn a_device_without_kernels_is_named_with_those_that_have_some() {
        for device in [compute(7, 5), compute(11, 0), compute(13, 0)] {
            let message = chosen(device).unwrap_err().to_string();
            let there = "sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_120";
            let expected = format!("no kernels for compute capability {device}; there are some for {there}");
            assert_eq!(message, expected);
        }
        let empty = seal(&0u32.to_le_bytes());
        let message = Pack::parse(&empty).unwrap().cubins(compute(8, 0)).unwrap_err().to_string();
        assert!(message.ends_with("there are some for none"), "{message}");
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_an_error() {
        let bytes = write(&sample()[3..7]);
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

    /// With a valid hash, damage reaches the table and the cubins; it must cause an error or be
    /// harmless.
    #[test]
    fn damage_under_a_right_hash_never_panics() {
        let bytes = write(&sample()[3..7]);
        let body = &bytes[44..];
        let devices = [compute(9, 0), compute(10, 0), compute(12, 0)];
        let read = |body: &[u8]| {
            let bytes = seal(body);
            if let Ok(pack) = Pack::parse(&bytes) {
                for cubin in devices.iter().flat_map(|&device| pack.cubins(device).into_iter().flatten()) {
                    assert!(cubin.image.len() <= MAX_CUBIN_BYTES);
                }
            }
        };
        for end in 0..body.len() {
            read(&body[..end]);
        }
        for bit in 0..8 * body.len() {
            let mut flipped = body.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            read(&flipped);
        }
    }

    #[test]
    fn a_lying_table_is_an_error() {
        type Lie = fn(&mut Row);
        let lies: [(Lie, &str); 7] = [
            (|row| row.digest[0] ^= 1, "another hash"),
            (|row| row.length += 1, "another length"),
            (|row| row.length -= 1, "cannot be decompressed"),
            (|row| row.length = u32::MAX, "too large"),
            (|row| row.stored_length = u32::MAX, "beyond its end"),
            (|row| row.shift = 1 << 31, "beyond its end"),
            (|row| row.stored_length -= 1, "cannot be decompressed"),
        ];
        for (lie, expected) in lies {
            let mut rows = [row("fold", (8, 0, 0))];
            lie(&mut rows[0]);
            let bytes = write(&rows);
            let message = Pack::parse(&bytes)
                .and_then(|pack| pack.cubins(compute(8, 0)))
                .expect_err("a lie is seen")
                .to_string();
            assert!(message.contains(expected), "{message}, not {expected}");
        }
        let many = seal(&u32::MAX.to_le_bytes());
        assert_eq!(Pack::parse(&many).unwrap_err(), PackError::Damaged("it is too short"));
    }

    #[test]
    fn the_pack_of_this_library_is_whole() {
        let pack = Pack::parse(PACK).unwrap();
        for entry in &pack.entries {
            let cubin = entry.cubin().unwrap();
            assert!(cubin.image.starts_with(b"\x7fELF"), "{cubin:?}");
        }
        for (major, minor) in [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)] {
            assert!(!cubins(compute(major, minor)).unwrap().is_empty(), "sm_{major}{minor}");
        }
    }
}
