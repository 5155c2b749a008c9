//! Import cycles between the packages of the Flink connector.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph;
use crate::tree::File;

/// Folder of the connector's root package, which counts as one package like those below it.
const FOLDER: &str = "java/flink/src/main/java/io/vstream/flink/";
const PACKAGE: &str = "io.vstream.flink.";
const ROOT: &str = "io.vstream.flink";

/// Cycles of packages that use each other, with the files that make each of their edges.
///
/// A file uses a package if its code names a class of it: in an import or in full. Comments do not
/// count.
pub fn package_cycles(files: &[File]) -> Vec<String> {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut makers: BTreeMap<(String, String), &str> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is("java")) {
        let Some(path) = file.path.strip_prefix(FOLDER) else { continue };
        let from = path.split_once('/').map_or(ROOT, |(package, _)| package);
        for to in code_lines(&file.text).flat_map(used).filter(|to| to != from) {
            makers.entry((from.to_owned(), to.clone())).or_insert(path);
            edges.entry(from.to_owned()).or_default().insert(to);
        }
    }
    graph::cycles(&edges).iter().map(|members| sentence(members, &makers)).collect()
}

/// Lines that are neither comments nor the package's own declaration.
fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    let is_comment = |line: &str| line.starts_with('*') || line.starts_with('/');
    let lines = text.lines().map(str::trim);
    lines.filter(move |line| !is_comment(line) && !line.starts_with("package "))
}

/// The packages of ours that a line names.
fn used(line: &str) -> Vec<String> {
    let names = line.split(PACKAGE).skip(1);
    let package = |rest: &str| {
        let word =
            rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        if word.starts_with(char::is_uppercase) {
            ROOT.to_owned()
        } else {
            word.to_owned()
        }
    };
    names.map(package).collect()
}

fn sentence(members: &[String], makers: &BTreeMap<(String, String), &str>) -> String {
    let is_inside = |(from, to): &&(String, String)| members.contains(from) && members.contains(to);
    let edges = makers.keys().filter(is_inside);
    let edges: Vec<String> =
        edges.map(|edge| format!("{} -> {} ({})", edge.0, edge.1, makers[edge])).collect();
    format!("{FOLDER}: {} use each other: {}", members.join(", "), edges.join("; "))
}
