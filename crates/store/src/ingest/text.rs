//! Text files in any encoding, converted to UTF-8 without a byte order mark: the single reader for
//! CSV, JSONL, lists of keys and lines of changes.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::str::FromStr;

use encoding_rs::DecoderResult;

use crate::{Location, StoreError};

/// Bytes read at once.
const CHUNK: usize = 1 << 16;
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Encoding of a text file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, which is checked.
    #[default]
    Utf8,
    /// Another encoding of the WHATWG Encoding Standard, converted to UTF-8.
    Other(&'static encoding_rs::Encoding),
    /// Bytes that need not be text: keys and values are used unchanged.
    Bytes,
}

impl FromStr for Encoding {
    type Err = String;

    /// Parses a label of the WHATWG Encoding Standard, such as `latin1`, `windows-1252`,
    /// `shift_jis` or `utf-16`.
    fn from_str(label: &str) -> Result<Self, String> {
        match encoding_rs::Encoding::for_label(label.as_bytes()) {
            Some(encoding) if encoding == encoding_rs::UTF_8 => Ok(Self::Utf8),
            Some(encoding) if encoding != encoding_rs::REPLACEMENT => Ok(Self::Other(encoding)),
            _ => Err(
                "encodings have the labels of the web, such as windows-1252, iso-8859-2, shift_jis or utf-16"
                    .into(),
            ),
        }
    }
}

/// Fault of a text, with its line.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {detail}")]
pub(crate) struct Fault {
    pub line: u64,
    pub detail: String,
}

impl Fault {
    /// Wraps the fault in an error of a reader; [`explain`] unwraps it.
    pub fn error(line: u64, detail: impl Into<String>) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, Self { line, detail: detail.into() })
    }
}

/// Converts an error of a reader of text, which messages call `path`.
pub(crate) fn explain(error: io::Error, path: &Path) -> StoreError {
    match error.downcast::<Fault>() {
        Ok(Fault { line, detail }) => StoreError::malformed(Location::Line(path.into(), line), detail),
        Err(source) => StoreError::Io { path: path.into(), action: "read", source },
    }
}

/// Reads the lines of a text without their ends (LF or CR LF); messages call the text `path`.
///
/// # Errors
/// [`StoreError::Malformed`] with the line that is not text in this encoding, [`StoreError::Io`].
pub fn lines(input: impl Read, path: &Path, encoding: Encoding) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut lines = Vec::new();
    for line in BufReader::new(TextReader::new(input, encoding)).split(b'\n') {
        let mut line = line.map_err(|error| explain(error, path))?;
        if line.ends_with(b"\r") {
            line.pop();
        }
        lines.push(line);
    }
    Ok(lines)
}

/// Reader that converts a text to UTF-8, or passes its bytes through, without a byte order mark. If
/// the input is not text in its encoding, the reader returns everything before the fault and then
/// fails with a [`Fault`].
pub(crate) struct TextReader<R> {
    input: R,
    decoding: Decoding,
    /// True once the first bytes have been inspected.
    started: bool,
    /// Bytes that have been read but not decoded.
    raw: Vec<u8>,
    text: Vec<u8>,
    /// Number of bytes of `text` that have been returned.
    given: usize,
    ended: bool,
    /// Number of bytes read from the input.
    read: u64,
    /// Line of the next text to decode, from 1.
    line: u64,
    fault: Option<Fault>,
}

enum Decoding {
    Utf8,
    Other(Box<encoding_rs::Decoder>, &'static str),
    Bytes,
}

impl<R: Read> TextReader<R> {
    /// Creates a reader of `input`, which has this encoding.
    pub fn new(input: R, encoding: Encoding) -> Self {
        let decoding = match encoding {
            Encoding::Utf8 => Decoding::Utf8,
            Encoding::Other(encoding) => Decoding::Other(Box::new(encoding.new_decoder()), encoding.name()),
            Encoding::Bytes => Decoding::Bytes,
        };
        Self {
            input,
            decoding,
            started: false,
            raw: Vec::new(),
            text: Vec::new(),
            given: 0,
            ended: false,
            read: 0,
            line: 1,
            fault: None,
        }
    }

    /// Returns the number of bytes read from the input.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }

    /// Decodes until there is text to return, a fault, or the end.
    fn fill(&mut self) -> io::Result<()> {
        self.text.clear();
        self.given = 0;
        while self.text.is_empty() && self.fault.is_none() && !self.ended {
            self.read_chunk()?;
            if !self.started {
                if self.raw.len() < 4 && !self.ended {
                    continue;
                }
                self.start();
            }
            if self.fault.is_none() {
                self.decode();
                self.line += self.text.iter().filter(|&&byte| byte == b'\n').count() as u64;
                if let Some(fault) = &mut self.fault {
                    fault.line = self.line;
                }
            }
        }
        Ok(())
    }

    fn read_chunk(&mut self) -> io::Result<()> {
        let left = self.raw.len();
        self.raw.resize(left + CHUNK, 0);
        let read = loop {
            match self.input.read(&mut self.raw[left..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.raw.truncate(left + read.as_ref().unwrap_or(&0));
        let read = read?;
        self.ended = read == 0;
        self.read += read as u64;
        Ok(())
    }

    /// Drops a byte order mark. Refuses UTF-16 and UTF-32 if the encoding is UTF-8, because their
    /// bytes would give a table of nonsense.
    fn start(&mut self) {
        self.started = true;
        // Decoders handle the mark themselves.
        if matches!(self.decoding, Decoding::Utf8 | Decoding::Bytes) && self.raw.starts_with(MARK) {
            self.raw.drain(..MARK.len());
        }
        let is_wide = matches!(self.raw[..], [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..]);
        if matches!(self.decoding, Decoding::Utf8) && is_wide {
            self.fault(
                "its text is UTF-16 or UTF-32, not UTF-8; give --encoding utf-16, or convert it: iconv -f UTF-32 -t UTF-8 OLD > NEW",
            );
        }
    }

    /// Moves decoded text from `raw` to `text`.
    fn decode(&mut self) {
        match &mut self.decoding {
            Decoding::Bytes => std::mem::swap(&mut self.raw, &mut self.text),
            Decoding::Utf8 => {
                let (valid, is_cut) = match str::from_utf8(&self.raw) {
                    Ok(text) => (text.len(), true),
                    Err(error) => (error.valid_up_to(), error.error_len().is_none()),
                };
                self.text.extend_from_slice(&self.raw[..valid]);
                self.raw.drain(..valid);
                match self.raw.first() {
                    Some(byte) if !is_cut || self.ended => {
                        let detail = format!(
                            "its text is not UTF-8: the byte 0x{byte:02x}; name its encoding, such as --encoding windows-1252 or \
                             shift_jis, or give --bytes if keys and values are not text"
                        );
                        self.fault(detail);
                    }
                    _ => {}
                }
            }
            Decoding::Other(decoder, name) => {
                let most = decoder.max_utf8_buffer_length_without_replacement(self.raw.len());
                self.text.resize(most.expect("a chunk is small"), 0);
                let (result, _, written) =
                    decoder.decode_to_utf8_without_replacement(&self.raw, &mut self.text, self.ended);
                self.text.truncate(written);
                self.raw.clear();
                if matches!(result, DecoderResult::Malformed(..)) {
                    let detail = format!("its text is not {name}; name another --encoding");
                    self.fault(detail);
                }
            }
        }
    }

    /// Stores a fault in the current line.
    fn fault(&mut self, detail: impl Into<String>) {
        self.fault = Some(Fault { line: self.line, detail: detail.into() });
    }
}

impl<R: Read> Read for TextReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.text.len() && self.fault.is_none() && !buffer.is_empty() {
            self.fill()?;
        }
        let left = &self.text[self.given..];
        if let (true, Some(Fault { line, detail })) = (left.is_empty(), &self.fault) {
            return Err(Fault::error(*line, detail.clone()));
        }
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A reader that returns a few bytes at a time.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn read(bytes: &[u8], piece: usize, encoding: &str) -> Result<String, String> {
        let encoding = if encoding == "bytes" { Encoding::Bytes } else { encoding.parse().unwrap() };
        let mut text = Vec::new();
        TextReader::new(Drip(bytes, piece), encoding)
            .read_to_end(&mut text)
            .map_err(|error| explain(error, Path::new("a.csv")).to_string())?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    fn every_encoding_becomes_utf_8_without_a_mark() {
        for piece in [1, 2, 3, 1000] {
            for (bytes, encoding, expected) in [
                (&b"M\xc3\xbcnchen,1\n"[..], "utf-8", "München,1\n"),
                (b"\xef\xbb\xbfk,v\n", "utf-8", "k,v\n"),
                (b"\xef\xbb\xbfk,v\n", "bytes", "k,v\n"),
                (b"M\xfcnchen", "latin1", "München"),
                (b"\x80 5", "windows-1252", "\u{20ac} 5"),
                (b"\x93\x8c\x8b\x9e", "shift_jis", "東京"),
                (b"\xff\xfek\0,\0v\0", "utf-16", "k,v"),
                (b"\xfe\xff\0k\0,\0v", "utf-16", "k,v"),
                (b"", "utf-8", ""),
                (b"k", "utf-8", "k"),
                (b"a\xfeb", "bytes", "a\u{fffd}b"),
            ] {
                assert_eq!(read(bytes, piece, encoding).as_deref(), Ok(expected), "{encoding}, {piece}");
            }
        }
    }

    #[test]
    fn what_is_no_text_of_its_encoding_is_refused_with_its_line() {
        for piece in [1, 3, 1000] {
            for (bytes, encoding, parts) in [
                (&b"k,v\nM\xfcnchen,1\n"[..], "utf-8", ["a.csv:2", "0xfc", "--encoding"]),
                (b"k,v\n\n\xe2\x82", "utf-8", ["a.csv:3", "0xe2", "--bytes"]),
                (b"k\0,\0v\0", "utf-8", ["a.csv:1", "UTF-16", "--encoding utf-16"]),
                (b"\xff\xfek\0", "utf-8", ["a.csv:1", "UTF-16", "iconv"]),
                (b"k\n\x81\xff", "shift_jis", ["a.csv:2", "Shift_JIS", "--encoding"]),
            ] {
                let error = read(bytes, piece, encoding).unwrap_err();
                assert!(parts.iter().all(|part| error.contains(part)), "{error}");
            }
        }
        assert!("utf-7".parse::<Encoding>().is_err() && "nonsense".parse::<Encoding>().is_err());
    }

    #[test]
    fn lines_end_with_or_without_a_carriage_return() {
        let read = |text: &[u8]| lines(text, Path::new("keys"), Encoding::Utf8).unwrap();
        assert_eq!(
            read(b"\xef\xbb\xbfone\r\ntwo\nthree"),
            [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]
        );
        assert!(read(b"").is_empty());
    }

    proptest! {
        #[test]
        fn whatever_is_utf_8_comes_through_unchanged(bytes: Vec<u8>, text: String, piece in 1..9usize) {
            let expected = text.strip_prefix('\u{feff}').unwrap_or(&text);
            if !matches!(expected.as_bytes(), [0, _, ..] | [_, 0, ..]) {
                prop_assert_eq!(read(text.as_bytes(), piece, "utf-8"), Ok(expected.to_owned()));
            }
            prop_assert_eq!(read(&bytes, piece, "utf-8").is_ok(), str::from_utf8(&bytes).is_ok_and(
                |text| !matches!(text.strip_prefix('\u{feff}').unwrap_or(text).as_bytes(), [0, _, ..] | [_, 0, ..])
            ));
        }
    }
}
