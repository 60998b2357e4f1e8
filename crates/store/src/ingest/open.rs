//! Opens rows at a path: files, pipes, and compressed content.

use std::fs::File;
#[cfg(feature = "compression")]
use std::io::Cursor;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spirea_protocols::table::FieldType;

#[cfg(feature = "compression")]
use super::compression::{Compression, MAGIC_BYTES, Member};
#[cfg(feature = "arrow-ipc")]
use super::ipc::IpcRows;
use super::objects::Object;
#[cfg(feature = "parquet")]
use super::parquet::ParquetRows;
use super::{Column, Format, Row, RowSource, Selection, csv, is_standard_input, json, jsonl, npy, raw};
use crate::error::IoContext;
use crate::{Location, StoreError};

/// Location of a table's bytes.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A file or a pipe; `-` for standard input.
    Path(PathBuf),
    Object(Object),
}

/// Opens the table at `place`, which messages call `path`. A format that needs random access is
/// first copied into an unnamed file in the folder `scratch`, unless it is in a plain file.
///
/// # Errors
/// Those of [`super::Files::open`].
pub(super) fn open_as(
    place: &Place,
    path: &Path,
    format: Format,
    selection: &Selection,
    scratch: &Path,
) -> Result<Box<dyn RowSource>, StoreError> {
    rows(|| Input::open(place, path), path, format, selection, scratch)
}

/// Opens the table whose bytes come from `stream`, possibly compressed; messages call it `name`.
/// Copies are written to the system's folder for temporary files.
///
/// # Errors
/// Those of [`super::Files::open`].
pub fn open_stream(
    stream: impl Read + 'static,
    name: &Path,
    format: Format,
    selection: &Selection,
) -> Result<Box<dyn RowSource>, StoreError> {
    rows(|| Ok(Input::counted(stream, None)), name, format, selection, &std::env::temp_dir())
}

/// Returns the rows of an input, which is opened only if the columns suit its format.
fn rows(
    open: impl FnOnce() -> Result<Input, StoreError>,
    path: &Path,
    format: Format,
    selection: &Selection,
    scratch: &Path,
) -> Result<Box<dyn RowSource>, StoreError> {
    // In some forms, JSON names its columns itself.
    if !matches!(format, Format::Json { .. }) {
        selection.check(format.has_columns())?;
    }
    let input = open()?;
    // Rows of a fixed width may be any bytes, even bytes that look compressed.
    let input = if matches!(format, Format::Raw { .. }) { input } else { input.decoded(path, scratch)? };
    let counter = input.counter();
    let rows: Box<dyn RowSource> = match format {
        Format::Csv(form) => {
            let (input, bytes) = input.stream();
            Box::new(csv::CsvRows::new(input, bytes, path, form, selection)?)
        }
        Format::Jsonl { encoding } => {
            let (input, bytes) = input.stream();
            Box::new(jsonl::JsonlRows::new(input, bytes, path, encoding, selection))
        }
        Format::Json { encoding } => {
            let (input, bytes) = input.stream();
            Box::new(json::JsonRows::new(input, bytes, path, encoding, selection)?)
        }
        #[cfg(feature = "arrow-ipc")]
        Format::Arrow => {
            let (file, bytes) = input.file(path, scratch)?;
            return Ok(Box::new(IpcRows::new(file, bytes, path, selection)?));
        }
        #[cfg(not(feature = "arrow-ipc"))]
        Format::Arrow => {
            return Err(StoreError::BadOption(
                "this build reads no Arrow files: enable the feature arrow-ipc".into(),
            ));
        }
        #[cfg(feature = "parquet")]
        Format::Parquet => {
            return Ok(Box::new(ParquetRows::new(input.file(path, scratch)?.0, path, selection)?));
        }
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => {
            return Err(StoreError::BadOption(
                "this build reads no Parquet: enable the feature parquet".into(),
            ));
        }
        Format::Npy => {
            let (file, bytes) = input.file(path, scratch)?;
            return Ok(Box::new(npy::open(file, bytes, path)?));
        }
        Format::Raw { record_bytes } => {
            let (file, bytes) = input.file(path, scratch)?;
            return Ok(Box::new(raw::FixedRows::of_file(file, bytes, path, record_bytes)?));
        }
    };
    Ok(match counter {
        None => rows,
        Some(counter) => Box::new(Counted { rows, counter }),
    })
}

/// Copies an input that can be read only once, and that messages call `path`, to `copy`; returns
/// its length.
///
/// # Errors
/// [`StoreError::Io`].
pub(super) fn keep(place: &Place, path: &Path, copy: &Path) -> Result<u64, StoreError> {
    let (mut input, _) = Input::open(place, path)?.stream();
    copy_into(&mut *input, path, &mut File::create(copy).at("create", copy)?, copy)
}

/// Copies the rest of `input`, which messages call `path`, into `file`, which they call `target`;
/// returns its length.
fn copy_into(input: &mut dyn Read, path: &Path, file: &mut File, target: &Path) -> Result<u64, StoreError> {
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        // Reading or writing may fail: the error names the file that failed.
        let read = match input.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.at("read", path)?,
        };
        if read == 0 {
            return Ok(bytes);
        }
        io::Write::write_all(file, &buffer[..read]).at("copy the input into", target)?;
        bytes += read as u64;
    }
}

/// The bytes of an input.
enum Input {
    /// A file, which is read from its start, and its length.
    File(File, u64),
    /// Bytes that are read once, in order.
    Stream(Box<dyn Read>, Counter),
}

impl Input {
    fn open(place: &Place, path: &Path) -> Result<Self, StoreError> {
        let file = match place {
            Place::Object(object) => {
                let (content, bytes) = object.open().at("open", path)?;
                return Ok(Self::counted(content, Some(bytes)));
            }
            Place::Path(file) if is_standard_input(file) => return Ok(Self::counted(io::stdin(), None)),
            Place::Path(file) => File::open(file).at("open", path)?,
        };
        let metadata = file.metadata().at("read", path)?;
        if metadata.is_dir() {
            let detail = "it is a folder; name one file";
            return Err(StoreError::malformed(Location::File(path.into()), detail));
        }
        Ok(match metadata.is_file() {
            true => Self::File(file, metadata.len()),
            false => Self::counted(file, None),
        })
    }

    /// Creates a stream whose bytes are counted as they are read.
    fn counted(stream: impl Read + 'static, total: Option<u64>) -> Self {
        let (stream, counter) = counted(stream, total);
        Self::Stream(Box::new(stream), counter)
    }

    /// Returns the content, decoded if it is compressed.
    #[cfg(feature = "compression")]
    fn decoded(mut self, path: &Path, scratch: &Path) -> Result<Self, StoreError> {
        let mut start = Vec::new();
        let reader: &mut dyn Read = match &mut self {
            Self::File(file, _) => file,
            Self::Stream(stream, _) => stream,
        };
        reader.take(MAGIC_BYTES as u64).read_to_end(&mut start).at("read", path)?;
        let compression = Compression::detect(&start);
        let input = match self {
            Self::File(mut file, bytes) => {
                file.seek(SeekFrom::Start(0)).at("read", path)?;
                Self::File(file, bytes)
            }
            Self::Stream(stream, counter) => {
                Self::Stream(Box::new(Cursor::new(start).chain(stream)), counter)
            }
        };
        let Some(compression) = compression else { return Ok(input) };
        if compression == Compression::Zip {
            let (file, bytes) = input.file(path, scratch)?;
            let member = Member::find(&file, path)?;
            let (file, counter) = counted(file, Some(bytes));
            return Ok(Self::Stream(member.decode(file, path)?, counter));
        }
        let (reader, counter): (Box<dyn Read>, _) = match input {
            Self::File(file, bytes) => {
                let (file, counter) = counted(file, Some(bytes));
                (Box::new(file), counter)
            }
            Self::Stream(stream, counter) => (stream, counter),
        };
        let decoder = compression.stream(reader).at("read", path)?;
        Ok(Self::Stream(decoder.expect("only zip has none"), counter))
    }

    /// Returns the content unchanged: this build has no decoders.
    #[cfg(not(feature = "compression"))]
    fn decoded(self, _: &Path, _: &Path) -> Result<Self, StoreError> {
        Ok(self)
    }

    /// Returns the counter of read bytes, for a stream.
    fn counter(&self) -> Option<Counter> {
        match self {
            Self::File(..) => None,
            Self::Stream(_, counter) => Some(counter.clone()),
        }
    }

    /// Returns a reader of the input, and its length, which is 0 for a stream.
    fn stream(self) -> (Box<dyn Read>, u64) {
        match self {
            Self::File(file, bytes) => (Box::new(file), bytes),
            Self::Stream(stream, _) => (stream, 0),
        }
    }

    /// Returns a file of the input, and its length. A stream is copied into an unnamed file in the
    /// folder `scratch`.
    fn file(self, path: &Path, scratch: &Path) -> Result<(File, u64), StoreError> {
        match self {
            Self::File(file, bytes) => Ok((file, bytes)),
            Self::Stream(mut stream, _) => {
                let mut file = tempfile::tempfile_in(scratch).at("create a temporary file in", scratch)?;
                let bytes = copy_into(&mut *stream, path, &mut file, scratch)?;
                file.seek(SeekFrom::Start(0)).at("read", scratch)?;
                Ok((file, bytes))
            }
        }
    }
}

/// Number of bytes read from an input, and its length if known.
#[derive(Clone, Default)]
struct Counter {
    read: Arc<AtomicU64>,
    total: Option<u64>,
}

/// A reader whose bytes are counted.
struct Counting<R> {
    input: R,
    read: Arc<AtomicU64>,
}

fn counted<R: Read>(input: R, total: Option<u64>) -> (BufReader<Counting<R>>, Counter) {
    let counter = Counter { total, ..Counter::default() };
    let input = Counting { input, read: counter.read.clone() };
    (BufReader::with_capacity(1 << 18, input), counter)
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(feature = "compression")]
impl<R: Seek> Seek for Counting<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.input.seek(to)
    }
}

/// Rows whose progress is that of the underlying bytes.
struct Counted {
    rows: Box<dyn RowSource>,
    counter: Counter,
}

impl RowSource for Counted {
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        self.rows.next(row)
    }

    fn place(&self) -> Location {
        self.rows.place()
    }

    fn progress(&self) -> (u64, u64) {
        let read = self.counter.read.load(Ordering::Relaxed);
        (read, self.counter.total.unwrap_or(read))
    }

    fn columns(&self) -> Vec<Column> {
        self.rows.columns()
    }

    fn types(&self) -> Vec<FieldType> {
        self.rows.types()
    }

    fn own_columns(&self) -> Option<Selection> {
        self.rows.own_columns()
    }
}
