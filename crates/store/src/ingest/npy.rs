//! NumPy's `.npy`: one array of one or two dimensions in C order. The bytes of row i are value i.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::raw::FixedRows;
use crate::error::IoContext;
use crate::{Location, StoreError};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Headers are padded to 64 bytes and hold three short members; this is far beyond any.
const MAX_HEADER_BYTES: usize = 1 << 16;

/// Opens an array in a file of `bytes` bytes.
///
/// # Errors
/// [`StoreError::Malformed`] for what is not such an array, with a remedy.
pub fn open(mut file: File, bytes: u64, path: &Path) -> Result<FixedRows, StoreError> {
    let malformed = |detail: String| StoreError::malformed(Location::File(path.into()), detail);
    let cut_off = || malformed("its header is cut off; save the array again".into());
    let mut start = [0; 8];
    if bytes < 10 {
        return Err(malformed("it is not an .npy file: write it with numpy.save".into()));
    }
    file.read_exact(&mut start).at("read", path)?;
    if !start.starts_with(MAGIC) {
        return Err(malformed("it is not an .npy file: write it with numpy.save".into()));
    }
    let mut length = [0; 4];
    let length_bytes = match start[6] {
        1 => 2,
        2 | 3 => 4,
        version => return Err(malformed(format!("version {version} of .npy is not known"))),
    };
    if bytes < 8 + length_bytes as u64 {
        return Err(cut_off());
    }
    file.read_exact(&mut length[..length_bytes]).at("read", path)?;
    let length = u32::from_le_bytes(length) as usize;
    let data = 8 + length_bytes as u64 + length as u64;
    if length > MAX_HEADER_BYTES || data > bytes {
        return Err(cut_off());
    }
    let mut header = vec![0; length];
    file.read_exact(&mut header).at("read", path)?;
    let (row_bytes, rows) = parse_header(&String::from_utf8_lossy(&header)).map_err(malformed)?;
    let (expected, stored) = (u128::from(rows) * row_bytes as u128, u128::from(bytes - data));
    if expected != stored {
        return Err(malformed(format!(
            "its array has {stored} bytes where its shape says {expected}; save it again"
        )));
    }
    if row_bytes == 0 && rows > 0 {
        return Err(malformed("its rows have no bytes".into()));
    }
    FixedRows::new(file, path, row_bytes, rows)
}

/// Bytes of a row and number of rows, from the header: a Python dictionary of three members.
fn parse_header(header: &str) -> Result<(usize, u64), String> {
    let member = |name: &str| {
        ['\'', '"']
            .iter()
            .find_map(|quote| header.split_once(&format!("{quote}{name}{quote}")))
            .and_then(|(_, rest)| rest.trim_start().strip_prefix(':'))
            .map(str::trim_start)
            .ok_or_else(|| format!("its header lacks {name:?}; save the array again"))
    };
    let item = item_bytes(member("descr")?)?;
    let shape = member("shape")?
        .strip_prefix('(')
        .and_then(|shape| shape.split_once(')'))
        .and_then(|(sides, _)| {
            let sides = sides.split(',').map(str::trim).filter(|side| !side.is_empty());
            sides.map(|side| side.trim_end_matches('L').parse().ok()).collect::<Option<Vec<u64>>>()
        })
        .ok_or("its header's shape cannot be read; save the array again")?;
    let (rows, width) = match shape[..] {
        [rows] => (rows, 1),
        [rows, width] => (rows, width),
        _ => {
            let dimensions = shape.len();
            return Err(format!("its array has {dimensions} dimensions; reshape it to one or two"));
        }
    };
    if member("fortran_order")?.starts_with("True") && shape.len() == 2 {
        return Err("its array is in Fortran order; save numpy.ascontiguousarray(array)".into());
    }
    let row_bytes = usize::try_from(width).ok().and_then(|width| width.checked_mul(item));
    Ok((row_bytes.ok_or("its shape is out of range; save the array again")?, rows))
}

/// Bytes of an item of a type such as `'<f4'`.
fn item_bytes(descr: &str) -> Result<usize, String> {
    if descr.starts_with('[') {
        return Err("its array has named fields; save a plain array, or use Parquet".into());
    }
    let unknown = || "its type cannot be read; save an array of numbers or of fixed-width bytes".to_string();
    let quote = descr.chars().next().filter(|quote| matches!(quote, '\'' | '"')).ok_or_else(unknown)?;
    let (name, _) = descr[1..].split_once(quote).ok_or_else(unknown)?;
    let name = name.trim_start_matches(['<', '>', '|', '=']);
    let kind = name.chars().next().ok_or_else(unknown)?;
    let digits = name[kind.len_utf8()..].split('[').next().unwrap_or_default();
    let count: usize = digits.parse().map_err(|_| unknown())?;
    match kind {
        'b' | 'i' | 'u' | 'f' | 'c' | 'm' | 'M' | 'S' | 'a' | 'V' => Ok(count),
        'U' => count.checked_mul(4).ok_or_else(unknown),
        'O' => Err("its array holds Python objects; save an array of numbers or of fixed-width bytes".into()),
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_as_numpy_writes_them() {
        for (header, expected) in [
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }   \n", (20, 3)),
            ("{'descr': '|u1', 'fortran_order': False, 'shape': (7,), }", (1, 7)),
            ("{'descr': '<U3', 'fortran_order': False, 'shape': (7, 2), }", (24, 7)),
            ("{'descr': '|S16', 'fortran_order': True, 'shape': (9,), }", (16, 9)),
            ("{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (9L,), }", (8, 9)),
        ] {
            assert_eq!(parse_header(header).unwrap(), expected);
        }
    }

    #[test]
    fn other_headers_are_refused_with_a_remedy() {
        for (header, remedy) in [
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 5), }", "ascontiguousarray"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5, 2), }", "reshape"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "reshape"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", "plain array"),
            ("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", "save an array"),
            ("{'descr': '|O8', 'fortran_order': False, 'shape': (3,), }", "Python objects"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3", "shape"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 18446744073709551615), }", "range"),
            ("{}", "descr"),
            ("", "descr"),
        ] {
            let error = parse_header(header).unwrap_err();
            assert!(error.contains(remedy), "{error}");
        }
    }
}
