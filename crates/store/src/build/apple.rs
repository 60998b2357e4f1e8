//! Tables of caller ID for Apple's clients, from the rows that the snapshot's records come from.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use spirea_apple::AppleError;
use spirea_apple::keyword::{BucketSize, KeywordHash, Tables};
use spirea_apple::messages::{CallIdentity, Icon, IdentityCategory, ImageFormat, Sha256, Sharding};

use super::options::{AppleOptions, BuildOptions, Duplicates, Input};
use super::schema::Schema;
use crate::apple::{AppleTables, AppleUseCase, MAX_SHARDS, valid_use_case};
use crate::files::write_entry;
use crate::ingest::{Row, Selection};
use crate::manifest::{APPLE_FILE, FileEntry};
use crate::progress::go_on;
use crate::{Phase, Progress, StoreError};

/// Number of tables of a shard; each table has its own hash function.
const TABLES: usize = 2;
/// Rows between two reports of progress.
const REPORT_ROWS: u64 = 1 << 13;
/// Digits of a telephone number after its `+`.
const DIGITS: std::ops::RangeInclusive<usize> = 4..=15;
/// Bytes 4 to 7 of an image in HEIC.
const HEIC_MARK: &[u8] = b"ftyp";

/// A column of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Name,
    Icon,
    Category,
    CacheMinutes,
    Block,
}

impl Column {
    const ALL: [(&str, Self); 5] = [
        ("name", Self::Name),
        ("icon", Self::Icon),
        ("category", Self::Category),
        ("cache_minutes", Self::CacheMinutes),
        ("block", Self::Block),
    ];

    fn named(name: &str) -> Result<Self, StoreError> {
        let known = Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, column)| *column);
        known.ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            let detail = format!(
                "--for apple has no column {name:?}: there are {names}; rename the column, or leave it out"
            );
            StoreError::BadOption(detail)
        })
    }
}

/// Values that devices receive for a telephone number.
#[derive(Debug, Default, PartialEq, Eq)]
struct Caller {
    identity: Option<Vec<u8>>,
    block: Option<u8>,
}

/// Callers, keyed by their telephone numbers.
type Callers = BTreeMap<Vec<u8>, Caller>;

impl AppleOptions {
    /// Checks the options, and the value columns that the selection names.
    ///
    /// # Errors
    /// [`StoreError::BadOption`] with the option.
    pub(super) fn check(&self, selection: &Selection) -> Result<(), StoreError> {
        let bad = |detail: String| Err(StoreError::BadOption(detail));
        if !valid_use_case(&self.use_case("identity")) {
            return bad(format!(
                "{:?} is no bundle identifier: give --bundle one such as net.example.lookup",
                self.bundle
            ));
        }
        if !(1..=MAX_SHARDS).contains(&self.shards) {
            return bad(format!("--apple-shards is {}, not 1 to {MAX_SHARDS}", self.shards));
        }
        selection.values.iter().try_for_each(|name| Column::named(name).map(drop))
    }

    fn use_case(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.bundle)
    }

    /// Builds the tables from `input` and writes their file into `folder`.
    ///
    /// # Errors
    /// [`StoreError::BadOption`] if there is no key column or neither `name` nor `block`, or the
    /// tables cannot be built; [`StoreError::Malformed`] with the place of a row; errors of reading
    /// and writing.
    pub(super) fn write(
        &self,
        options: &BuildOptions,
        input: &Input,
        folder: &Path,
        progress: &dyn Progress,
    ) -> Result<(AppleTables, FileEntry), StoreError> {
        let (columns, callers) = read(options, input, progress)?;
        let mut use_cases = Vec::new();
        if columns.contains(&Column::Name) {
            let values = |caller: &Caller| caller.identity.clone();
            use_cases.push(self.tables("identity", &callers, values)?);
        }
        if columns.contains(&Column::Block) {
            let values = |caller: &Caller| caller.block.map(|block| vec![block]);
            use_cases.push(self.tables("block", &callers, values)?);
        }
        if use_cases.is_empty() {
            let detail = "--for apple needs a column of values called name or block (--value)";
            return Err(StoreError::BadOption(detail.into()));
        }
        let (tables, bytes) = AppleTables::new(self.set, &use_cases);
        Ok((tables, write_entry(folder, APPLE_FILE, &bytes)?))
    }

    /// Returns a use case with the number of its keywords.
    fn tables(
        &self,
        suffix: &str,
        callers: &Callers,
        value: impl Fn(&Caller) -> Option<Vec<u8>>,
    ) -> Result<(u64, AppleUseCase), StoreError> {
        let name = self.use_case(suffix);
        let mut rows = vec![Vec::new(); self.shards];
        for (number, caller) in callers {
            if let Some(value) = value(caller) {
                let shard = KeywordHash::of(number).shard(Sharding::Sha256(Sha256 {}), self.shards as u64);
                rows[shard as usize].push((number, value));
            }
        }
        let keywords = rows.iter().map(Vec::len).sum::<usize>() as u64;
        let shard = |rows: &Vec<(&Vec<u8>, Vec<u8>)>| {
            let rows = rows.iter().map(|(number, value)| (&number[..], &value[..]));
            let tables = Tables::build(self.set, TABLES, BucketSize::ByPlaintexts, rows)?;
            Ok((tables.shape(self.set)?, tables))
        };
        let shards = rows.iter().map(shard).collect::<Result<_, AppleError>>();
        let shards = shards.map_err(|error| StoreError::BadOption(format!("{name}: {error}")))?;
        Ok((keywords, AppleUseCase { name, shards }))
    }
}

/// Reads the input. Returns its value columns and its callers, keyed by their telephone numbers.
fn read(
    options: &BuildOptions,
    input: &Input,
    progress: &dyn Progress,
) -> Result<(Vec<Column>, Callers), StoreError> {
    let mut source = options.open(input)?;
    let own = source.own_columns();
    let selection = own.as_ref().unwrap_or(&options.selection);
    if selection.key.is_none() {
        let detail = "--for apple needs the column of the numbers: name it with --key";
        return Err(StoreError::BadOption(detail.into()));
    }
    let columns = selection.fields().iter().map(|name| Column::named(name)).collect::<Result<Vec<_>, _>>()?;
    let schema = Schema::new(options, selection, &*source)?;
    let mut callers = Callers::new();
    let (mut row, mut rows) = (Row::default(), 0u64);
    while source.next(&mut row)? {
        go_on(progress)?;
        if rows.is_multiple_of(REPORT_ROWS) {
            let (done, total) = source.progress();
            progress.update(Phase::Read, done, total);
        }
        rows += 1;
        let malformed = |detail: String| StoreError::malformed(source.place(), detail);
        let number = schema.key(row.key().unwrap_or_default()).map_err(malformed)?;
        check_number(&number).map_err(malformed)?;
        let caller = caller(&columns, row.fields()).map_err(malformed)?;
        match options.duplicates {
            Duplicates::First => {
                callers.entry(number.into_owned()).or_insert(caller);
            }
            // Under `Refuse`, repeated numbers have been refused before. Under `Last`, the last row
            // of a number overrides earlier rows.
            Duplicates::Refuse | Duplicates::Last => {
                callers.insert(number.into_owned(), caller);
            }
        }
    }
    let (_, total) = source.progress();
    progress.update(Phase::Read, total, total);
    Ok((columns, callers))
}

/// Checks that a key is a number as devices ask for it: `+` and digits.
fn check_number(key: &[u8]) -> Result<(), String> {
    let digits = key.strip_prefix(b"+").unwrap_or_default();
    match DIGITS.contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit) {
        true => Ok(()),
        false => Err(
            "the key is no number such as +14155550100, as Apple's devices ask for it: add --normalise e164, or e164:REGION"
                .into(),
        ),
    }
}

/// Returns the values that devices receive for the number of a row. An empty cell adds no value.
fn caller<'r>(columns: &[Column], cells: impl Iterator<Item = &'r [u8]>) -> Result<Caller, String> {
    let mut caller = Caller::default();
    let mut identity = CallIdentity::default();
    for (column, cell) in columns.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
        let text = || String::from_utf8(cell.to_vec()).map_err(|_| format!("{column:?} is not UTF-8"));
        match column {
            Column::Name => identity.name = text()?,
            Column::Icon => {
                identity.icon = Some(Icon { format: ImageFormat::Heic as i32, image: image(cell)?.into() });
            }
            Column::Category => identity.category = category(&text()?)? as i32,
            Column::CacheMinutes => {
                let minutes = text()?.parse();
                identity.cache_expiry_minutes =
                    minutes.map_err(|_| "cache_minutes is no whole number of minutes".to_owned())?;
            }
            Column::Block => caller.block = Some(u8::from(flag(&text()?)?)),
        }
    }
    caller.identity = (!identity.name.is_empty()).then(|| identity.to_bytes());
    Ok(caller)
}

/// Returns the image in a cell: the bytes themselves, or their form in Base64.
fn image(cell: &[u8]) -> Result<Vec<u8>, String> {
    let is_heic = |bytes: &[u8]| bytes.get(4..8) == Some(HEIC_MARK);
    if is_heic(cell) {
        return Ok(cell.to_vec());
    }
    let decoded = BASE64_STANDARD.decode(cell).ok().filter(|bytes| is_heic(bytes));
    decoded.ok_or_else(|| "icon is no image in HEIC, neither as bytes nor in Base64".into())
}

fn category(text: &str) -> Result<IdentityCategory, String> {
    match text {
        "person" => Ok(IdentityCategory::Person),
        "business" => Ok(IdentityCategory::Business),
        _ => Err(format!("category {text:?} is neither person nor business")),
    }
}

fn flag(text: &str) -> Result<bool, String> {
    match text {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(format!("block {text:?} is none of 1, 0, true and false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 5] =
        [Column::Name, Column::Icon, Column::Category, Column::CacheMinutes, Column::Block];

    fn of(cells: [&[u8]; 5]) -> Result<Caller, String> {
        caller(&COLUMNS, cells.into_iter())
    }

    #[test]
    fn cells_become_what_devices_read() {
        let heic = b"\0\0\0\x18ftypheic";
        let encoded = BASE64_STANDARD.encode(heic);
        let from_bytes = of([b"Ada", heic, b"person", b"8", b"1"]).unwrap();
        assert_eq!(from_bytes, of([b"Ada", encoded.as_bytes(), b"person", b"8", b"true"]).unwrap());
        // The expected bytes are written by hand from the schema: name (1), icon (2) {format (1),
        // image (2)}, minutes (3), category (4).
        let identity = [&b"\x0a\x03Ada\x12\x10\x08\x01\x12\x0c"[..], heic, b"\x18\x08\x20\x01"].concat();
        assert_eq!(from_bytes, Caller { identity: Some(identity), block: Some(1) });
        assert_eq!(of([b"", heic, b"", b"", b""]).unwrap(), Caller::default(), "an icon without a name");
        assert_eq!(of([b"", b"", b"", b"", b"0"]).unwrap(), Caller { identity: None, block: Some(0) });
    }

    #[test]
    fn wrong_cells_are_named() {
        let empty: [&[u8]; 5] = [b""; 5];
        for (place, cell, cause) in [
            (0, &b"\xff"[..], "Name is not UTF-8"),
            (1, b"icon.png", "HEIC"),
            (2, b"robot", "neither person nor business"),
            (3, b"-1", "whole number"),
            (4, b"yes", "none of 1, 0"),
        ] {
            let mut cells = empty;
            cells[place] = cell;
            assert!(of(cells).unwrap_err().contains(cause), "{cause}");
        }
    }

    #[test]
    fn keys_are_numbers() {
        assert!(check_number(b"+14155550100").is_ok());
        for wrong in
            [&b""[..], b"14155550100", b"+", b"+1 415 555 0100", b"+1234567890123456", b"+1415x550100"]
        {
            assert!(check_number(wrong).unwrap_err().contains("--normalise e164"));
        }
    }
}
