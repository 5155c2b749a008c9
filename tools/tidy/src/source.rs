//! Sizes and open ends of sources. The scanners rely on the formatters: a block ends at the first
//! line that begins with `}` and is indented no deeper than the line that began it.

use crate::tree::File;

/// Lines of a production file at most.
const FILE_LINES_MAX: usize = 600;
/// Lines from which a file is worth a note.
const FILE_LINES_NOTED: usize = 500;
/// Lines of a function at most, from its name to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Production files that are too long, and a note on those that soon will be.
pub fn file_lengths(files: &[File]) -> (Vec<String>, Vec<String>) {
    let measured = files.iter().filter(|file| file.is_source() && !file.is_test());
    let measured = measured.map(|file| (file.text.lines().count(), &file.path));
    let noted = measured.filter(|(lines, _)| *lines > FILE_LINES_NOTED);
    let (long, noted): (Vec<_>, Vec<_>) = noted.partition(|(lines, _)| *lines > FILE_LINES_MAX);
    let sentence = |(lines, path)| format!("{path}: {lines} lines; at most {FILE_LINES_MAX}");
    (long.into_iter().map(sentence).collect(), noted.into_iter().map(sentence).collect())
}

/// Functions of production files that are too long.
pub fn function_lengths(files: &[File]) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| !file.is_test()) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let begins = (file.is("rs") && begins_in_rust(line))
                || (file.is("java") && begins_in_java(line));
            if !begins || !has_body(&lines[at..]) {
                continue;
            }
            let closes = |end: &&str| end.trim().starts_with('}') && depth(end) <= depth(line);
            let length = lines[at..].iter().position(closes).map_or(lines.len() - at, |i| i + 1);
            if length > FUNCTION_LINES_MAX {
                breaches.push(format!("{}:{}: {length} lines of function", file.path, at + 1));
            }
        }
    }
    breaches
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Only keywords may stand before `fn`; in a comment or a text there is something else.
fn begins_in_rust(line: &str) -> bool {
    let keyword = |word: &str| {
        word.starts_with("pub") || ["const", "unsafe", "extern", "\"system\""].contains(&word)
    };
    let line = format!(" {}", line.trim_start());
    line.find(" fn ").is_some_and(|at| line[..at].split_whitespace().all(keyword))
}

fn begins_in_java(line: &str) -> bool {
    const OTHERS: &[&str] =
        &["/", "*", "@", "}", "if ", "for ", "while ", "switch ", "try ", "return ", "new "];
    let text = line.trim_start();
    let other = OTHERS.iter().any(|start| text.starts_with(start)) || text.contains(" record ");
    text.contains('(') && [4, 8].contains(&depth(line)) && !other
}

/// True if a block opens before the statement ends; a declaration has none.
fn has_body(lines: &[&str]) -> bool {
    let end = lines.iter().find(|line| line.ends_with(['{', '}', ';']));
    end.is_some_and(|line| line.ends_with('{'))
}

/// `matches!(…);` that nobody asserts: the test that holds it cannot fail.
pub fn bare_matches(files: &[File]) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is("rs")) {
        let lines: Vec<&str> = file.text.lines().collect();
        let opens = |at: usize| lines[at].trim_start().starts_with("matches!(");
        for at in (0..lines.len()).filter(|&at| opens(at)) {
            let before = lines[..at].iter().rev().find(|line| !line.trim().is_empty());
            let is_statement = before.is_none_or(|line| line.ends_with([';', '{', '}']));
            let closes =
                |line: &&&str| depth(line) == depth(lines[at]) && line.ends_with([')', ';']);
            let end = lines[at..].iter().find(closes);
            if is_statement && end.is_some_and(|line| line.ends_with(';')) {
                breaches.push(format!("{}:{}: assert this matches!", file.path, at + 1));
            }
        }
    }
    breaches
}

/// Notes to oneself in sources: an issue is the place for them.
pub fn open_ends(files: &[File]) -> Vec<String> {
    let words = ["TO\u{44}O", "FIX\u{4d}E"];
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.is_source()) {
        for (line, number) in file.text.lines().zip(1..) {
            if words.iter().any(|word| line.contains(word)) {
                breaches.push(format!("{}:{number}: open an issue for {}", file.path, line.trim()));
            }
        }
    }
    breaches
}
