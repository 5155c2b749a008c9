//! This repository keeps its rules; in `bites.rs`, each rule on a sample that breaks it.

mod bites;

use vstream_tidy::{self as tidy, files, packages, root};

macro_rules! keeps {
    ($name:ident, $breaches:expr) => {
        #[test]
        fn $name() {
            let breaches: Vec<String> = $breaches;
            assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
        }
    };
}

keeps!(crates_use_only_what_the_tier_table_allows, {
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md"));
    tidy::tiers(&architecture.expect("ARCHITECTURE.md is there"), &packages())
});
keeps!(unsafe_code_stays_in_its_places, tidy::unsafe_code(&files(), &packages()));
keeps!(files_are_short, {
    let (long, noted) = tidy::file_lengths(&files());
    noted.iter().for_each(|note| println!("note: {note}"));
    long
});
keeps!(no_folder_of_a_crate_is_in_a_cycle, tidy::module_cycles(&files(), &packages()));
keeps!(functions_are_short, tidy::function_lengths(&files()));
keeps!(names_say_what_things_are, tidy::names(&files()));
keeps!(every_matches_is_asserted, tidy::bare_matches(&files()));
keeps!(sources_have_no_open_ends, tidy::open_ends(&files()));
keeps!(links_lead_somewhere, tidy::links(&files(), &|path| root().join(path).exists()));
keeps!(the_connector_imports_what_it_may, tidy::imports(&files()));
keeps!(the_connectors_packages_have_no_cycles, tidy::package_cycles(&files()));
keeps!(no_large_file_is_tracked, tidy::blobs(&tidy::tracked_bytes()));
