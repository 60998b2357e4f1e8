//! Compressed inputs, recognised by their content.

mod check;

use std::io::Write as _;
use std::path::Path;

use spirea_specimens::snapshots::{columns, options, try_build, write_file};
use spirea_specimens::{Inputs, inputs};
use spirea_store::ingest::{self, Format, FormatHints, Row, Selection};

const TEXT: &str = "k,v\na,1\nb,2\n";

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    zstd::encode_all(content, 3).unwrap()
}

fn xz(content: &[u8]) -> Vec<u8> {
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(6)).unwrap();
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive.add_directory("folder", zip::write::SimpleFileOptions::default()).unwrap();
    for (name, content) in files {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// Returns all keys and values, or the error without the folder; checks the progress at the end.
fn read(path: &Path, name: Option<&str>, selection: &Selection) -> Result<Vec<String>, String> {
    let explain = |error: spirea_store::StoreError| {
        error.to_string().replace(&format!("{}/", path.parent().unwrap().display()), "")
    };
    let format = Format::choose(FormatHints { name, ..FormatHints::default() }, path).map_err(explain)?;
    let mut source = ingest::open(path, format, selection).map_err(explain)?;
    let (mut rows, mut row) = (Vec::new(), Row::default());
    while source.next(&mut row).map_err(explain)? {
        let fields = row.key().into_iter().chain(row.fields());
        rows.push(
            fields.map(|field| String::from_utf8_lossy(field).into_owned()).collect::<Vec<_>>().join("="),
        );
    }
    let (done, total) = source.progress();
    assert!(done <= total && total > 0, "{done} of {total}");
    Ok(rows)
}

#[test]
fn compressed_text_is_told_by_its_content_and_named_by_the_extension_before() {
    let folder = tempfile::tempdir().unwrap();
    let selection = columns(Some("k"), &["v"]);
    let text = TEXT.as_bytes();
    for (name, content) in [
        ("a.csv.gz", gzip(text)),
        ("b.csv", gzip(text)),
        ("c.csv.gz", [gzip(&text[..6]), gzip(&text[6..])].concat()),
        ("d.CSV.zst", zstd(text)),
        ("e.csv.zst", [b"\x50\x2a\x4d\x18\x01\0\0\0x".to_vec(), zstd(&text[..6]), zstd(&text[6..])].concat()),
        ("f.csv.xz", xz(text)),
        ("g.csv.xz", [xz(&text[..6]), xz(&text[6..])].concat()),
        ("h.csv.zip", zip(&[("folder/any", text)])),
        ("i.jsonl.gz", gzip(b"{\"k\":\"a\",\"v\":1}\n{\"k\":\"b\",\"v\":2}\n")),
        ("j.csv.gz", text.to_vec()),
    ] {
        let path = write_file(folder.path(), name, content);
        assert_eq!(read(&path, None, &selection).as_deref(), Ok(&["a=1".into(), "b=2".into()][..]), "{name}");
    }
    // A format that needs random access is decoded into a file.
    let mut array = b"\x93NUMPY\x01\0\x46\0".to_vec();
    array.extend_from_slice(
        format!("{:<69}\n", "{'descr': '|S2', 'fortran_order': False, 'shape': (2,), }").as_bytes(),
    );
    array.extend_from_slice(b"onin");
    let path = write_file(folder.path(), "k.npy.gz", gzip(&array));
    assert_eq!(read(&path, None, &Selection::default()).unwrap(), ["on", "in"]);
    // Values of a fixed width may be any bytes, even compressed data.
    let path = write_file(folder.path(), "l.raw", gzip(text));
    let raw = Format::Raw { record_bytes: 1 };
    let mut source = ingest::open(&path, raw, &Selection::default()).unwrap();
    let mut row = Row::default();
    assert!(source.next(&mut row).unwrap());
    assert_eq!(row.value(), [0x1f]);
}

#[test]
fn damaged_data_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let selection = columns(Some("k"), &["v"]);
    let text: Vec<u8> = (0..3000).flat_map(|i| format!("{},{i}\n", i * 7919 % 3001).into_bytes()).collect();
    let text = [b"k,v\n".to_vec(), text].concat();
    let cut = |content: Vec<u8>| content[..content.len() - 20].to_vec();
    let flip = |mut content: Vec<u8>, at: usize| {
        content[at] ^= 0x40;
        content
    };
    let large = xz(&text);
    for (name, content, part) in [
        ("a.csv.gz", cut(gzip(&text)), "its gzip data is damaged or cut off"),
        ("a.csv.gz", flip(gzip(&text), 400), "its gzip data is damaged or cut off"),
        ("a.csv.zst", cut(zstd(&text)), "its zstd data is damaged or cut off"),
        ("a.csv.xz", cut(large.clone()), "its xz data is damaged or cut off"),
        ("a.csv.zip", cut(zip(&[("a", &text)])), "its zip data cannot be read"),
        ("a.csv.zip", flip(zip(&[("a", &text)]), 600), "its zip data is damaged or cut off"),
        ("a.csv.zip", zip(&[("a.csv", &text), ("b.csv", &text)]), "holds 2: \"a.csv\", \"b.csv\""),
        ("a.csv.zip", zip(&[]), "holds 0"),
    ] {
        let path = write_file(folder.path(), name, content);
        let error = read(&path, None, &selection).unwrap_err();
        assert!(error.starts_with(name) && error.contains(part), "{error}");
    }
    let error = read(Path::new("/a.zip"), None, &selection).unwrap_err();
    assert!(error.contains("its extension names no format"), "{error}");
}

#[test]
fn a_bomb_is_read_as_a_stream_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // A single line of 80 MB, longer than the limit, which is compressed to 80 KB.
    let bomb = gzip(&[b"k,v\n".to_vec(), vec![b'a'; 80 << 20]].concat());
    assert!(bomb.len() < 1 << 20);
    let input = write_file(folder.path(), "data.csv.gz", bomb);
    let mut options = options(&input, Some("k"), &["v"]);
    options.out = folder.path().join("table");
    let error = try_build(&options).unwrap_err().to_string();
    assert!(error.contains("a line longer than 64 MiB"), "{error}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn any_bytes_are_rows_or_an_error_that_names_the_input() {
    let text: String = (0..300).map(|i| format!("key {},{}\n", i * 7919 % 307, i * i)).collect();
    let text = format!("k,v\n{text}");
    let text = text.as_bytes();
    let archives = [
        gzip(text),
        [gzip(&text[..400]), gzip(&text[400..])].concat(),
        zstd(text),
        [b"\x50\x2a\x4d\x18\x01\0\0\0x".to_vec(), zstd(text)].concat(),
        xz(text),
        zip(&[("a.csv", text)]),
    ];
    for archive in &archives {
        assert_eq!(check::check(archive), Ok(300));
    }
    let bomb = [b"k,v\n".to_vec(), b"a,b\n".repeat(1 << 14)].concat();
    for bomb in [gzip(&bomb), zstd(&bomb), xz(&bomb), zip(&[("bomb.csv", &bomb)])] {
        assert_eq!(check::check(&bomb), Ok(check::MOST_ROWS));
    }
    let (mut maker, mut damaged) = (Inputs::new(41), 0);
    let made = inputs(300);
    for _ in 0..made {
        damaged += usize::from(check::check(&maker.changed(&archives)).is_err());
    }
    // Most changes hit checked bytes.
    assert!(damaged > made / 2, "{damaged} of {made}");
}
