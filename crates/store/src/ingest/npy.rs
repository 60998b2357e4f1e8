//! NumPy's `.npy`: one array of one or two dimensions in C order. The bytes of row i are value i,
//! with numbers in little-endian order; the value of a row of text is the text in UTF-8.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::raw::FixedRows;
use super::{Column, Row, RowSource};
use crate::error::IoContext;
use crate::{Location, StoreError};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Headers are padded to 64 bytes and hold three short members; this limit is far above any of
/// them.
const MAX_HEADER_BYTES: usize = 1 << 16;

const UNKNOWN_TYPE: &str = "its type cannot be read; save an array of numbers or of fixed-width bytes";

/// Rows of an array.
pub struct NpyRows {
    rows: FixedRows,
    items: Items,
    /// Type of a row, for messages.
    kind: String,
    path: PathBuf,
}

impl RowSource for NpyRows {
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        if !self.rows.next(row)? {
            return Ok(false);
        }
        let cell = &mut row.cells[0];
        match self.items {
            Items::AsTheyAre { .. } => {}
            Items::Reversed { number, .. } => cell.chunks_exact_mut(number).for_each(<[u8]>::reverse),
            Items::Text { order, .. } => match text(cell, order) {
                Some(text) => *cell = text.into_bytes(),
                None => {
                    let detail = "its text has a code that is no character; save the array again";
                    return Err(StoreError::malformed(Location::Row(self.path.clone(), self.done()), detail));
                }
            },
        }
        Ok(true)
    }

    fn place(&self) -> Location {
        self.rows.place()
    }

    fn progress(&self) -> (u64, u64) {
        self.rows.progress()
    }

    fn columns(&self) -> Vec<Column> {
        vec![Column { name: String::new(), kind: Some(self.kind.clone()) }]
    }
}

impl NpyRows {
    fn done(&self) -> u64 {
        self.rows.progress().0
    }
}

/// Decodes text of four bytes per character, without trailing zeros; `None` if it is not valid
/// text.
fn text(cell: &[u8], order: Order) -> Option<String> {
    let code = |bytes: &[u8]| {
        let bytes = bytes.try_into().expect("they are four");
        if order == Order::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    let codes: Vec<u32> = cell.chunks_exact(4).map(code).collect();
    let filled = codes.iter().rposition(|&code| code != 0).map_or(0, |last| last + 1);
    codes[..filled].iter().map(|&code| char::from_u32(code)).collect()
}

/// Opens an array in a file of `bytes` bytes.
///
/// # Errors
/// [`StoreError::Malformed`] if the file is not such an array, with a remedy.
pub fn open(mut file: File, bytes: u64, path: &Path) -> Result<NpyRows, StoreError> {
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
    let header = String::from_utf8_lossy(&header);
    let (row_bytes, rows, items) = parse_header(&header).map_err(malformed)?;
    let kind = match items {
        Items::Text { .. } => "text".into(),
        _ => {
            let (_, number) = member(&header, "descr").and_then(type_name).map_err(malformed)?;
            format!("{number} in {row_bytes} bytes")
        }
    };
    let (expected, stored) = (u128::from(rows) * row_bytes as u128, u128::from(bytes - data));
    if expected != stored {
        return Err(malformed(format!(
            "its array has {stored} bytes where its shape says {expected}; save it again"
        )));
    }
    if row_bytes == 0 && rows > 0 {
        return Err(malformed("its rows have no bytes".into()));
    }
    Ok(NpyRows { rows: FixedRows::new(file, path, row_bytes, rows)?, items, kind, path: path.into() })
}

/// Byte order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// Kind of an array's items, and the length of each item in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Items {
    /// Items whose bytes are the value.
    AsTheyAre { bytes: usize },
    /// Items made of big-endian numbers with `number` bytes each.
    Reversed { bytes: usize, number: usize },
    /// Text of four bytes per character.
    Text { bytes: usize, order: Order },
}

impl Items {
    fn bytes(self) -> usize {
        let (Self::AsTheyAre { bytes } | Self::Reversed { bytes, .. } | Self::Text { bytes, .. }) = self;
        bytes
    }
}

/// Parses the header, a Python dictionary with three members: returns the bytes of a row, the
/// number of rows and their items.
fn parse_header(header: &str) -> Result<(usize, u64, Items), String> {
    let items = parse_items(member(header, "descr")?)?;
    let shape = member(header, "shape")?
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
    if member(header, "fortran_order")?.starts_with("True") && shape.len() == 2 {
        return Err("its array is in Fortran order; save numpy.ascontiguousarray(array)".into());
    }
    if matches!(items, Items::Text { .. }) && shape.len() == 2 {
        return Err("its array has text in two dimensions; save a column, or use Parquet".into());
    }
    let row_bytes = usize::try_from(width).ok().and_then(|width| width.checked_mul(items.bytes()));
    Ok((row_bytes.ok_or("its shape is out of range; save the array again")?, rows, items))
}

/// Returns the text of a header from the value of this member on.
fn member<'h>(header: &'h str, name: &str) -> Result<&'h str, String> {
    ['\'', '"']
        .iter()
        .find_map(|quote| header.split_once(&format!("{quote}{name}{quote}")))
        .and_then(|(_, rest)| rest.trim_start().strip_prefix(':'))
        .map(str::trim_start)
        .ok_or_else(|| format!("its header lacks {name:?}; save the array again"))
}

/// Splits a type such as `'<f4'` into its byte order and the rest.
fn type_name(descr: &str) -> Result<(Order, &str), String> {
    let name = descr
        .chars()
        .next()
        .filter(|quote| matches!(quote, '\'' | '"'))
        .and_then(|quote| descr[1..].split_once(quote))
        .ok_or(UNKNOWN_TYPE)?
        .0;
    let order = if name.starts_with('>') { Order::Big } else { Order::Little };
    Ok((order, name.trim_start_matches(['<', '>', '|', '='])))
}

/// Parses a type such as `'<f4'`.
fn parse_items(descr: &str) -> Result<Items, String> {
    if descr.starts_with('[') {
        return Err("its array has named fields; save a plain array, or use Parquet".into());
    }
    let unknown = || UNKNOWN_TYPE.to_owned();
    let (order, name) = type_name(descr)?;
    let kind = name.chars().next().ok_or_else(unknown)?;
    let digits = name[kind.len_utf8()..].split('[').next().unwrap_or_default();
    let count: usize = digits.parse().map_err(|_| unknown())?;
    match (kind, order) {
        ('U', order) => Ok(Items::Text { bytes: count.checked_mul(4).ok_or_else(unknown)?, order }),
        ('i' | 'u' | 'f' | 'm' | 'M', Order::Big) if count > 1 => {
            Ok(Items::Reversed { bytes: count, number: count })
        }
        ('c', Order::Big) if count > 1 => Ok(Items::Reversed { bytes: count, number: count / 2 }),
        ('b' | 'i' | 'u' | 'f' | 'c' | 'm' | 'M' | 'S' | 'a' | 'V', _) => {
            Ok(Items::AsTheyAre { bytes: count })
        }
        ('O', _) => {
            Err("its array holds Python objects; save an array of numbers or of fixed-width bytes".into())
        }
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_as_numpy_writes_them() {
        for (header, expected) in [
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }   \n",
                (20, 3, Items::AsTheyAre { bytes: 4 }),
            ),
            (
                "{'descr': '|u1', 'fortran_order': False, 'shape': (7,), }",
                (1, 7, Items::AsTheyAre { bytes: 1 }),
            ),
            (
                "{'descr': '>U3', 'fortran_order': False, 'shape': (7,), }",
                (12, 7, Items::Text { bytes: 12, order: Order::Big }),
            ),
            (
                "{'descr': '|S16', 'fortran_order': True, 'shape': (9,), }",
                (16, 9, Items::AsTheyAre { bytes: 16 }),
            ),
            (
                "{'descr': '>M8[ns]', 'fortran_order': False, 'shape': (9L,), }",
                (8, 9, Items::Reversed { bytes: 8, number: 8 }),
            ),
            (
                "{'descr': '>c16', 'fortran_order': False, 'shape': (9, 2), }",
                (32, 9, Items::Reversed { bytes: 16, number: 8 }),
            ),
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
            ("{'descr': '<U3', 'fortran_order': False, 'shape': (7, 2), }", "save a column"),
            ("{}", "descr"),
            ("", "descr"),
        ] {
            let error = parse_header(header).unwrap_err();
            assert!(error.contains(remedy), "{error}");
        }
    }
}
