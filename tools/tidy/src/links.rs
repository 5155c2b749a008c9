//! Links and paths in the documents that lead nowhere.

use crate::tree::File;

/// Folders whose paths in backticks must exist.
const FOLDERS: &[&str] = &["crates/", "java/", "docs/", "examples/", "tools/", "python/", ".ci/"];

/// Markdown links to files that are not there, and paths in backticks likewise; not in fenced code.
///
/// `exists` says whether a path, from the root, is there.
pub fn links(files: &[File], exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is("md")) {
        let mut is_code = false;
        for (line, number) in file.text.lines().zip(1..) {
            is_code ^= line.trim_start().starts_with("```");
            if is_code {
                continue;
            }
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let linked =
                targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
            let linked = linked.map(|target| resolved(&file.path, target));
            let plain = |path: &&str| {
                path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b))
            };
            let named = line.split('`').skip(1).step_by(2).filter(plain);
            let named = named.filter(|path| FOLDERS.iter().any(|folder| path.starts_with(folder)));
            for path in linked.chain(named.map(str::to_owned)).filter(|path| !exists(path)) {
                breaches.push(format!("{}:{number}: there is no '{path}'", file.path));
            }
        }
    }
    breaches
}

/// The path that `target` means in the file `from`, without its heading.
fn resolved(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('#').next().unwrap_or_default().split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}
