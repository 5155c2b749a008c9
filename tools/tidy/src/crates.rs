//! Who may use whom, and who may write `unsafe`.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::File;

/// A crate of the workspace.
pub struct Package {
    /// Its name.
    pub name: String,
    /// Root files of its libraries and binaries, from the repository's root.
    pub roots: Vec<String>,
    /// Crates of the workspace that it uses, not counting its tests and benches.
    pub uses: BTreeSet<String>,
}

/// What the tier table says of a crate; no tier for crates that are tests only.
struct Row {
    tier: Option<u32>,
    uses: BTreeSet<String>,
}

/// Folders and files that may hold `unsafe`.
const UNSAFE: &[&str] = &[
    "crates/vector/src/kernels/",
    "crates/quantize/src/rabitq/kernels/",
    "crates/quantize/src/rabitq/extended/kernels/",
    "crates/quantize/src/scalar8/kernels/",
    "crates/index/src/append.rs",
    "crates/index/src/heap.rs",
    "crates/index/src/slab.rs",
    "crates/index/src/slab/region.rs",
    "crates/index/src/slab/tests.rs",
    "crates/index/src/slice.rs",
    "crates/store/src/ring.rs",
    "java/native/rust/src/",
];

/// Compares the tier table of ARCHITECTURE.md with what cargo says.
///
/// 1. The table has a row for each crate, and the row names the crates that it uses, all of them.
/// 2. A crate uses only crates of lower tiers. Nobody uses a crate that is tests only.
/// 3. Below tier 5 nobody uses `vstream-route`: so it and the engine do not meet there.
pub fn tiers(architecture: &str, packages: &[Package]) -> Vec<String> {
    let table: BTreeMap<String, Row> = architecture.lines().filter_map(row).collect();
    let mut breaches = Vec::new();
    for name in table.keys().filter(|name| packages.iter().all(|package| package.name != **name)) {
        breaches.push(format!("ARCHITECTURE.md: the tier table names {name}, which is no crate"));
    }
    for Package { name, uses, .. } in packages {
        let Some(row) = table.get(name) else {
            breaches.push(format!("ARCHITECTURE.md: the tier table has no row for {name}"));
            continue;
        };
        if row.uses != *uses {
            breaches.push(format!("{name}: the tier table says {:?}, cargo {uses:?}", row.uses));
        }
        let Some(tier) = row.tier else { continue };
        for used in uses {
            let below = table.get(used).and_then(|row| row.tier).is_some_and(|t| t < tier);
            if !below || (tier < 5 && used == "vstream-route") {
                breaches.push(format!("{name}: of tier {tier}, must not use {used}"));
            }
        }
    }
    breaches
}

/// A row such as "| T1 | `name` | … | `used`, `used` |"; the first cell of others is "tests".
fn row(line: &str) -> Option<(String, Row)> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let tier = cells[0].strip_prefix('T').and_then(|tier| tier.parse().ok());
    if cells.len() < 3 || (tier.is_none() && cells[0] != "tests") {
        return None;
    }
    let uses = cells[cells.len() - 1].split('`').skip(1).step_by(2).map(str::to_owned).collect();
    Some((cells[1].trim_matches('`').to_owned(), Row { tier, uses }))
}

/// `unsafe` where it does not belong, and crates that do not forbid it, or deny it if they have
/// a place for it.
pub fn unsafe_code(files: &[File], packages: &[Package]) -> Vec<String> {
    let mut breaches = Vec::new();
    for root in packages.iter().flat_map(|package| &package.roots) {
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        let has_place = UNSAFE.iter().any(|place| place.starts_with(folder));
        let is_place = UNSAFE.iter().any(|place| root.starts_with(place));
        let wanted = if has_place { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
        let text = files.iter().find(|file| file.path == *root).map_or("", |file| &file.text);
        if !is_place && !text.contains(wanted) {
            breaches.push(format!("{root}: must begin with {wanted}"));
        }
    }
    let allowed = |file: &&File| UNSAFE.iter().any(|place| file.path.starts_with(place));
    for file in files.iter().filter(|file| file.is("rs") && !allowed(file)) {
        for (line, number) in file.text.lines().zip(1..) {
            let code = line.split("//").next().unwrap_or_default();
            let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.any(|word| word == "unsafe") && !code.contains('"') {
                breaches.push(format!("{}:{number}: unsafe does not belong here", file.path));
            }
        }
    }
    breaches
}
