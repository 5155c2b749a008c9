//! What `inspect` says of a directory, what `verify` notices, and the example.

use std::fs;

use vstream_group::{
    inspect_groups, verify_groups, Bound, Error, GroupSettings, GroupStore, RowRef,
};
use vstream_vector::{Element, Metric, SplitMix};

#[path = "../../examples/mailbox.rs"]
mod mailbox;

#[test]
fn the_example_runs() {
    mailbox::main().expect("the example");
}

/// A store of two runs and a log, with codes of both kinds.
fn filled(folder: &std::path::Path) -> GroupSettings {
    let settings = GroupSettings {
        bound: Bound::Deviations(7.0),
        coded_rows: 64,
        ..GroupSettings::new(96, Metric::L2, Element::F16)
    };
    let mut store = GroupStore::open_dir(folder, settings).expect("a store");
    let mut random = SplitMix(91);
    for (turn, group) in ["ann", "bob", "new"].into_iter().enumerate() {
        for id in 0..300 {
            let vector: Vec<f32> = (0..96).map(|_| random.normal()).collect();
            let row = RowRef { id, version: 1, vector: &vector, fields: Default::default() };
            store.upsert(group, &row).expect("a good row");
        }
        store.delete("ann", 1000 + turn as u64, 1).expect("a delete");
        if turn < 2 {
            store.flush().expect("a run");
        }
    }
    store.commit().expect("a commit");
    store.settings().clone()
}

#[test]
fn every_byte_of_a_directory_is_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(inspect_groups(folder.path()), Ok(None));
    assert_eq!(verify_groups(folder.path()), Ok(None));
    let settings = filled(folder.path());
    let found = inspect_groups(folder.path()).expect("readable").expect("a store");
    assert_eq!(found.settings.seed, settings.seed);
    assert!(found.settings.name_hash() == settings.name_hash());
    let counts = |run: &vstream_group::RunInfo| (run.rows, run.tombstones, run.groups);
    assert_eq!(found.runs.iter().map(counts).collect::<Vec<_>>(), [(300, 1, 2), (300, 1, 1)]);
    let whole = verify_groups(folder.path()).expect("readable").expect("a store");
    assert_eq!((whole.rows, whole.files, whole.damage.len()), (900, 4, 0));
    assert_eq!(whole.left_over, None);

    let mut files: Vec<String> = found.runs.iter().map(|run| run.name.clone()).collect();
    files.push(found.log.0.clone());
    for name in files {
        let path = folder.path().join(&name);
        let bytes = fs::read(&path).expect("a file");
        for at in (0..bytes.len()).step_by(bytes.len() / 97) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            fs::write(&path, &changed).expect("writes");
            let found = verify_groups(folder.path()).expect("readable").expect("a store");
            // A torn end of the log is no damage, but its rows are gone.
            let is_noticed = found.damage.len() == 1 || found.left_over.is_some();
            assert!(is_noticed, "byte {at} of {name}: {found:?}");
            assert!(found.damage.iter().all(|what| what.contains(&name)), "{found:?}");
        }
        fs::write(&path, &bytes).expect("writes");
    }

    let open = GroupStore::open_dir(folder.path(), settings).expect("a store");
    let error = verify_groups(folder.path()).expect_err("it is open");
    assert!(
        matches!(error, Error::Store(ref error)
        if error.kind() == vstream_store::ErrorKind::Unavailable),
        "{error}"
    );
    assert!(inspect_groups(folder.path()).expect("readable").is_some());
    drop(open);
}
