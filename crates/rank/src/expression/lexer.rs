//! Cuts an expression into lexemes.

use crate::error::QueryError;

/// The signs, longer ones before their beginnings.
const SIGNS: [&str; 18] = [
    "&&", "||", "<=", ">=", "==", "!=", "<", ">", "!", "+", "-", "*", "/", "%", "^", "(", ")", ",",
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lexeme<'a> {
    Number(f64),
    Name(&'a str),
    Parameter(&'a str),
    Quoted(&'a str),
    Sign(&'static str),
    End,
}

/// Reads lexemes from the front of a text.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    /// The next lexeme, and where it begins. Errors: `Syntax` if there is none.
    pub fn next(&mut self) -> Result<(usize, Lexeme<'a>), QueryError> {
        let rest = &self.text[self.at..];
        let rest = rest.trim_start();
        let at = self.text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            self.at = at;
            return Ok((at, Lexeme::End));
        };
        let (bytes, lexeme) = match first {
            '0'..='9' | '.' => number(rest, at)?,
            '$' => {
                let name = name(&rest[1..]);
                if name.is_empty() {
                    return Err(QueryError::syntax(at, "A name must follow '$'."));
                }
                (1 + name.len(), Lexeme::Parameter(name))
            }
            '\'' | '"' => {
                let Some(length) = rest[1..].find(first) else {
                    return Err(QueryError::syntax(at, format!("This {first} is not closed.")));
                };
                (length + 2, Lexeme::Quoted(&rest[1..=length]))
            }
            _ if first.is_alphabetic() || first == '_' => {
                let name = name(rest);
                (name.len(), Lexeme::Name(name))
            }
            _ => {
                let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) else {
                    let what = match first {
                        '=' => "Write '==' to compare.".to_owned(),
                        _ => format!("'{}' has no meaning here.", first.escape_debug()),
                    };
                    return Err(QueryError::syntax(at, what));
                };
                (sign.len(), Lexeme::Sign(sign))
            }
        };
        self.at = at + bytes;
        Ok((at, lexeme))
    }
}

/// The characters of a name at the front of a text; there may be none.
fn name(text: &str) -> &str {
    let ends = |c: char| !(c.is_alphanumeric() || c == '_' || c == '.');
    &text[..text.find(ends).unwrap_or(text.len())]
}

/// A number at the front of a text, and its length in bytes.
fn number(text: &str, at: usize) -> Result<(usize, Lexeme<'static>), QueryError> {
    let bytes = text.as_bytes();
    let digits =
        |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(signed.min(bytes.len()));
        if exponent > signed {
            end = exponent;
        }
    }
    match text[..end].parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((end, Lexeme::Number(number))),
        _ => Err(QueryError::syntax(at, format!("'{}' is no number.", &text[..end]))),
    }
}
