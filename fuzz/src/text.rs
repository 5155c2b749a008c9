//! What people and other programs write: settings, addresses, matrix files.

use std::io::Write;

use vstream_settings::{read_matrix_header, CollectionSettings, JobSettings};
use vstream_store::remote::Location;

/// Both forms of both documents. Nothing is opened or created by reading one.
pub(crate) fn settings(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = JobSettings::from_yaml(text);
    let _ = JobSettings::from_json(text);
    let _ = CollectionSettings::from_yaml(text);
    let _ = CollectionSettings::from_json(text);
}

/// The examples of the repository.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the examples")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect();
    paths.sort();
    let mut corpus: Vec<Vec<u8>> =
        paths.iter().map(|path| std::fs::read(path).expect("an example")).collect();
    corpus.push(b"{\"dimension\": 4, \"metric\": \"cosine\"}".to_vec());
    corpus.push(b"a: &a [*a, *a]\nb: !!binary x\n? c\n: d\n".to_vec());
    corpus.push(vec![b'['; 500]);
    corpus
}

/// The header of a matrix file, in each of its kinds.
pub(crate) fn matrix(bytes: &[u8]) {
    let mut file = tempfile::Builder::new()
        .suffix([".fbin", ".u8bin", ".i8bin"][bytes.len() % 3])
        .tempfile()
        .expect("a file");
    file.write_all(bytes).expect("room");
    if let Ok(header) = read_matrix_header(file.path()) {
        let body = header.rows * (header.dimension * header.element.bytes()) as u64;
        assert_eq!(body + 8, bytes.len() as u64, "a header that does not fit was believed");
    }
}

pub(crate) fn matrices() -> Vec<Vec<u8>> {
    let of = |rows: u32, dimension: u32, width: usize| {
        let mut bytes = [rows.to_le_bytes(), dimension.to_le_bytes()].concat();
        bytes.resize(8 + rows as usize * dimension as usize * width, 1);
        bytes
    };
    vec![of(3, 4, 4), of(1, 1, 4), of(5, 7, 1), of(0, 4, 1), of(2, 8, 4)]
}

/// An address, which is read and not opened.
pub(crate) fn address(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(location) = Location::parse(text) {
        let _ = (location.to_string(), location.join("inside").to_string());
    }
}

pub(crate) fn addresses() -> Vec<Vec<u8>> {
    [
        "s3://bucket/folder/inside?endpoint=https://host:9000&region=eu-1",
        "file:///folder/inside",
        "relative/folder",
        "s3://bucket",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect()
}
