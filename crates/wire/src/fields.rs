//! Checks of a message before it is decoded: its top level is parsed without allocation.

use crate::{FORMAT, Version, WireError, check_format, hash};

/// A field and its payload.
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
        // Groups are deprecated and never part of these messages.
        _ => return None,
    };
    Some(Field { number, payload })
}

/// Field that may occur several times: the maximum number of occurrences, and a check of the length
/// of each.
pub struct Repeated<'a> {
    pub number: u32,
    pub most: usize,
    pub accepts: &'a dyn Fn(usize) -> Result<(), String>,
}

/// Checks the fields of a message: no field is cut off; field 1, anywhere in the message, is the
/// format; and the `repeated` fields have allowed numbers of occurrences and lengths. Other fields
/// pass, including those of later versions.
pub fn check(message: &'static str, mut bytes: &[u8], repeated: &[Repeated<'_>]) -> Result<(), WireError> {
    // Callers pass at most two repeated fields.
    let mut counts = [0; 2];
    while !bytes.is_empty() {
        let Some(field) = next_field(&mut bytes) else {
            return Err(WireError::malformed(message, "a field is cut off or has no known type"));
        };
        match (field.number, field.payload) {
            (1, Payload::Varint(format)) if format != u64::from(FORMAT) => {
                return Err(WireError::Format { found: u32::try_from(format).unwrap_or(u32::MAX) });
            }
            (number, Payload::Bytes(value)) => {
                let known = repeated.iter().zip(&mut counts).find(|(repeated, _)| repeated.number == number);
                let Some((Repeated { most, accepts, .. }, count)) = known else { continue };
                *count += 1;
                if *count > *most {
                    return Err(WireError::malformed(message, format!("more than {most} entries")));
                }
                accepts(value.len()).map_err(|detail| WireError::malformed(message, detail))?;
            }
            _ => (),
        }
    }
    Ok(())
}

/// Returns the version that a request or an upload of this format names. The version determines the
/// lengths that the other fields must have. The body is parsed but not decoded.
pub fn named_version(message: &'static str, mut bytes: &[u8]) -> Result<Version, WireError> {
    const VERSION: u32 = 2;
    check(message, bytes, &[])?;
    let (mut format, mut version) = (0, &[][..]);
    while let Some(field) = next_field(&mut bytes) {
        match field {
            Field { number: 1, payload: Payload::Varint(value) } => format = value as u32,
            Field { number: VERSION, payload: Payload::Bytes(value) } => version = value,
            _ => (),
        }
    }
    check_format(format)?;
    hash(message, "version", version)
}
