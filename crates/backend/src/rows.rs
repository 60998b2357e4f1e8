//! Folds of records by shares: the steps of protocols with two servers.

use std::ops::Range;

use spirea_dpf::{Domain, DpfError, Key, OutputKind, Party, PrfKind, Subtree};

use crate::{BackendError, FileLayout, FileRows, MAX_MATRIX_BYTES};

/// The most keys that one call of [`ShareBackend::share_fold`] takes.
pub const MAX_KEYS: usize = 512;

/// How records lie for folds by shares: rows of bytes, one after another without gaps.
///
/// Records larger than a row have several *parts*: all first rows of the records come first, then all second
/// ones. A share multiplies a record's row in every part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowLayout {
    rows: usize,
    row_bytes: usize,
    parts: usize,
}

impl RowLayout {
    /// The largest row.
    pub const MAX_ROW_BYTES: usize = 4096;

    /// `parts` times `rows` rows of `row_bytes` bytes.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if there are none, a row is larger than [`RowLayout::MAX_ROW_BYTES`] or all are
    /// together larger than [`MAX_MATRIX_BYTES`].
    pub fn new(rows: usize, row_bytes: usize, parts: usize) -> Result<Self, BackendError> {
        let bytes = rows as u128 * row_bytes as u128;
        let bytes = bytes.saturating_mul(parts as u128);
        if bytes == 0 || bytes > u128::from(MAX_MATRIX_BYTES) || row_bytes > Self::MAX_ROW_BYTES {
            return Err(BackendError::Shape(format!(
                "{parts} parts of {rows} rows of {row_bytes} bytes: none may be 0, a row at most 4096 bytes, all together at most 2^44"
            )));
        }
        Ok(Self { rows, row_bytes, parts })
    }

    /// Rows of a part: records.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Rows of a record.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.rows * self.row_bytes * self.parts
    }

    /// Bytes of a share of a record: its rows one after another.
    pub fn answer_bytes(&self) -> usize {
        self.row_bytes * self.parts
    }

    /// Where rows `rows` of part `part` lie.
    pub fn range(&self, part: usize, rows: Range<usize>) -> Range<usize> {
        let first = part * self.rows;
        (first + rows.start) * self.row_bytes..(first + rows.end) * self.row_bytes
    }

    /// What the keys of a batch have in common, and the rows that their points meet, from `first_row` on.
    ///
    /// # Errors
    /// [`BackendError::Shape`] unless they are 1 to [`MAX_KEYS`] keys of one party and one domain, whose points
    /// all meet a row and whose outputs are bits, or words of which rows are whole numbers.
    pub fn check_keys(&self, first_row: usize, keys: &[Key]) -> Result<Batch, BackendError> {
        let wrong = |detail: &str| Err(BackendError::Shape(detail.into()));
        let Some(first) = keys.first().filter(|_| keys.len() <= MAX_KEYS) else {
            return wrong("a batch has 1 to 512 keys");
        };
        let (domain, party) = (first.domain(), first.party());
        if keys.iter().any(|key| key.domain() != domain || key.party() != party) {
            return wrong("the keys of a batch belong to different domains or parties");
        }
        let rows = usize::try_from(domain.points()).ok().and_then(|points| first_row.checked_add(points));
        let Some(end) = rows.filter(|&end| end <= self.rows) else {
            return wrong("keys with more points than there are rows");
        };
        let word = match domain.output() {
            OutputKind::Bit => 1,
            OutputKind::U32 => 4,
            OutputKind::U64 => 8,
            OutputKind::U128 => return wrong("rows have no words of 128 bits"),
        };
        if !self.row_bytes.is_multiple_of(word) {
            return wrong("rows that are not whole words");
        }
        Ok(Batch { domain, party, rows: first_row..end })
    }
}

impl FileLayout for RowLayout {
    fn all(&self) -> Range<usize> {
        0..self.rows
    }

    /// Of each part.
    fn part(&self, rows: &Range<usize>) -> Result<Self, BackendError> {
        if rows.is_empty() || rows.end > self.rows {
            let all = self.rows;
            return Err(BackendError::Shape(format!("rows {rows:?} of {all}: at least one")));
        }
        Ok(Self { rows: rows.len(), ..*self })
    }

    /// One range where they are all, or of one part.
    fn ranges(&self, rows: &Range<usize>) -> Vec<Range<usize>> {
        if *rows == self.all() {
            return std::iter::once(0..self.bytes()).collect();
        }
        (0..self.parts).map(|part| self.range(part, rows.clone())).collect()
    }

    fn check_length(&self, bytes: u64) -> Result<(), BackendError> {
        if bytes == self.bytes() as u64 {
            return Ok(());
        }
        let Self { rows, row_bytes, parts } = self;
        let expected = self.bytes();
        Err(BackendError::Shape(format!(
            "{parts} x {rows} rows of {row_bytes} bytes have {expected} bytes, not {bytes}"
        )))
    }
}

/// What the keys of a batch have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Their domain.
    pub domain: Domain,
    /// Whose they are.
    pub party: Party,
    /// The rows that its points meet.
    pub rows: Range<usize>,
}

impl Batch {
    /// What of a batch meets some rows: the keys of the subtrees whose points they are, and which of the rows, from the
    /// first of them on, they meet first. `None` where it meets none of them.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the rows that are met are not those of a whole subtree.
    pub fn on(
        &self,
        rows: &Range<usize>,
        prf: PrfKind,
        keys: &[Key],
    ) -> Result<Option<(usize, Vec<Key>)>, BackendError> {
        let met = rows.start.max(self.rows.start)..rows.end.min(self.rows.end);
        if met.is_empty() {
            return Ok(None);
        }
        let points = (met.start - self.rows.start) as u64..(met.end - self.rows.start) as u64;
        let subtree = |key| prf.visit(Subtree { key, points: points.clone() });
        let subtrees = keys.iter().map(subtree).collect::<Result<_, DpfError>>().map_err(|_| {
            BackendError::Shape(format!(
                "rows {:?} cross rows {rows:?} of a share within a subtree",
                self.rows
            ))
        })?;
        Ok(Some((met.start - rows.start, subtrees)))
    }
}

/// The operations of a server that holds shares of selections.
///
/// All results are exact and the same on every backend, bit for bit.
pub trait ShareBackend: Send + Sync + 'static {
    /// Rows where this backend wants them.
    type Rows: Send + Sync;

    /// Takes rows from memory.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the length is not `layout.bytes()`.
    fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Result<Self::Rows, BackendError>;

    /// Takes some rows of each part from a file, and reads nothing else of it.
    ///
    /// # Errors
    /// [`BackendError::Io`] if it cannot be read, [`BackendError::Shape`] if its length differs or as
    /// [`FileLayout::part`].
    fn open_rows(&self, stored: FileRows<'_, RowLayout>) -> Result<Self::Rows, BackendError>;

    /// The layout of rows.
    fn row_layout(&self, rows: &Self::Rows) -> RowLayout;

    /// Steps `dpf_expand` and `xor_fold` or `sum_fold` in one (GPU-DPF section III, IM-PIR section 3): the
    /// shares of every key, times the rows from `first_row` on.
    ///
    /// With bits, `answer = XOR over x of share(x) ? row(first_row + x) : 0`; with words of 32 or 64 bits, a row
    /// is taken as such words, little-endian, and `answer[l] = sum over x of share(x) * row(first_row + x)[l]`
    /// modulo 2^32 or 2^64. The answers, of `layout.answer_bytes()` each, follow one another.
    ///
    /// # Errors
    /// [`BackendError::Shape`] as [`RowLayout::check_keys`].
    fn share_fold(
        &self,
        rows: &Self::Rows,
        first_row: usize,
        prf: PrfKind,
        keys: &[Key],
    ) -> Result<Vec<u8>, BackendError>;
}
