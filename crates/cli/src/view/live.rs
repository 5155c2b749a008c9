//! A picture that is redrawn in place. It stays on the screen when the job is over.

use std::io::{self, Write};

use super::frame::frame;
use super::meter::Meter;
use super::terminal::{self, Glyphs};
use crate::text;

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// The picture on the terminal behind the error output.
pub(super) struct Live {
    glyphs: Glyphs,
    drawn_lines: usize,
}

impl Live {
    pub(super) fn start(glyphs: Glyphs) -> Live {
        text::note(HIDE_CURSOR);
        Live { glyphs, drawn_lines: 0 }
    }

    pub(super) fn draw(&mut self, meter: &Meter, footer: &str) {
        let (width, height) = terminal::size();
        let mut lines = frame(meter, footer, width, self.glyphs);
        // A picture higher than the terminal would scroll and could not be drawn over.
        lines.truncate(height.saturating_sub(1));
        let mut out = String::new();
        if self.drawn_lines > 0 {
            out.push_str(&format!("\x1b[{}A", self.drawn_lines));
        }
        for line in &lines {
            out.push_str("\r\x1b[2K");
            out.push_str(&line.render(width, self.glyphs));
            out.push('\n');
        }
        // What an earlier, higher picture left below.
        out.push_str("\x1b[J");
        self.drawn_lines = lines.len();
        let mut stderr = io::stderr().lock();
        let _ = stderr.write_all(out.as_bytes()).and_then(|()| stderr.flush());
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        text::note(SHOW_CURSOR);
    }
}
