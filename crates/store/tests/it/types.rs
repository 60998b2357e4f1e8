//! The text form of each type, from Arrow, from Parquet and from batches in memory.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, MapBuilder, StringBuilder};
use arrow_array::types::{Float64Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    DurationMillisecondArray, FixedSizeBinaryArray, FixedSizeListArray, Float32Array, Float64Array,
    Int8Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, NullArray, RecordBatch,
    RecordBatchIterator, RunArray, StringArray, StructArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow_ipc::writer::FileWriter;
use arrow_schema::extension::{EXTENSION_TYPE_NAME_KEY, Uuid};
use arrow_schema::{DataType, Field, Fields, Schema};
use parquet::arrow::ArrowWriter;
use spirea_specimens::snapshots::columns;
use spirea_store::StoreError;
use spirea_store::ingest::arrow::BatchRows;
use spirea_store::ingest::{self, Format, Nulls, Row, RowSource, Selection};

/// Returns the texts of a column, without skipped rows.
fn texts(mut source: Box<dyn RowSource + '_>) -> Result<Vec<String>, StoreError> {
    let (mut texts, mut row) = (Vec::new(), Row::default());
    let types = source.types();
    while source.next(&mut row)? {
        // Every text matches the type that a table gives its clients.
        let fields: Vec<&[u8]> = row.fields().collect();
        assert_eq!(types.len(), fields.len());
        assert!(types.iter().zip(&fields).all(|(kind, field)| kind.admits(field)), "{types:?} {fields:?}");
        texts.push(String::from_utf8(row.value()).unwrap());
    }
    Ok(texts)
}

fn batch(field: &Field, column: &ArrayRef) -> RecordBatch {
    RecordBatch::try_new(Arc::new(Schema::new(vec![field.clone()])), vec![Arc::clone(column)]).unwrap()
}

fn from_memory(field: &Field, column: &ArrayRef, selection: &Selection) -> Result<Vec<String>, StoreError> {
    let batch = batch(field, column);
    let reader = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
    texts(Box::new(BatchRows::new(reader, Path::new("frame"), selection, 0)?))
}

fn from_parquet(field: &Field, column: &ArrayRef, selection: &Selection) -> Result<Vec<String>, StoreError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let batch = batch(field, column);
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    texts(ingest::open(&path, Format::Parquet, selection)?)
}

fn from_arrow(field: &Field, column: &ArrayRef, selection: &Selection) -> Result<Vec<String>, StoreError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.arrow");
    let batch = batch(field, column);
    let mut writer = FileWriter::try_new(File::create(&path).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    texts(ingest::open(&path, Format::Arrow, selection)?)
}

fn of(column: impl Array + 'static) -> (Field, ArrayRef) {
    (Field::new("v", column.data_type().clone(), true), Arc::new(column))
}

fn uuids() -> (Field, ArrayRef) {
    let bytes = [*b"\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10", [0xff; 16]];
    let (field, column) = of(FixedSizeBinaryArray::try_from_iter(bytes.iter()).unwrap());
    (field.with_extension_type(Uuid), column)
}

fn nested() -> (Field, ArrayRef) {
    let tags = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    let members: Vec<(Field, ArrayRef)> = vec![
        (Field::new("a \"b\"", DataType::Utf8, true), Arc::new(StringArray::from(vec![Some("x\ny"), None]))),
        (Field::new("tags", tags.data_type().clone(), true), Arc::new(tags)),
        (Field::new("x", DataType::Float64, true), Arc::new(Float64Array::from(vec![2.0, f64::NAN]))),
        (Field::new("day", DataType::Date32, true), Arc::new(Date32Array::from(vec![0, -1]))),
        (Field::new("none", DataType::Null, true), Arc::new(NullArray::new(2))),
    ];
    let (fields, columns): (Vec<_>, Vec<_>) = members.into_iter().unzip();
    of(StructArray::new(Fields::from(fields), columns, None))
}

fn map() -> (Field, ArrayRef) {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    builder.keys().append_value("k\"");
    builder.values().append_value(7);
    builder.append(true).unwrap();
    builder.append(true).unwrap();
    of(builder.finish())
}

/// Values of each type with their texts, which clients in all languages write (docs/tables.md).
fn typed() -> Vec<((Field, ArrayRef), [&'static str; 2])> {
    let decimals =
        |numbers, scale| of(Decimal128Array::from(numbers).with_precision_and_scale(10, scale).unwrap());
    let micros = || TimestampMicrosecondArray::from(vec![1_714_566_896_500_000, -1]);
    let dictionary: DictionaryArray<Int32Type> = ["red", "green"].into_iter().collect();
    vec![
        (of(StringArray::from(vec!["caf\u{e9}", ""])), ["caf\u{e9}", ""]),
        (of(dictionary), ["red", "green"]),
        (of(BooleanArray::from(vec![true, false])), ["true", "false"]),
        (of(Int8Array::from(vec![-128, 7])), ["-128", "7"]),
        (of(UInt64Array::from(vec![u64::MAX, 0])), ["18446744073709551615", "0"]),
        (of(Float64Array::from(vec![5.0, 0.1])), ["5", "0.1"]),
        (of(Float64Array::from(vec![1e21, -1e-7])), ["1e+21", "-1e-7"]),
        (of(Float32Array::from(vec![0.1, 16_777_216.0])), ["0.1", "16777216"]),
        (decimals(vec![500, -1250], 2), ["5", "-12.5"]),
        (decimals(vec![500, 0], 0), ["500", "0"]),
        (of(Date32Array::from(vec![19_844, -719_162])), ["2024-05-01", "0001-01-01"]),
        (of(Time64MicrosecondArray::from(vec![45_296_500_000, 0])), ["12:34:56.5", "00:00:00"]),
        (of(micros()), ["2024-05-01T12:34:56.5", "1969-12-31T23:59:59.999999"]),
        (of(micros().with_timezone("UTC")), ["2024-05-01T12:34:56.5Z", "1969-12-31T23:59:59.999999Z"]),
        (
            of(micros().with_timezone("Europe/Berlin")),
            ["2024-05-01T12:34:56.5Z", "1969-12-31T23:59:59.999999Z"],
        ),
        (
            of(TimestampNanosecondArray::from(vec![1, 0])),
            ["1970-01-01T00:00:00.000000001", "1970-01-01T00:00:00"],
        ),
        (uuids(), ["01234567-89ab-cdef-fedc-ba9876543210", "ffffffff-ffff-ffff-ffff-ffffffffffff"]),
        (
            of(ListArray::from_iter_primitive::<Float64Type, _, _>([
                Some(vec![Some(1.0), None]),
                Some(vec![]),
            ])),
            ["[1,null]", "[]"],
        ),
        (
            nested(),
            [
                r#"{"a \"b\"":"x\ny","tags":[1,null],"x":2,"day":"1970-01-01","none":null}"#,
                r#"{"a \"b\"":null,"tags":null,"x":null,"day":"1969-12-31","none":null}"#,
            ],
        ),
        (map(), [r#"{"k\"":7}"#, "{}"]),
    ]
}

#[test]
fn each_type_has_one_text_from_memory_and_from_files() {
    let selection = columns(None, &["v"]);
    for ((field, column), expected) in typed() {
        let kind = field.data_type();
        assert_eq!(from_memory(&field, &column, &selection).unwrap(), expected, "{kind}");
        assert_eq!(from_arrow(&field, &column, &selection).unwrap(), expected, "Arrow {kind}");
        assert_eq!(from_parquet(&field, &column, &selection).unwrap(), expected, "Parquet {kind}");
    }
    // Parquet has no durations; they are written as integers.
    let (field, column) = of(DurationMillisecondArray::from(vec![-3_500, 0]));
    assert_eq!(from_memory(&field, &column, &selection).unwrap(), ["-PT3.5S", "P0D"]);
    assert_eq!(from_arrow(&field, &column, &selection).unwrap(), ["-PT3.5S", "P0D"]);
}

#[test]
fn lists_that_look_alike_have_different_texts() {
    let list = |items: Vec<&str>| {
        let mut builder = arrow_array::builder::ListBuilder::new(StringBuilder::new());
        builder.append_value(items.into_iter().map(Some));
        let (field, column) = of(builder.finish());
        from_parquet(&field, &column, &columns(None, &["v"])).unwrap().remove(0)
    };
    assert_eq!(list(vec!["a, b"]), r#"["a, b"]"#);
    assert_eq!(list(vec!["a", "b"]), r#"["a","b"]"#);
}

#[test]
fn nulls_of_any_encoding_are_nulls() {
    let holed: DictionaryArray<Int32Type> = DictionaryArray::new(
        Int32Array::from(vec![0, 1]),
        Arc::new(StringArray::from(vec![Some("a"), None])),
    );
    let runs = RunArray::<Int32Type>::try_new(
        &Int32Array::from(vec![1, 2]),
        &StringArray::from(vec![Some("a"), None]),
    )
    .unwrap();
    let nulls = NullArray::new(2);
    for (what, (field, column), texts) in
        [("dictionary", of(holed), vec!["a"]), ("runs", of(runs), vec!["a"]), ("nulls", of(nulls), vec![])]
    {
        let read = |nulls, key: Option<&str>| {
            from_memory(&field, &column, &Selection { nulls, ..columns(key, &["v"]) })
        };
        let refused = read(Nulls::Refuse, None).unwrap_err().to_string();
        assert!(refused.contains("column \"v\" is null"), "{what}: {refused}");
        assert_eq!(read(Nulls::Skip, None).unwrap(), texts, "{what}");
        assert_eq!(read(Nulls::Skip, Some("v")).unwrap(), texts, "{what}");
        assert_eq!(read(Nulls::Empty, None).unwrap().len(), 2, "{what}");
        assert!(read(Nulls::Empty, Some("v")).is_err(), "{what}: a null is a key");
    }
    let (field, column) = of(NullArray::new(2));
    assert!(
        from_parquet(&field, &column, &columns(None, &["v"])).unwrap_err().to_string().contains("is null")
    );
}

#[test]
fn encodings_within_encodings_and_parts_of_them_are_decoded() {
    let words: DictionaryArray<Int32Type> = ["red", "green", "red"].into_iter().collect();
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 5, 6]), &words).unwrap();
    let keys = arrow_array::UInt8Array::from(vec![5, 0, 4]);
    let selection = columns(None, &["v"]);
    for (what, (field, column), expected) in [
        ("runs of words", of(runs.clone()), vec!["red", "red", "green", "green", "green", "red"]),
        ("a part of runs", of(runs.slice(1, 3)), vec!["red", "green", "green"]),
        ("words of runs", of(DictionaryArray::new(keys, Arc::new(runs))), vec!["red", "red", "green"]),
        ("a part of words", of(words.slice(1, 2)), vec!["green", "red"]),
    ] {
        assert_eq!(from_memory(&field, &column, &selection).unwrap(), expected, "{what}");
    }
}

#[test]
fn lists_of_encoded_numbers_are_their_bytes() {
    let numbers = Int32Array::from(vec![0x6261_6463, 0x6665_6867]);
    let numbers = DictionaryArray::new(Int32Array::from(vec![0, 1, 1, 0, 1, 0]), Arc::new(numbers));
    let item = Arc::new(Field::new("item", numbers.data_type().clone(), true));
    let holes = Some(vec![true, false, true].into());
    let lists = FixedSizeListArray::new(item, 2, Arc::new(numbers), holes);
    let selection = Selection { nulls: Nulls::Skip, ..columns(None, &["v"]) };
    let (field, column) = of(lists.slice(1, 2));
    assert_eq!(from_memory(&field, &column, &selection).unwrap(), ["ghefcdab"]);
    let (field, column) = of(lists);
    assert_eq!(from_memory(&field, &column, &selection).unwrap(), ["cdabghef", "ghefcdab"]);
}

#[test]
fn types_without_one_text_are_refused_from_files_too() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])]);
    let (period, numbers) = of(Int64Array::from(vec![652]));
    let period = period.with_metadata([(EXTENSION_TYPE_NAME_KEY, "pandas.period")]);
    let bytes = StructArray::from(vec![(
        Arc::new(Field::new("b", DataType::Binary, true)),
        Arc::new(BinaryArray::from(vec![&b"\xff"[..]])) as ArrayRef,
    )]);
    for ((field, column), key, cause) in [
        (of(Float64Array::from(vec![5.0])), Some("v"), "drop rows without a key"),
        (of(lists), Some("v"), "make them text, bytes or integers"),
        (nested(), Some("v"), "make them text, bytes or integers"),
        ((period.clone(), numbers.clone()), Some("v"), "astype(str)"),
        ((period, numbers), None, "astype(str)"),
        (of(bytes), None, "which JSON cannot carry"),
    ] {
        let selection = columns(key, &["v"]);
        for from in [from_memory, from_arrow, from_parquet] {
            let error = from(&field, &column, &selection);
            let error = error.expect_err(cause).to_string();
            assert!(error.contains("in column \"v\"") && error.contains(cause), "{error}");
        }
    }
    let (field, column) = of(IntervalMonthDayNanoArray::from(vec![None]));
    let error = from_memory(&field, &column, &columns(None, &["v"])).unwrap_err().to_string();
    assert!(error.contains("no text is agreed"), "{error}");
    // The date is beyond the calendar, so it has no text.
    let (field, column) = of(TimestampSecondArray::from(vec![i64::MAX]));
    let error = from_memory(&field, &column, &columns(None, &["v"])).unwrap_err().to_string();
    assert!(error.contains("beyond the calendar"), "{error}");
}

#[test]
fn types_nested_beyond_reason_are_refused() {
    let mut column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    for _ in 0..40 {
        let field = Arc::new(Field::new("x", column.data_type().clone(), true));
        column = Arc::new(StructArray::from(vec![(field, column)]));
    }
    let field = Field::new("v", column.data_type().clone(), true);
    let error = from_memory(&field, &column, &columns(None, &["v"])).unwrap_err().to_string();
    assert!(error.contains("nested more than 32 deep"), "{error}");
}
