//! Characters, widths and emphasis of a terminal.

use std::env;

/// Widths outside of these are taken for a mistake of the terminal.
const WIDTH_MIN: usize = 40;
const WIDTH_MAX: usize = 240;
const SIZE_DEFAULT: (usize, usize) = (80, 24);

/// What bars are drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Glyphs {
    full: char,
    /// Eighths of a full one, ascending; empty where the character set has none.
    parts: &'static [char],
    empty: char,
    colour: bool,
}

impl Glyphs {
    /// Blocks where the locale speaks UTF-8, else ASCII; no emphasis under `NO_COLOR`.
    pub(crate) fn of_environment() -> Glyphs {
        let colour = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
            .unwrap_or_default()
            .to_ascii_lowercase();
        let base = if locale.contains("utf-8") || locale.contains("utf8") {
            Glyphs::BLOCKS
        } else {
            Glyphs::ASCII
        };
        Glyphs { colour, ..base }
    }

    pub(crate) const BLOCKS: Glyphs = Glyphs {
        full: '█',
        parts: &['▏', '▎', '▍', '▌', '▋', '▊', '▉'],
        empty: '░',
        colour: false,
    };

    pub(crate) const ASCII: Glyphs = Glyphs { full: '#', parts: &[], empty: '.', colour: false };

    /// A bar of `width` characters of which `share` (0..=1) is filled; without a ground the rest
    /// stays blank.
    pub(super) fn bar(&self, share: f64, width: usize, ground: bool) -> String {
        let eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
        let mut bar: String = std::iter::repeat_n(self.full, eighths / 8).collect();
        if let Some(part) = (eighths % 8).checked_sub(1).and_then(|at| self.parts.get(at)) {
            bar.push(*part);
        }
        let drawn = bar.chars().count();
        let rest = if ground { self.empty } else { ' ' };
        bar.extend(std::iter::repeat_n(rest, width - drawn));
        bar
    }
}

/// How a piece of text stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emphasis {
    Plain,
    Strong,
    Quiet,
    Bar,
}

/// A line of text in pieces, so that it can be cut without harming what the terminal is told.
#[derive(Clone, Debug, Default)]
pub(super) struct Line(Vec<(Emphasis, String)>);

impl Line {
    pub(super) fn with(mut self, emphasis: Emphasis, text: impl Into<String>) -> Line {
        self.0.push((emphasis, text.into()));
        self
    }

    pub(super) fn plain(self, text: impl Into<String>) -> Line {
        self.with(Emphasis::Plain, text)
    }

    /// The text, at most `width` characters, with the codes of its emphasis.
    pub(super) fn render(&self, width: usize, glyphs: Glyphs) -> String {
        let mut out = String::new();
        let mut left = width;
        for (emphasis, text) in &self.0 {
            let cut: String = text.chars().take(left).collect();
            left -= cut.chars().count();
            let code = match emphasis {
                _ if !glyphs.colour => "",
                Emphasis::Plain => "",
                Emphasis::Strong => "\x1b[1m",
                Emphasis::Quiet => "\x1b[2m",
                Emphasis::Bar => "\x1b[36m",
            };
            out.push_str(code);
            out.push_str(&cut);
            if !code.is_empty() {
                out.push_str("\x1b[0m");
            }
        }
        out
    }
}

/// Characters per line for text on the standard output.
pub(crate) fn width() -> usize {
    size_of(rustix::termios::tcgetwinsize(std::io::stdout())).0
}

/// Columns and rows of the terminal behind the error output.
pub(super) fn size() -> (usize, usize) {
    size_of(rustix::termios::tcgetwinsize(std::io::stderr()))
}

fn size_of(answer: rustix::io::Result<rustix::termios::Winsize>) -> (usize, usize) {
    match answer {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_col).clamp(WIDTH_MIN, WIDTH_MAX), usize::from(size.ws_row))
        }
        _ => SIZE_DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_wide_as_asked() {
        assert_eq!(Glyphs::ASCII.bar(0.5, 4, true), "##..");
        assert_eq!(Glyphs::ASCII.bar(0.99, 2, false), "##");
        assert_eq!(Glyphs::BLOCKS.bar(0.5625, 2, true), "█▏");
        for share in [-1.0, 0.0, 0.3, 1.0, 7.0, f64::NAN] {
            assert_eq!(Glyphs::BLOCKS.bar(share, 10, true).chars().count(), 10, "{share}");
        }
    }

    #[test]
    fn lines_are_cut_by_characters_not_codes() {
        let line = Line::default().with(Emphasis::Strong, "abc").plain("déf");
        let colour = Glyphs { colour: true, ..Glyphs::ASCII };
        assert_eq!(line.render(5, Glyphs::ASCII), "abcdé");
        assert_eq!(line.render(2, colour), "\x1b[1mab\x1b[0m");
    }
}
