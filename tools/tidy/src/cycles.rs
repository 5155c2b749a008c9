//! Import cycles between the modules of a crate, where a folder is part of one.

use std::collections::{BTreeMap, BTreeSet};

use crate::crates::Package;
use crate::graph;
use crate::tree::File;

/// Cycles among the folders and files beside a crate's root file, with the files that make each of
/// their edges. Modules of one folder may use each other.
///
/// A file uses a module if its code names it after `crate::`. Comments and tests do not count.
pub fn module_cycles(files: &[File], packages: &[Package]) -> Vec<String> {
    let libraries = packages.iter().flat_map(|package| &package.roots);
    let libraries = libraries.filter_map(|root| root.strip_suffix("lib.rs"));
    libraries.flat_map(|source| cycles_of(files, source)).collect()
}

/// * `source`: the folder of a crate's root file, with a slash at its end.
fn cycles_of(files: &[File], source: &str) -> Vec<String> {
    let ours: Vec<(&str, &File)> = files
        .iter()
        .filter(|file| file.is("rs") && !file.is_test())
        .filter_map(|file| Some((module(file.path.strip_prefix(source)?), file)))
        .collect();
    let names: BTreeSet<&str> = ours.iter().map(|(module, _)| *module).collect();
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut makers: BTreeMap<(String, String), &str> = BTreeMap::new();
    for (from, file) in ours {
        for to in used(&file.text).filter(|to| *to != from && names.contains(to)) {
            makers.entry((from.to_owned(), to.to_owned())).or_insert(&file.path);
            edges.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
    }
    let is_folder = |module: &String| {
        let folder = format!("{source}{module}/");
        files.iter().any(|file| file.path.starts_with(&folder))
    };
    let cycles = graph::cycles(&edges);
    let cycles = cycles.iter().filter(|members| members.iter().any(is_folder));
    cycles.map(|members| format!("{source}: {}", graph::sentence(members, &makers))).collect()
}

/// The module beside the root file that a path belongs to.
fn module(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(first)
}

/// The modules that a file's code names: the word after `crate::`, or all words of a list there.
fn used(text: &str) -> impl Iterator<Item = &str> {
    let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let code = text[..tests].lines().map(|line| line.split("//").next().unwrap_or_default());
    code.flat_map(|line| line.split("crate::").skip(1)).flat_map(|rest| {
        let (list, is_list) = match rest.strip_prefix('{') {
            Some(list) => (list.split('}').next().unwrap_or(list), true),
            None => (rest, false),
        };
        let words = list.split(',').take(if is_list { usize::MAX } else { 1 });
        words.map(|name| {
            let name = name.trim_start();
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            &name[..end]
        })
    })
}
