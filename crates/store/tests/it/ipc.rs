//! Arrow's IPC files and streams, well-formed and hostile.

mod check;

use std::process::Command;
use std::sync::Arc;

use arrow_array::types::{Int8Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, Int32Array, Int64Array, LargeListArray, ListArray,
    NullArray, RecordBatch, RunArray, StringArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_ipc::{
    CompressionType, Endianness, Message, MessageArgs, MessageHeader, MetadataVersion, SchemaArgs,
    root_as_message,
};
use arrow_schema::{DataType, Field};
use flatbuffers::FlatBufferBuilder;
use spirea_specimens::snapshots::{columns, options, try_build, write_file};
use spirea_specimens::{Inputs, LookUps, inputs};
use spirea_store::ingest::{self, Format, FormatHints, Row, Selection};

const COMPRESSIONS: [Option<CompressionType>; 3] =
    [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];

fn written(compression: Option<CompressionType>) -> IpcWriteOptions {
    IpcWriteOptions::default().try_with_compression(compression).unwrap()
}

fn file(batches: &[RecordBatch], options: IpcWriteOptions) -> Vec<u8> {
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn stream(batches: &[RecordBatch], options: IpcWriteOptions) -> Vec<u8> {
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// Returns batches with the column `k`, an unread column and the dictionary `v`.
fn batches() -> Vec<RecordBatch> {
    let words: ArrayRef = Arc::new(StringArray::from(vec!["even", "odd"]));
    let of = |rows: std::ops::Range<i64>| {
        let parity = Int32Array::from_iter_values(rows.clone().map(|row| row as i32 % 2));
        let values = DictionaryArray::new(parity, Arc::clone(&words));
        batch(vec![
            ("k", Arc::new(StringArray::from_iter_values(rows.clone().map(|row| format!("key {row}"))))),
            ("unread", Arc::new(Int64Array::from_iter_values(rows))),
            ("v", Arc::new(values)),
        ])
    };
    vec![of(0..100), of(100..100), of(100..180)]
}

fn keys() -> Vec<Vec<u8>> {
    (0..180).map(|row| format!("key {row}").into_bytes()).collect()
}

/// Returns all rows, with cells joined by `=`, or the error without the folder's path.
fn read(name: &str, content: &[u8], selection: &Selection) -> Result<Vec<String>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = write_file(folder.path(), name, content);
    let explain = |error: spirea_store::StoreError| {
        error.to_string().replace(&format!("{}/", folder.path().display()), "")
    };
    let format = Format::choose(FormatHints::default(), &path).map_err(explain)?;
    let mut source = ingest::open(&path, format, selection).map_err(explain)?;
    let (mut rows, mut row) = (Vec::new(), Row::default());
    while source.next(&mut row).map_err(explain)? {
        let cells = row.key().into_iter().chain(row.fields());
        let cells: Vec<_> = cells.map(|cell| String::from_utf8_lossy(cell).into_owned()).collect();
        rows.push(cells.join("="));
    }
    let (done, total) = source.progress();
    assert!(done <= total && total == content.len() as u64, "{done} of {total}");
    Ok(rows)
}

#[test]
fn files_and_streams_are_told_by_their_content() {
    let selection = columns(Some("k"), &["v"]);
    let parity = |row| if row % 2 == 0 { "even" } else { "odd" };
    let expected: Vec<_> = (0..180).map(|row| format!("key {row}={}", parity(row))).collect();
    for compression in COMPRESSIONS {
        let [file, stream] = [file, stream].map(|write| write(&batches(), written(compression)));
        for name in ["a.arrow", "a.FEATHER", "a.ipc", "a.arrows"] {
            for content in [&file, &stream] {
                assert_eq!(read(name, content, &selection).unwrap(), expected, "{name} {compression:?}");
            }
        }
    }
    // Uses the framing from before format 0.15.
    let options = IpcWriteOptions::try_new(8, true, MetadataVersion::V4).unwrap();
    for write in [file, stream] {
        assert_eq!(read("a.arrow", &write(&batches(), options.clone()), &selection).unwrap(), expected);
    }
}

#[test]
fn a_table_is_built_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let input = write_file(folder.path(), "data.arrow", file(&batches(), written(None)));
    let mut lookups = LookUps::new(&try_build(&options(&input, Some("k"), &["v", "unread"])).unwrap());
    let fields = spirea_protocols::table::join_fields(&[b"odd", b"179"]);
    assert_eq!(lookups.key(b"key 179").unwrap(), Some(fields));
    assert_eq!(lookups.key(b"key 180").unwrap(), None);
}

#[test]
fn other_formats_and_columns_are_refused_by_name() {
    let table = columns(Some("k"), &["v"]);
    let good = stream(&batches(), written(None));
    let of_nulls = stream(&[batch(vec![("k", Arc::new(NullArray::new(2)))])], written(None));
    let joined = [&good[..], &good[..]].concat();
    let unfinished = &good[..good.len() - 8];
    for (content, selection, cause) in [
        (&b"FEA1 and more"[..], &table, "it is Feather version 1"),
        (
            b"k,v\na,1\n",
            &table,
            "it cannot be read as Arrow: a length or an offset in it points outside of it",
        ),
        (b"", &table, "it cannot be read as Arrow"),
        (b"ARROW1\0\0", &table, "it cannot be read as Arrow"),
        (
            b"ARROW1\0\0\0\0\0\0",
            &table,
            "it cannot be read as Arrow: Arrow file does not contain correct footer",
        ),
        (&good, &columns(Some("k"), &["w"]), "no column \"w\"; there are \"k\", \"unread\", \"v\""),
        (&of_nulls, &columns(Some("k"), &[]), "row 1: column \"k\" is null"),
        (&joined, &table, "other bytes follow the mark of its end"),
        (unfinished, &table, "row 181: the rows from here cannot be read"),
        (unfinished, &table, "the mark of its end is missing"),
    ] {
        let error = read("a.arrow", content, selection).unwrap_err();
        assert!(error.starts_with("a.arrow: ") && error.contains(cause), "{error}");
    }
}

#[test]
fn numbers_in_another_byte_order_are_refused() {
    let mut builder = FlatBufferBuilder::new();
    let arguments = SchemaArgs { endianness: Endianness::Big, ..SchemaArgs::default() };
    let schema = arrow_ipc::Schema::create(&mut builder, &arguments).as_union_value();
    let message = MessageArgs {
        version: MetadataVersion::V5,
        header_type: MessageHeader::Schema,
        header: Some(schema),
        ..MessageArgs::default()
    };
    let message = Message::create(&mut builder, &message);
    builder.finish(message, None);
    let metadata = builder.finished_data();
    let content = [&[0xff; 4], &(metadata.len() as u32).to_le_bytes()[..], metadata].concat();
    let error = check::check(&content).unwrap_err();
    assert!(error.contains("another byte order"), "{error}");
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused() {
    for compression in COMPRESSIONS {
        for write in [file, stream] {
            let small: Vec<_> =
                batches().iter().map(|batch| batch.slice(0, batch.num_rows().min(3))).collect();
            let content = write(&small, written(compression));
            assert_eq!(check::check(&content).unwrap().len(), 6);
            for length in 0..content.len() {
                let error = check::check(&content[..length]).expect_err(&format!("{length} bytes are read"));
                assert!(!error.contains("is damaged"), "{length}: the reader panicked: {error}");
            }
        }
    }
}

#[test]
fn changed_bytes_are_rows_or_an_error_that_names_the_input() {
    let originals: Vec<_> = COMPRESSIONS
        .into_iter()
        .flat_map(|compression| [file, stream].map(|write| write(&batches(), written(compression))))
        .collect();
    assert!(originals.iter().all(|content| check::check(content).unwrap() == keys()));
    let (mut maker, mut damaged) = (Inputs::new(43), 0);
    let made = inputs(3000);
    for _ in 0..made {
        damaged += usize::from(check::check(&maker.changed(&originals)).is_err());
    }
    assert!(damaged > made / 4, "{damaged} of {made}");
}

/// Replaces the last occurrence of `from`: lengths in bodies follow those in metadata.
fn patched(content: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = content.windows(from.len()).rposition(|window| window == from).expect("the bytes are there");
    let mut content = content.to_vec();
    content[at..at + to.len()].copy_from_slice(to);
    content
}

/// Returns a stream of one column `k`, whose values have 3,961 bytes, all the same.
fn repetitive(compression: Option<CompressionType>) -> Vec<u8> {
    let values = ["a".repeat(3960), "a".into()];
    stream(&[batch(vec![("k", Arc::new(StringArray::from_iter_values(values)))])], written(compression))
}

fn position_of_batch(stream: &[u8]) -> usize {
    8 + u32::from_le_bytes(stream[4..8].try_into().unwrap()) as usize
}

/// Returns inputs of a few kilobytes that claim far more content, each with the expected cause in
/// the error.
fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let outside = "points outside of it";
    let at = |mut content: Vec<u8>, at: usize, bytes: &[u8]| {
        content[at..at + bytes.len()].copy_from_slice(bytes);
        content
    };
    let plain = repetitive(None);
    let of_file = file(&[batch(vec![("k", Arc::new(StringArray::from(vec!["a"])))])], written(None));
    let trailer = of_file.len() - 10;
    let batch_at = position_of_batch(&plain);
    let metadata = u32::from_le_bytes(plain[batch_at + 4..][..4].try_into().unwrap()) as usize;
    let message = root_as_message(&plain[batch_at + 8..][..metadata]).unwrap();
    let body = message.bodyLength().to_le_bytes();
    let buffer = message.header_as_record_batch().unwrap().buffers().unwrap().get(2);
    let [offset, length] = [buffer.offset(), buffer.length()].map(i64::to_le_bytes);
    let placed = [offset, length].concat();
    let huge = (1i64 << 40).to_le_bytes();
    let offsets: Vec<u8> = [0, 3960, 3961].into_iter().flat_map(i32::to_le_bytes).collect();
    let beyond: Vec<u8> = [0, 3960, 1 << 30].into_iter().flat_map(i32::to_le_bytes).collect();
    let mut cases = vec![
        (outside, at(plain.clone(), batch_at + 4, &i32::MAX.to_le_bytes())),
        (outside, at(plain.clone(), batch_at + 4, &(-8i32).to_le_bytes())),
        (outside, patched(&plain, &body, &huge)),
        (outside, patched(&plain, &body, &(-1i64).to_le_bytes())),
        (outside, patched(&plain, &placed, &[huge, length].concat())),
        (outside, patched(&plain, &placed, &[offset, huge].concat())),
        (outside, patched(&plain, &placed, &[(-64i64).to_le_bytes(), length].concat())),
        ("rows from here cannot be read", patched(&plain, &offsets, &beyond)),
        ("its footer is cut off", at(of_file.clone(), trailer, &i32::MAX.to_le_bytes())),
        ("Invalid footer length", at(of_file, trailer, &(-1i32).to_le_bytes())),
    ];
    for compression in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let content = repetitive(Some(compression));
        let length = 3961i64.to_le_bytes();
        cases.push(("compressed bytes cannot have", patched(&content, &length, &huge)));
        cases.push(("compressed bytes cannot have", patched(&content, &length, &i64::MAX.to_le_bytes())));
    }
    // Columns whose values take no bytes can have any number of values.
    let many = 1usize << 40;
    let items = |kind: DataType| Arc::new(Field::new_list_field(kind, true));
    let offsets = || OffsetBuffer::<i64>::from_lengths([many]);
    let runs: ArrayRef = Arc::new(
        RunArray::<Int64Type>::try_new(&Int64Array::from(vec![many as i64]), &StringArray::from(vec!["a"]))
            .unwrap(),
    );
    let nulls: ArrayRef = Arc::new(NullArray::new(many));
    for column in [nulls, runs] {
        let list = LargeListArray::new(items(column.data_type().clone()), offsets(), column, None);
        let keys: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let batch = batch(vec![("k", keys), ("v", Arc::new(list))]);
        cases.push(("a value is longer than 4194304 bytes", stream(&[batch], written(None))));
    }
    cases
}

/// Returns the peak virtual memory of this process, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

const CHILD: &str = "SPIREA_TEST_CHILD_ARROW";

/// Not a test: reads hostile inputs in a process of its own, which the test below starts.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let before = peak_mib();
    for (cause, content) in hostile() {
        assert!(content.len() < 8 << 10, "{cause}: {} bytes", content.len());
        let selection = match cause.starts_with("a value") {
            true => columns(Some("k"), &["v"]),
            false => columns(Some("k"), &[]),
        };
        let error = read("a.arrow", &content, &selection).expect_err(cause);
        assert!(error.starts_with("a.arrow: ") && error.contains(cause), "{cause}: {error}");
    }
    let grown = peak_mib() - before;
    assert!(grown < 256, "{grown} MiB were allocated");
}

#[test]
fn lengths_that_a_file_claims_are_checked_before_they_are_allocated() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ipc::child", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn rows_without_bytes_are_read_some_at_a_time() {
    let many = 1usize << 40;
    let nulls: ArrayRef = Arc::new(NullArray::new(many));
    let runs: ArrayRef = Arc::new(
        RunArray::<Int64Type>::try_new(&Int64Array::from(vec![many as i64]), &StringArray::from(vec!["a"]))
            .unwrap(),
    );
    let content = stream(&[batch(vec![("k", runs), ("v", nulls)])], written(None));
    assert_eq!(check::check(&content).unwrap(), vec![b"a".to_vec(); check::MOST_ROWS]);
}

#[test]
fn encodings_within_values_are_decoded_across_slices() {
    // Both columns have 200 lists of three items. The items of `w` are in a dictionary, and those
    // of `r` in runs of two.
    let items = 600;
    let words: DictionaryArray<Int8Type> = (0..items).map(|i| ["x", "y", "z"][i % 3]).collect();
    let ends = Int32Array::from_iter_values((0..items as i32 / 2).map(|run| 2 * run + 2));
    let values = Int64Array::from_iter_values(0..items as i64 / 2);
    let runs = RunArray::<Int32Type>::try_new(&ends, &values).unwrap();
    let lists = |items: ArrayRef| -> ArrayRef {
        let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([3; 200]), items, None))
    };
    let columns_of = batch(vec![("w", lists(Arc::new(words))), ("r", lists(Arc::new(runs)))]);
    let rows = read("a.arrow", &file(&[columns_of], written(None)), &columns(None, &["w", "r"])).unwrap();
    let run = |item: usize| item / 2;
    for (i, row) in rows.iter().enumerate() {
        let runs = [3 * i, 3 * i + 1, 3 * i + 2].map(run);
        assert_eq!(*row, format!("[\"x\",\"y\",\"z\"]=[{},{},{}]", runs[0], runs[1], runs[2]));
    }
    assert_eq!(rows.len(), 200);
}

#[test]
fn lists_of_no_numbers_are_empty_values() {
    let numbers = Arc::new(Field::new_list_field(DataType::Int32, true));
    let empty: ArrayRef = Arc::new(Int32Array::from(Vec::<i32>::new()));
    let lists = FixedSizeListArray::try_new_with_length(numbers, 0, empty, None, 3).unwrap();
    let content = file(&[batch(vec![("v", Arc::new(lists))])], written(None));
    assert_eq!(read("a.arrow", &content, &columns(None, &["v"])).unwrap(), ["", "", ""]);
}
