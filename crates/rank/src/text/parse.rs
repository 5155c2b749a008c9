//! The query language: `"exact phrase" word pre* title:word -not +must (a group)`.
//!
//! ```text
//! query  item*
//! item   ['+' | '-'] [attribute ':'] ( word | word '*' | '"' words '"' | '(' query ')' )
//! ```
//!
//! `+` must hold, `-` must not. What holds for the others is said by [`PlainTerms`], in every group
//! alike. Signs that are no words are skipped. Quotes keep a colon, a star or a leading sign from
//! its meaning.

use vstream_attribute::Schema;

use super::query::{require_text, TextQuery, TERMS_MAX, TEXT_QUERY_BYTES_MAX};
use super::tokens::tokens;
use crate::error::{QueryError, QueryErrorKind};

/// Most groups within groups. Each adds at most three levels to the tree: and, not, at least.
const GROUPS_MAX: usize = 8;

/// How many of the terms without a sign must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainTerms {
    /// One of them, or none if there are terms with `+`. The others count for the score.
    #[default]
    Any,
    /// All of them.
    All,
    /// So many of them, or all if there are fewer.
    AtLeast(usize),
}

impl TextQuery {
    /// Reads a query. Cost: one pass.
    ///
    /// Errors: `Syntax` for an open quote, a bracket without its other half, or a star inside a
    /// word; `UnknownAttribute` and `WrongType` for the name before a colon; `NoWords` if nothing
    /// can be searched; `TooLarge` above 4 KiB, 64 terms, or 8 groups within groups.
    pub fn parse(schema: &Schema, text: &str, plain: PlainTerms) -> Result<TextQuery, QueryError> {
        if text.len() > TEXT_QUERY_BYTES_MAX {
            let what = format!("A text query has at most {TEXT_QUERY_BYTES_MAX} bytes.");
            return Err(QueryError::too_large(0, what));
        }
        let mut parser = Parser { schema, text, at: 0, plain, terms: 0 };
        let query = parser.group(None, 0)?;
        if parser.at < text.len() {
            return Err(QueryError::syntax(parser.at, "This ')' closes nothing."));
        }
        query.ok_or_else(|| {
            QueryError::new(QueryErrorKind::NoWords, 0, "The text query has no words.")
        })
    }
}

struct Parser<'a> {
    schema: &'a Schema,
    text: &'a str,
    /// The next byte; at the start of a character.
    at: usize,
    plain: PlainTerms,
    terms: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Must,
    Not,
    Plain,
}

impl<'a> Parser<'a> {
    /// Items up to the end or to a closing bracket, which stays. `None` if they have no words.
    fn group(
        &mut self,
        column: Option<u16>,
        depth: usize,
    ) -> Result<Option<TextQuery>, QueryError> {
        let (mut all, mut plain, mut not) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            self.skip_spaces();
            if matches!(self.peek(), None | Some(')')) {
                break;
            }
            let sign = self.sign();
            if let Some(item) = self.item(column, depth)? {
                match sign {
                    Sign::Must => all.push(item),
                    Sign::Not => not.push(TextQuery::Not(Box::new(item))),
                    Sign::Plain => plain.push(item),
                }
            }
        }
        if plain.len() > 1 || (!plain.is_empty() && !all.is_empty()) {
            let count = plain.len();
            match self.plain {
                PlainTerms::All => all.append(&mut plain),
                PlainTerms::Any => {
                    let least = usize::from(all.is_empty());
                    all.push(TextQuery::AtLeast(least, plain));
                }
                PlainTerms::AtLeast(least) => {
                    all.push(TextQuery::AtLeast(least.min(count), plain));
                }
            }
        } else if self.plain == PlainTerms::AtLeast(0) && !plain.is_empty() {
            all.push(TextQuery::AtLeast(0, plain));
        } else {
            all.append(&mut plain);
        }
        all.append(&mut not);
        Ok(match all.len() {
            0 | 1 => all.pop(),
            _ => Some(TextQuery::And(all)),
        })
    }

    fn item(&mut self, column: Option<u16>, depth: usize) -> Result<Option<TextQuery>, QueryError> {
        match self.peek() {
            Some('(') => self.bracket(column, depth),
            Some('"') => self.quoted(column),
            _ => {
                let from = self.at;
                let run = self.run();
                let Some((name, word)) = run.split_once(':').filter(|(name, _)| !name.is_empty())
                else {
                    return self.word(column, from, run);
                };
                let column = Some(self.column(name, from)?);
                if !word.is_empty() {
                    return self.word(column, from + name.len() + 1, word);
                }
                match self.peek() {
                    Some('(') => self.bracket(column, depth),
                    Some('"') => self.quoted(column),
                    _ => {
                        let what = format!("A word or a phrase must follow '{name}:' directly.");
                        Err(QueryError::syntax(self.at, what))
                    }
                }
            }
        }
    }

    fn bracket(
        &mut self,
        column: Option<u16>,
        depth: usize,
    ) -> Result<Option<TextQuery>, QueryError> {
        let from = self.at;
        if depth == GROUPS_MAX {
            let what = format!("A text query has at most {GROUPS_MAX} groups within each other.");
            return Err(QueryError::too_large(from, what));
        }
        self.at += 1;
        let query = self.group(column, depth + 1)?;
        if self.peek() != Some(')') {
            return Err(QueryError::syntax(from, "This '(' is not closed."));
        }
        self.at += 1;
        Ok(query)
    }

    fn quoted(&mut self, column: Option<u16>) -> Result<Option<TextQuery>, QueryError> {
        let from = self.at;
        let rest = &self.text[from + 1..];
        let Some(bytes) = rest.find('"') else {
            return Err(QueryError::syntax(from, "This '\"' is not closed."));
        };
        self.at = from + bytes + 2;
        let text = &rest[..bytes];
        self.term(from, text, |text| TextQuery::Phrase { column, text })
    }

    fn word(
        &mut self,
        column: Option<u16>,
        from: usize,
        run: &str,
    ) -> Result<Option<TextQuery>, QueryError> {
        let word = run.trim_end_matches('*');
        if let Some(star) = word.find('*') {
            let what = "A '*' stands at the end of a word, for any ending.";
            return Err(QueryError::syntax(from + star, what));
        }
        if word.len() == run.len() {
            return self.term(from, word, |text| TextQuery::Word { column, text });
        }
        self.term(from, word, |text| TextQuery::Prefix { column, text })
    }

    fn term(
        &mut self,
        from: usize,
        text: &str,
        make: impl FnOnce(String) -> TextQuery,
    ) -> Result<Option<TextQuery>, QueryError> {
        if tokens(text).next().is_none() {
            return Ok(None);
        }
        self.terms += 1;
        if self.terms > TERMS_MAX {
            let what = format!("A text query has at most {TERMS_MAX} words and phrases.");
            return Err(QueryError::too_large(from, what));
        }
        Ok(Some(make(text.to_owned())))
    }

    fn column(&self, name: &str, from: usize) -> Result<u16, QueryError> {
        let column = self.schema.column(name).ok_or_else(|| {
            let what = format!(
                "There is no attribute '{name}'. Put the text between quotes if the colon belongs \
                 to it."
            );
            QueryError::new(QueryErrorKind::UnknownAttribute, from, what)
        })?;
        require_text(self.schema, column, from)?;
        Ok(column)
    }

    /// Reads a sign if something follows it directly.
    fn sign(&mut self) -> Sign {
        let mut next = self.text[self.at..].chars();
        let sign = match next.next() {
            Some('+') => Sign::Must,
            Some('-') => Sign::Not,
            _ => return Sign::Plain,
        };
        match next.next() {
            Some(c) if !c.is_whitespace() && c != ')' => {
                self.at += 1;
                sign
            }
            _ => Sign::Plain,
        }
    }

    /// The characters up to a space, a quote or a bracket; at least one.
    fn run(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '(' | ')');
        let run = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += run.len();
        run
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }
}
