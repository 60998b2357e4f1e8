//! Arrow's IPC files (Feather version 2) and streams.
//!
//! `arrow-ipc` decodes messages and validates their arrays in full. It allocates by lengths that a
//! file claims, and slices by its offsets, so `Source` checks these against the length of the
//! file first.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, CompressionType, Message, MessageHeader, Schema, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, FieldRef, SchemaRef};
use spirea_protocols::table::FieldType;

use super::arrow::{BatchRows, cause_of, unpanicked};
use super::typed::kind_of;
use super::{Column, Row, RowSource, Selection, positions};
use crate::{Location, StoreError};

/// Start and end of an IPC file. Input with any other start is read as a stream.
const MAGIC: &[u8; 6] = b"ARROW1";
/// Start of Feather version 1, an older format.
const FEATHER_1: &[u8; 4] = b"FEA1";
/// Bytes at the end of a file: the length of its footer, and [`MAGIC`].
const TRAILER_BYTES: u64 = 10;
/// Marker before a message's length since format 0.15.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Maximum number of decoded bytes for each byte of LZ4: each further byte of a length field adds
/// at most 255 to the length.
const LZ4_RATIO: u64 = 255;
/// Maximum number of decoded bytes for each byte of zstd: the shortest block has 4 bytes, and
/// decodes to 128 KiB.
const ZSTD_RATIO: u64 = 1 << 15;

/// Rows of an IPC file or stream.
pub struct IpcRows {
    rows: BatchRows<Batches>,
    /// The columns of the file.
    schema: Vec<Column>,
}

impl IpcRows {
    /// Opens the rows of a file of `bytes` bytes; messages call it `path`.
    ///
    /// # Errors
    /// [`StoreError::NoSuchColumn`] with a list of the columns, [`StoreError::Malformed`] if the
    /// file is not Arrow or a column's type has no text form.
    pub fn new(file: File, bytes: u64, path: &Path, selection: &Selection) -> Result<Self, StoreError> {
        let place = Location::File(path.into());
        let opened = unpanicked(|| Batches::open(Source { file, bytes }).map_err(cause_of));
        let malformed = |cause: String| {
            let detail = format!("it cannot be read as Arrow: {cause}; write it again");
            StoreError::malformed(place.clone(), detail)
        };
        let batches = opened.map_err(malformed)?;
        let fields = batches.schema.fields();
        let names: Vec<_> = fields.iter().map(|field| field.name().clone()).collect();
        let column = |field: &FieldRef| Column { name: field.name().clone(), kind: Some(kind_of(field)) };
        let schema = fields.iter().map(column).collect();
        let wanted = positions(&place, &names, &selection.columns())?;
        let batches = batches.projected(&wanted).map_err(|error| malformed(cause_of(error)))?;
        Ok(Self { rows: BatchRows::new(batches, path, selection, 0)?, schema })
    }
}

impl RowSource for IpcRows {
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        self.rows.next(row)
    }

    fn place(&self) -> Location {
        self.rows.place()
    }

    fn progress(&self) -> (u64, u64) {
        let batches = self.rows.reader();
        (batches.done, batches.source.bytes)
    }

    fn types(&self) -> Vec<FieldType> {
        self.rows.types()
    }

    fn columns(&self) -> Vec<Column> {
        self.schema.clone()
    }
}

/// Batches of an IPC file or stream.
struct Batches {
    source: Source,
    /// Positions of the messages to read.
    order: Order,
    decoder: FileDecoder,
    schema: SchemaRef,
    /// End of the message read last.
    done: u64,
}

/// Positions of messages.
enum Order {
    /// Positions of the batches that a file's footer lists.
    Listed(std::vec::IntoIter<i64>),
    /// Position of the next message of a stream.
    Next(u64),
}

impl Batches {
    fn open(mut source: Source) -> Result<Self, ArrowError> {
        let start = source.read(0, source.bytes.min(MAGIC.len() as u64))?;
        if start.starts_with(FEATHER_1) {
            return Err(damaged("it is Feather version 1, and only version 2 is read"));
        }
        if start.as_slice() == MAGIC { Self::of_file(source) } else { Self::of_stream(source) }
    }

    fn of_file(mut source: Source) -> Result<Self, ArrowError> {
        let end = source.bytes.saturating_sub(TRAILER_BYTES);
        let trailer = source.read(end, TRAILER_BYTES)?;
        let footer_bytes = read_footer_length(trailer.as_slice().try_into().expect("so many were read"))?;
        let start = end.checked_sub(footer_bytes as u64).ok_or_else(|| damaged("its footer is cut off"))?;
        let footer = source.read(start, footer_bytes as u64)?;
        let footer = root_as_footer(&footer).map_err(parse_error)?;
        let schema = schema_of(footer.schema())?;
        let mut decoder = FileDecoder::new(Arc::clone(&schema), footer.version());
        for block in footer.dictionaries().into_iter().flatten() {
            let message = source.listed(block.offset())?;
            decoder.read_dictionary(&message.block, &message.content)?;
        }
        let batches: Vec<i64> = footer.recordBatches().into_iter().flatten().map(Block::offset).collect();
        Ok(Self { source, order: Order::Listed(batches.into_iter()), decoder, schema, done: 0 })
    }

    fn of_stream(mut source: Source) -> Result<Self, ArrowError> {
        let first = source.message(0)?.ok_or_else(|| damaged("it is empty"))?;
        let header = first.header()?;
        let schema = schema_of(header.header_as_schema())?;
        let decoder = FileDecoder::new(Arc::clone(&schema), header.version());
        Ok(Self { source, order: Order::Next(first.end), decoder, schema, done: first.end })
    }

    /// Restricts the batches to the columns at these positions, which stay in the order of the
    /// file.
    ///
    /// # Errors
    /// [`ArrowError`] for a position beyond the columns.
    fn projected(self, columns: &[usize]) -> Result<Self, ArrowError> {
        let columns: Vec<usize> = BTreeSet::from_iter(columns.iter().copied()).into_iter().collect();
        let schema = Arc::new(self.schema.project(&columns)?);
        Ok(Self { decoder: self.decoder.with_projection(columns), schema, ..self })
    }

    /// Reads the next batch; `None` at the end.
    fn read_next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            let message = match &mut self.order {
                Order::Listed(batches) => match batches.next() {
                    Some(offset) => self.source.listed(offset)?,
                    None => return Ok(None),
                },
                Order::Next(at) => match self.source.message(*at)? {
                    Some(message) => {
                        *at = message.end;
                        message
                    }
                    None => return Ok(None),
                },
            };
            self.done = self.done.max(message.end);
            match message.header()?.header_type() {
                MessageHeader::DictionaryBatch => {
                    self.decoder.read_dictionary(&message.block, &message.content)?;
                }
                MessageHeader::RecordBatch => {
                    return self.decoder.read_record_batch(&message.block, &message.content);
                }
                other => {
                    return Err(damaged(format!("it has a message of type {other:?} among its batches")));
                }
            }
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read_next().transpose()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Converts the schema of a footer or a message.
fn schema_of(schema: Option<Schema<'_>>) -> Result<SchemaRef, ArrowError> {
    let schema = schema.ok_or_else(|| damaged("it does not begin with a schema"))?;
    if !schema.endianness().equals_to_target_endianness() {
        return Err(damaged("its numbers have another byte order than this machine"));
    }
    Ok(Arc::new(try_fb_to_schema(schema)?))
}

/// A message. Its buffers were checked to lie within its bytes.
struct ArrowMessage {
    /// Framing, metadata and body.
    content: Buffer,
    /// Length of the metadata including the framing, and length of the body.
    block: Block,
    /// Position of the byte after the message.
    end: u64,
}

impl ArrowMessage {
    /// Returns the metadata.
    fn header(&self) -> Result<Message<'_>, ArrowError> {
        let framing = if self.content.starts_with(&CONTINUATION) { 8 } else { 4 };
        root_as_message(&self.content[framing..]).map_err(parse_error)
    }

    /// Checks that every buffer lies in the body, and that compressed buffers can decode to the
    /// lengths that they claim.
    fn check_buffers(&self) -> Result<(), ArrowError> {
        let header = self.header()?;
        let batch = match header.header_type() {
            MessageHeader::RecordBatch => header.header_as_record_batch(),
            MessageHeader::DictionaryBatch => {
                header.header_as_dictionary_batch().and_then(|batch| batch.data())
            }
            _ => None,
        };
        let Some(batch) = batch else { return Ok(()) };
        let body = self.content.get(self.block.metaDataLength() as usize..).unwrap_or_default();
        let ratio = batch.compression().map(|compression| match compression.codec() {
            CompressionType::LZ4_FRAME => LZ4_RATIO,
            _ => ZSTD_RATIO,
        });
        let mut decoded = 0u64;
        for buffer in batch.buffers().into_iter().flatten() {
            let range = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
            let range = range.and_then(|(start, bytes)| Some(start..start.checked_add(bytes)?));
            let stored = range.and_then(|range| body.get(range)).ok_or_else(outside)?;
            // A compressed buffer begins with its decoded length, or -1 if its content is stored
            // uncompressed.
            if let (Some(_), Some(length)) = (ratio, stored.first_chunk()) {
                decoded = decoded.saturating_add(i64::from_le_bytes(*length).max(0) as u64);
            }
        }
        if ratio.is_some_and(|ratio| decoded > ratio.saturating_mul(body.len() as u64)) {
            return Err(damaged(format!(
                "{} compressed bytes cannot have {decoded} bytes of content",
                body.len()
            )));
        }
        // The decoder would abort the process if this allocation failed.
        Vec::<u8>::new().try_reserve_exact(usize::try_from(decoded).unwrap_or(usize::MAX)).map_err(|_| {
            ArrowError::MemoryError(format!(
                "a batch has {decoded} bytes of content, more than the memory has room for"
            ))
        })
    }
}

/// A file from which whole messages are read.
struct Source {
    file: File,
    bytes: u64,
}

impl Source {
    /// Reads `bytes` bytes from position `at`.
    fn read(&mut self, at: u64, bytes: u64) -> Result<Buffer, ArrowError> {
        if at.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(outside());
        }
        let mut content = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| MutableBuffer::try_from_len_zeroed(bytes).ok())
            .ok_or_else(|| {
                ArrowError::MemoryError(format!("the memory has no room for a message of {bytes} bytes"))
            })?;
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(&mut content)?;
        Ok(content.into())
    }

    /// Reads the message at an offset that a footer lists.
    fn listed(&mut self, offset: i64) -> Result<ArrowMessage, ArrowError> {
        let at = u64::try_from(offset).map_err(|_| outside())?;
        self.message(at)?.ok_or_else(outside)
    }

    /// Reads the message at position `at`; `None` at the end-of-stream mark, which must be the last
    /// bytes of the file.
    fn message(&mut self, at: u64) -> Result<Option<ArrowMessage>, ArrowError> {
        if at == self.bytes {
            return Err(damaged("it is cut off: the mark of its end is missing"));
        }
        let (mut length, mut framing) = (self.read(at, 4)?, 4);
        if length.as_slice() == CONTINUATION {
            (length, framing) = (self.read(at + 4, 4)?, 8);
        }
        let length = i32::from_le_bytes(length.as_slice().try_into().expect("so many were read"));
        let metadata_bytes = u64::try_from(length).map_err(|_| outside())?;
        if metadata_bytes == 0 {
            return match at + framing == self.bytes {
                true => Ok(None),
                false => Err(damaged("other bytes follow the mark of its end; give each stream a file")),
            };
        }
        let metadata = self.read(at + framing, metadata_bytes)?;
        let body_bytes = root_as_message(&metadata).map_err(parse_error)?.bodyLength();
        let framed_bytes = framing + metadata_bytes;
        let bytes = framed_bytes.checked_add(u64::try_from(body_bytes).map_err(|_| outside())?);
        let bytes = bytes.ok_or_else(outside)?;
        let content = self.read(at, bytes)?;
        let block = Block::new(0, i32::try_from(framed_bytes).map_err(|_| outside())?, body_bytes);
        let message = ArrowMessage { content, block, end: at + bytes };
        message.check_buffers()?;
        Ok(Some(message))
    }
}

fn damaged(cause: impl Into<String>) -> ArrowError {
    ArrowError::IpcError(cause.into())
}

/// Returns the error for a length or an offset that points outside of the file.
fn outside() -> ArrowError {
    damaged("a length or an offset in it points outside of it")
}

fn parse_error(error: impl std::fmt::Display) -> ArrowError {
    damaged(format!("its metadata is damaged: {error}"))
}
