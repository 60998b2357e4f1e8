//! Folds of records by shares: the steps of protocols with two servers.

use std::ops::Range;

use spirea_dpf::{Domain, DpfError, Key, OutputKind, Party, PrfKind, Subtree};

use crate::{BackendError, FileLayout, FileRows, MAX_MATRIX_BYTES};

/// Largest number of keys in one call of [`ShareBackend::share_fold`].
pub const MAX_KEYS: usize = 512;

/// Layout of records for folds by shares: rows of bytes, one after another without gaps.
///
/// Records larger than a row have several *parts*: first the first rows of all records, then all
/// second rows, and so on. A share multiplies a record's row in every part.
///
/// Rows may be divided into *bins* of equally many consecutive rows ([`RowLayout::in_bins`]). A
/// key's points then correspond to the rows of one bin (partial batch retrieval, GPU-DPF section
/// IV-A).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowLayout {
    rows: usize,
    row_bytes: usize,
    parts: usize,
    /// Number of rows of a bin; the number of all rows if these are not divided.
    bin_rows: usize,
    /// Number of rows of the first bin that precede these rows; it is not 0 if a part of a table
    /// begins within a bin.
    skipped: usize,
}

impl RowLayout {
    /// Largest row, in bytes.
    pub const MAX_ROW_BYTES: usize = 4096;

    /// Returns the layout of `parts` times `rows` rows of `row_bytes` bytes.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if a number is 0, a row is larger than [`RowLayout::MAX_ROW_BYTES`],
    /// or all rows together are larger than [`MAX_MATRIX_BYTES`].
    pub fn new(rows: usize, row_bytes: usize, parts: usize) -> Result<Self, BackendError> {
        let bytes = rows as u128 * row_bytes as u128;
        let bytes = bytes.saturating_mul(parts as u128);
        if bytes == 0 || bytes > u128::from(MAX_MATRIX_BYTES) || row_bytes > Self::MAX_ROW_BYTES {
            return Err(BackendError::Shape(format!(
                "{parts} parts of {rows} rows of {row_bytes} bytes: none may be 0, a row at most 4096 bytes, all together at most 2^44"
            )));
        }
        Ok(Self { rows, row_bytes, parts, bin_rows: rows, skipped: 0 })
    }

    /// Divides the rows into `bins` bins.
    ///
    /// # Errors
    /// [`BackendError::Shape`] unless there is at least one bin and every bin has the same number
    /// of rows.
    pub fn in_bins(self, bins: usize) -> Result<Self, BackendError> {
        if bins == 0 || !self.rows.is_multiple_of(bins) {
            let rows = self.rows;
            return Err(BackendError::Shape(format!("{rows} rows are no {bins} bins of as many rows")));
        }
        Ok(Self { bin_rows: self.rows / bins, skipped: 0, ..self })
    }

    /// Returns the number of rows in a bin.
    pub fn bin_rows(&self) -> usize {
        self.bin_rows
    }

    /// Returns the number of rows of the first bin that lie before the first row; `None` if there
    /// is only one bin and it is complete.
    pub(crate) fn skipped(&self) -> Option<usize> {
        (self.skipped > 0 || self.bin_rows < self.rows).then_some(self.skipped)
    }

    /// Returns the number of rows in a part, which is the number of records.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Returns the number of parts: the rows of a record.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Returns the number of bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.rows * self.row_bytes * self.parts
    }

    /// Returns the number of bytes of an answer, the share of a record: its rows one after another.
    pub fn answer_bytes(&self) -> usize {
        self.row_bytes * self.parts
    }

    /// Returns the range of bytes of the rows `rows` of part `part`.
    pub fn range(&self, part: usize, rows: Range<usize>) -> Range<usize> {
        let first = part * self.rows;
        (first + rows.start) * self.row_bytes..(first + rows.end) * self.row_bytes
    }

    /// Returns the properties that the keys of a batch share, including the rows to which their
    /// points correspond. The row of point 0 is `first_row`.
    ///
    /// # Errors
    /// [`BackendError::Shape`] unless there are 1 to [`MAX_KEYS`] keys of one party and one domain,
    /// every point has a row, and outputs are bits, or words that divide a row evenly.
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

    /// Selects these rows in each part.
    fn part(&self, rows: &Range<usize>) -> Result<Self, BackendError> {
        if rows.is_empty() || rows.end > self.rows {
            let all = self.rows;
            return Err(BackendError::Shape(format!("rows {rows:?} of {all}: at least one")));
        }
        let part = Self { rows: rows.len(), ..*self };
        Ok(match self.skipped() {
            None => Self { bin_rows: rows.len(), ..part },
            Some(skipped) => Self { skipped: (skipped + rows.start) % self.bin_rows, ..part },
        })
    }

    /// Returns a single range if `rows` are all rows, otherwise one range for each part.
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
        let Self { rows, row_bytes, parts, .. } = self;
        let expected = self.bytes();
        Err(BackendError::Shape(format!(
            "{parts} x {rows} rows of {row_bytes} bytes have {expected} bytes, not {bytes}"
        )))
    }
}

/// Properties that the keys of a batch share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Domain of the keys.
    pub domain: Domain,
    /// Party of the keys.
    pub party: Party,
    /// Rows to which the keys' points correspond, one for each point.
    pub rows: Range<usize>,
}

/// Rows that the batch's keys select from, within one subtree of the keys' trees.
#[derive(Clone, Debug)]
pub struct MetRows {
    /// First of these rows, counted from the first requested row.
    pub first_row: usize,
    /// Keys of the subtree, with one point for each row.
    pub keys: Vec<Key>,
}

impl MetRows {
    /// Returns the operand of [`ShareBackend::share_folds`].
    pub fn fold(&self) -> ShareFold<'_> {
        ShareFold { first_row: self.first_row, keys: &self.keys }
    }
}

impl Batch {
    /// Restricts a batch to `rows`: returns the fewest subtree keys that cover the batch's rows
    /// among them, each with its rows. Returns nothing if the batch has none of these rows.
    ///
    /// A range of points from one leaf to another is covered by at most two subtrees for each level
    /// of the tree.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the first of the covered rows is not the first row of a leaf.
    pub fn on(&self, rows: &Range<usize>, prf: PrfKind, keys: &[Key]) -> Result<Vec<MetRows>, BackendError> {
        let met = rows.start.max(self.rows.start)..rows.end.min(self.rows.end);
        let mut pieces = Vec::new();
        let (mut start, end) = (met.start, met.end);
        while start < end {
            let point = (start - self.rows.start) as u64;
            // Number of points of the largest subtree that begins at this point. At point 0,
            // subtrees of any size begin.
            let tree = if point == 0 { u64::MAX } else { 1 << point.trailing_zeros() };
            let count = tree.min((end - start) as u64);
            let subtree = |key| prf.visit(Subtree { key, points: point..point + count });
            let keys = keys.iter().map(subtree).collect::<Result<_, DpfError>>().map_err(|_| {
                BackendError::Shape(format!("rows {rows:?} of a share cut a leaf of rows {:?}", self.rows))
            })?;
            pieces.push(MetRows { first_row: start - rows.start, keys });
            start += count as usize;
        }
        Ok(pieces)
    }
}

/// One of several folds: its keys, and the first of the rows that correspond to their points.
#[derive(Clone, Copy, Debug)]
pub struct ShareFold<'a> {
    /// The row of point 0.
    pub first_row: usize,
    /// The keys.
    pub keys: &'a [Key],
}

/// The operations of a server that holds shares of selections.
///
/// All results are exact and the same on every backend, bit for bit.
pub trait ShareBackend: Send + Sync + 'static {
    /// Rows in the form that this backend uses.
    type Rows: Send + Sync;

    /// Uploads rows from memory.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the length is not `layout.bytes()`.
    fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Result<Self::Rows, BackendError>;

    /// Opens some rows of each part in a file; reads nothing else of the file.
    ///
    /// # Errors
    /// [`BackendError::Io`] if the file cannot be read, [`BackendError::Shape`] if its length
    /// differs, and errors of [`FileLayout::part`].
    fn open_rows(&self, stored: FileRows<'_, RowLayout>) -> Result<Self::Rows, BackendError>;

    /// Returns the layout of rows.
    fn row_layout(&self, rows: &Self::Rows) -> RowLayout;

    /// Steps `dpf_expand` and `xor_fold` or `sum_fold` in one (GPU-DPF section III, IM-PIR section
    /// 3): multiplies the shares of every key by the rows from `first_row` on.
    ///
    /// With bits, `answer = XOR over x of share(x) ? row(first_row + x) : 0`. With words of 32 or
    /// 64 bits, a row is a vector of little-endian words, and
    /// `answer[l] = sum over x of share(x) * row(first_row + x)[l]` modulo 2^32 or 2^64. The
    /// answers, of `layout.answer_bytes()` each, follow one another.
    ///
    /// # Errors
    /// Errors of [`RowLayout::check_keys`].
    fn share_fold(
        &self,
        rows: &Self::Rows,
        first_row: usize,
        prf: PrfKind,
        keys: &[Key],
    ) -> Result<Vec<u8>, BackendError>;

    /// Computes several folds at once, each over its own rows by its own keys: a batch of queries
    /// to rows in bins (GPU-DPF section IV-A). Each row is read once, for all keys that select from
    /// it. The answers of all folds follow one another and equal those of
    /// [`ShareBackend::share_fold`], bit for bit.
    ///
    /// # Errors
    /// Errors of [`ShareBackend::share_fold`].
    fn share_folds(
        &self,
        rows: &Self::Rows,
        prf: PrfKind,
        folds: &[ShareFold<'_>],
    ) -> Result<Vec<u8>, BackendError>;
}

/// Computes the contribution of the rows `own` of a table to folds over all of its rows. The
/// contributions of all rows add up to [`ShareBackend::share_folds`] of the whole table. `layout`
/// is the table's layout, and `rows` are the rows `own`.
///
/// # Errors
/// Errors of [`ShareBackend::share_folds`]; [`BackendError::Shape`] if a key's first point among
/// these rows does not begin a leaf.
pub fn partial_folds<B: ShareBackend>(
    backend: &B,
    layout: RowLayout,
    (own, rows): (&Range<usize>, &B::Rows),
    prf: PrfKind,
    folds: &[ShareFold<'_>],
) -> Result<Vec<u8>, BackendError> {
    if *own == layout.all() {
        return backend.share_folds(rows, prf, folds);
    }
    // The rows of each fold within `own` form one or more pieces. `places` has the place of each
    // piece's answers in `sums`.
    let (mut places, mut pieces, mut length, mut output) = (Vec::new(), Vec::new(), 0, OutputKind::Bit);
    for fold in folds {
        let (batch, bytes) =
            (layout.check_keys(fold.first_row, fold.keys)?, fold.keys.len() * layout.answer_bytes());
        let met = batch.on(own, prf, fold.keys)?;
        places.extend(met.iter().map(|_| length..length + bytes));
        pieces.extend(met);
        (length, output) = (length + bytes, batch.domain.output());
    }
    let mut sums = vec![0; length];
    let met: Vec<ShareFold<'_>> = pieces.iter().map(MetRows::fold).collect();
    let answers = backend.share_folds(rows, prf, &met)?;
    let mut rest = &answers[..];
    for place in places {
        let (answer, others) = rest.split_at(place.len());
        output.add_to(&mut sums[place], answer);
        rest = others;
    }
    Ok(sums)
}
