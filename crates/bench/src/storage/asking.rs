//! How hard a storage measurement looks.

use std::fmt;
use std::str::FromStr;

use vstream_engine::Effort;

/// How hard to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// As hard as the engine decides, which is what users get.
    Auto,
    /// At a point that somebody picked by hand: leaves visited, exact distances.
    Picked(usize, usize),
}

impl Asking {
    pub(super) fn effort(self) -> Effort {
        match self {
            Asking::Auto => Effort::Auto,
            Asking::Picked(probes, refine) => Effort::Chosen { probes, refine: Some(refine) },
        }
    }
}

impl fmt::Display for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asking::Auto => f.write_str("auto"),
            Asking::Picked(probes, refine) => write!(f, "{probes}x{refine}, picked"),
        }
    }
}

impl FromStr for Asking {
    type Err = String;

    fn from_str(text: &str) -> Result<Asking, String> {
        if text == "auto" {
            return Ok(Asking::Auto);
        }
        let number = |text: &str| text.parse().ok().filter(|&n: &usize| n > 0);
        let numbers = text.split_once('x').map(|(a, b)| (number(a), number(b)));
        match numbers {
            Some((Some(probes), Some(refine))) => Ok(Asking::Picked(probes, refine)),
            _ => Err(format!(
                "'{text}' is no effort: give auto, or leaves and exact distances, as in 32x100"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effort_is_auto_or_two_numbers_from_one_on() {
        assert_eq!("auto".parse(), Ok(Asking::Auto));
        assert_eq!("32x100".parse(), Ok(Asking::Picked(32, 100)));
        for wrong in ["", "32", "0x100", "32x0", "32x-1", "autox1"] {
            let error = wrong.parse::<Asking>().expect_err(wrong);
            assert!(error.contains(&format!("'{wrong}' is no effort")), "{error}");
        }
    }
}
