use std::ops::Range;

use bytes::Bytes;

/// Maximum number of fields in a request, headers and trailers together.
pub const MAX_FIELDS: usize = 64;
/// Maximum bytes of a request's control data and fields: more than a request of a device needs, and
/// as much as most servers allow.
pub const MAX_FIELD_BYTES: usize = 16 << 10;

/// Framing indicators of RFC 9292 (section 3.3).
const KNOWN_LENGTH_REQUEST: u64 = 0;
const KNOWN_LENGTH_RESPONSE: u64 = 1;
const INDETERMINATE_LENGTH_REQUEST: u64 = 2;

/// Reason why bytes are not a request in binary form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The framing indicator at the start of the message is not that of a request.
    #[error("the message is no request: its framing indicator is neither 0 nor 2")]
    Framing,
    /// The message ends within a part.
    #[error("the message ends within a length, a field or its content")]
    Truncated,
    /// The message has too many fields, or fields that are too long.
    #[error("the message has more than {MAX_FIELDS} fields, or more than {MAX_FIELD_BYTES} bytes of them")]
    Fields,
    /// A field has no name.
    #[error("a field of the message has no name")]
    NoName,
    /// The padding after the end of the message has nonzero bytes.
    #[error("the padding of the message has bytes other than zero")]
    Padding,
}

/// A request in binary form. Its parts share the message's memory. Trailers are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinaryRequest {
    /// Method, such as `POST`.
    pub method: Bytes,
    /// Scheme, such as `https`.
    pub scheme: Bytes,
    /// Authority; empty if the request has none.
    pub authority: Bytes,
    /// Path and query.
    pub path: Bytes,
    /// Names and values of the header fields, in order.
    pub fields: Vec<(Bytes, Bytes)>,
    /// Content.
    pub content: Bytes,
}

impl BinaryRequest {
    /// Parses a request of known or of indeterminate length. Chunks of content are joined in place,
    /// so the message's memory suffices.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn from_bytes(message: Vec<u8>) -> Result<Self, MessageError> {
        let mut reader = Reader { end: message.len(), message, at: 0, fields: 0, field_bytes: 0 };
        let chunked = match reader.number()? {
            KNOWN_LENGTH_REQUEST => false,
            INDETERMINATE_LENGTH_REQUEST => true,
            _ => return Err(MessageError::Framing),
        };
        let mut control = || reader.bounded();
        let [method, scheme, authority, path] = [control()?, control()?, control()?, control()?];
        let fields = reader.section(chunked)?;
        let content = if chunked { reader.chunks()? } else { reader.optional()? };
        reader.section(chunked)?;
        if reader.message[reader.at..].iter().any(|&byte| byte != 0) {
            return Err(MessageError::Padding);
        }
        let message = Bytes::from(reader.message);
        let part = |range: Range<usize>| message.slice(range);
        Ok(Self {
            method: part(method),
            scheme: part(scheme),
            authority: part(authority),
            path: part(path),
            fields: fields.into_iter().map(|(name, value)| (part(name), part(value))).collect(),
            content: part(content),
        })
    }
}

/// Place of a part in a message.
type Part = Range<usize>;

/// Reads the parts of a message, without copying them.
struct Reader {
    message: Vec<u8>,
    at: usize,
    /// End of the section that is being read; outside of sections, the end of the message.
    end: usize,
    /// Number of fields read.
    fields: usize,
    /// Bytes of control data and fields read.
    field_bytes: usize,
}

impl Reader {
    /// Returns true at the end of the message; parts that are left out there are empty.
    fn is_over(&self) -> bool {
        self.at == self.end
    }

    fn take(&mut self, bytes: usize) -> Result<Part, MessageError> {
        let end = self.at.checked_add(bytes).filter(|&end| end <= self.end);
        let start = self.at;
        self.at = end.ok_or(MessageError::Truncated)?;
        Ok(start..self.at)
    }

    /// Reads a number of variable length (RFC 9000, section 16).
    fn number(&mut self) -> Result<u64, MessageError> {
        let first = self.take(1)?.start;
        let first = self.message[first];
        let rest = self.take((1 << (first >> 6)) - 1)?;
        let most = u64::from(first & 0x3f);
        Ok(self.message[rest].iter().fold(most, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// Reads a length, and then a part of this length.
    fn prefixed(&mut self) -> Result<Part, MessageError> {
        let bytes = usize::try_from(self.number()?).map_err(|_| MessageError::Truncated)?;
        self.take(bytes)
    }

    /// Reads a part that may be left out at the end of a message.
    fn optional(&mut self) -> Result<Part, MessageError> {
        if self.is_over() { Ok(self.at..self.at) } else { self.prefixed() }
    }

    /// Reads control data or a field's part, within the limits of a message.
    fn bounded(&mut self) -> Result<Part, MessageError> {
        let part = self.prefixed()?;
        self.field_bytes += part.len();
        if self.field_bytes > MAX_FIELD_BYTES { Err(MessageError::Fields) } else { Ok(part) }
    }

    /// Reads a section of fields: after its length, or up to an empty name.
    fn section(&mut self, terminated: bool) -> Result<Vec<(Part, Part)>, MessageError> {
        let mut fields = Vec::new();
        if terminated {
            if self.is_over() {
                return Ok(fields);
            }
            loop {
                let name = self.bounded()?;
                if name.is_empty() {
                    return Ok(fields);
                }
                fields.push(self.field(name)?);
            }
        }
        let section = self.optional()?;
        let (after, end) = (section.end, self.end);
        (self.at, self.end) = (section.start, section.end);
        while !self.is_over() {
            let name = self.bounded()?;
            if name.is_empty() {
                return Err(MessageError::NoName);
            }
            fields.push(self.field(name)?);
        }
        (self.at, self.end) = (after, end);
        Ok(fields)
    }

    /// Reads the value of a field whose name has been read.
    fn field(&mut self, name: Part) -> Result<(Part, Part), MessageError> {
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            return Err(MessageError::Fields);
        }
        Ok((name, self.bounded()?))
    }

    /// Reads chunks up to an empty one, and moves them together.
    fn chunks(&mut self) -> Result<Part, MessageError> {
        if self.is_over() {
            return Ok(self.at..self.at);
        }
        let first = self.prefixed()?;
        let (start, mut end, mut last) = (first.start, first.end, first.is_empty());
        while !last {
            let chunk = self.prefixed()?;
            last = chunk.is_empty();
            let bytes = chunk.len();
            self.message.copy_within(chunk, end);
            end += bytes;
        }
        Ok(start..end)
    }
}

/// A response to be written in binary form, of known length.
#[derive(Clone, Debug)]
pub struct BinaryResponse<'a> {
    /// Final status, from 200 to 599.
    pub status: u16,
    /// Names, in lower case, and values of the header fields.
    pub fields: Vec<(&'a str, &'a [u8])>,
    /// Content.
    pub content: &'a [u8],
}

impl BinaryResponse<'_> {
    /// Returns the number of bytes that [`BinaryResponse::encode`] writes.
    pub fn encoded_bytes(&self) -> usize {
        let prefixed = |bytes: usize| number_bytes(bytes as u64) + bytes;
        let (status, fields) = (number_bytes(u64::from(self.status)), self.fields_bytes());
        number_bytes(KNOWN_LENGTH_RESPONSE) + status + prefixed(fields) + prefixed(self.content.len())
    }

    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, KNOWN_LENGTH_RESPONSE);
        put_number(out, u64::from(self.status));
        put_number(out, self.fields_bytes() as u64);
        for (name, value) in &self.fields {
            put_prefixed(out, name.as_bytes());
            put_prefixed(out, value);
        }
        put_prefixed(out, self.content);
    }

    fn fields_bytes(&self) -> usize {
        let parts = self.fields.iter().flat_map(|(name, value)| [name.len(), value.len()]);
        parts.map(|bytes| number_bytes(bytes as u64) + bytes).sum()
    }
}

/// Returns the number of bytes of a number of variable length.
fn number_bytes(number: u64) -> usize {
    match number {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    let bytes = number_bytes(number);
    let tag = (bytes.trailing_zeros() as u64) << (8 * bytes - 2);
    out.extend_from_slice(&(number | tag).to_be_bytes()[8 - bytes..]);
}

fn put_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
