//! Where in a filter something is wrong.

use std::fmt;

use crate::error::{shown, Refused, RefusedKind};

/// A step into a JSON value, with the steps before it. Costs nothing until it is shown.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    above: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    At(usize),
}

impl<'a> Place<'a> {
    /// The whole filter.
    pub(super) const ROOT: Place<'static> = Place { above: None, step: Step::Root };

    pub(super) fn key(&'a self, key: &'a str) -> Place<'a> {
        Place { above: Some(self), step: Step::Key(key) }
    }

    pub(super) fn at(&'a self, index: usize) -> Place<'a> {
        Place { above: Some(self), step: Step::At(index) }
    }

    /// A refusal of the filter at this place. `sentence` is a full sentence.
    pub(super) fn bad(&self, sentence: impl fmt::Display) -> Refused {
        self.refused(&Refused::new(RefusedKind::BadFilter, sentence.to_string()))
    }

    /// The refusal, with the place before its sentence.
    pub(super) fn refused(&self, refused: &Refused) -> Refused {
        let what = match self.step {
            Step::Root => format!("In the filter: {}", refused.message),
            Step::Key(_) | Step::At(_) => format!("In the filter at '{self}': {}", refused.message),
        };
        Refused::new(refused.kind, what)
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_first = self.above.is_none_or(|above| matches!(above.step, Step::Root));
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Key(key) if is_first => f.write_str(&shown(key)),
            Step::Key(key) => write!(f, ".{}", shown(key)),
            Step::At(index) => write!(f, "[{index}]"),
        }
    }
}
