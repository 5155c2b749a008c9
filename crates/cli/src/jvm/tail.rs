//! The error output of the job: all of it into a log file, its end kept for the message.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Mutex, PoisonError};

/// Lines kept for [`Tail::useful`].
const KEPT_LINES: usize = 400;

/// Lines that a message repeats.
const SHOWN_LINES: usize = 8;

/// The last lines of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: VecDeque<String>,
}

impl Tail {
    /// Copies `from` to `log` until it ends, and keeps its last lines in `tail`.
    pub(super) fn follow(from: impl Read, log: &mut File, tail: &Mutex<Tail>) {
        let mut reader = BufReader::new(from);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            // A full disk must not stop the job: the tail is kept all the same.
            let _ = log.write_all(&line);
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            tail.lock().unwrap_or_else(PoisonError::into_inner).push(text);
            line.clear();
        }
    }

    /// The lines that tell most: causes if there are any, without stack frames, else the last ones.
    pub(super) fn useful(&self) -> Vec<String> {
        let said: Vec<&str> = self.lines.iter().map(String::as_str).filter(|l| tells(l)).collect();
        let causes: Vec<&str> = said.iter().copied().filter(|line| is_cause(line)).collect();
        let lines = if causes.is_empty() { said } else { causes };
        lines[lines.len().saturating_sub(SHOWN_LINES)..].iter().map(|&l| l.to_owned()).collect()
    }

    /// Takes in one line.
    pub(super) fn push(&mut self, line: String) {
        if self.lines.len() == KEPT_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

/// False for stack frames and blank lines.
fn tells(line: &str) -> bool {
    let text = line.trim_start();
    let is_frame = text.starts_with("at ") || text.starts_with("... ");
    !text.is_empty() && !is_frame
}

/// True for lines that name an exception or an error.
fn is_cause(line: &str) -> bool {
    ["Exception", "Error", "ERROR", "Caused by"].iter().any(|mark| line.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(text: &str) -> Tail {
        let mut log = tempfile::tempfile().expect("a file");
        let tail = Mutex::default();
        Tail::follow(text.as_bytes(), &mut log, &tail);
        tail.into_inner().expect("not poisoned")
    }

    #[test]
    fn causes_are_preferred_to_frames_and_chatter() {
        let tail = tail_of(
            "INFO starting\njava.io.IOException: disk full\n\tat a.B.c(B.java:1)\n\
             Caused by: java.lang.Error: x\n\t... 12 more\nINFO bye\n",
        );
        assert_eq!(
            tail.useful(),
            ["java.io.IOException: disk full", "Caused by: java.lang.Error: x"]
        );
    }

    #[test]
    fn without_causes_the_last_lines_are_shown() {
        let text: String = (0..1000).map(|i| format!("line {i}\n")).collect();
        let tail = tail_of(&text);
        assert_eq!(tail.lines.len(), KEPT_LINES);
        assert_eq!(tail.useful().first().expect("a line"), "line 992");
        assert_eq!(tail.useful().last().expect("a line"), "line 999");
        assert!(tail_of("").useful().is_empty());
    }
}
