//! The top level of a message, walked without allocating: what is checked before it is decoded.

use crate::{FORMAT, WireError};

/// A field and what it carries.
struct Field<'a> {
    number: u32,
    payload: Payload<'a>,
}

enum Payload<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// Reads a varint of at most 64 bits.
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for i in 0..10 {
        let byte = *bytes.get(i)?;
        let bits = u64::from(byte & 0x7f);
        if i == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * i);
        if byte & 0x80 == 0 {
            *bytes = &bytes[i + 1..];
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let (head, tail) = bytes.split_at_checked(usize::try_from(count).ok()?)?;
    *bytes = tail;
    Some(head)
}

fn next_field<'a>(bytes: &mut &'a [u8]) -> Option<Field<'a>> {
    let key = take_varint(bytes)?;
    let number = u32::try_from(key >> 3).ok().filter(|&number| number > 0)?;
    let payload = match key & 7 {
        0 => Payload::Varint(take_varint(bytes)?),
        1 => take(bytes, 8).map(|_| Payload::Fixed)?,
        2 => {
            let length = take_varint(bytes)?;
            Payload::Bytes(take(bytes, length)?)
        }
        5 => take(bytes, 4).map(|_| Payload::Fixed)?,
        // Groups: deprecated, and never part of these messages.
        _ => return None,
    };
    Some(Field { number, payload })
}

/// Checks the fields of a message: that it is cut off nowhere, that field 1, wherever it stands, is the
/// format, and that field `repeated` occurs at most `most` times and `accepts` each of its lengths. Other
/// fields, among them those of later versions, pass.
pub fn check(
    message: &'static str,
    mut bytes: &[u8],
    repeated: u32,
    most: usize,
    accepts: impl Fn(usize) -> Result<(), String>,
) -> Result<(), WireError> {
    let mut count = 0;
    while !bytes.is_empty() {
        let Some(field) = next_field(&mut bytes) else {
            return Err(WireError::malformed(message, "a field is cut off or has no known type"));
        };
        match (field.number, field.payload) {
            (1, Payload::Varint(format)) if format != u64::from(FORMAT) => {
                return Err(WireError::Format { found: u32::try_from(format).unwrap_or(u32::MAX) });
            }
            (number, Payload::Bytes(value)) if number == repeated => {
                count += 1;
                if count > most {
                    return Err(WireError::malformed(message, format!("more than {most} entries")));
                }
                accepts(value.len()).map_err(|detail| WireError::malformed(message, detail))?;
            }
            _ => (),
        }
    }
    Ok(())
}
