//! Text to expression: sqlparser, given only the tokens that a filter may have.
//!
//! A chain such as `a AND b AND …` becomes a tree as deep as the chain is long, which is dropped by
//! recursion. Therefore the tokens that can make a chain are counted before the text is parsed. The
//! parser itself limits the nesting of parentheses. Functions in functions need more of its stack
//! than a thread of Java has by default, mean nothing here, and do not reach it.

use sqlparser::ast::Expr;
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Tokenizer, Word};

use crate::error::{shown, Refused};
use crate::filter::limits::bad;

/// Most operators, names and parentheses of a text. A list of values needs only commas.
const OPERATORS_MAX: usize = 4096;
/// Deepest nesting that the parser follows.
const NESTING_MAX: usize = 50;

/// The little SQL of filters: no dialect's additions.
#[derive(Debug)]
struct Where;

impl Dialect for Where {
    fn is_identifier_start(&self, c: char) -> bool {
        c.is_alphabetic() || c == '_'
    }

    fn is_identifier_part(&self, c: char) -> bool {
        c.is_alphanumeric() || c == '_'
    }
}

/// Parses an expression. Placeholders come out as `$n`, with n from 1 to `parameters`, and each
/// parameter is used.
pub(super) fn parse(text: &str, parameters: usize) -> Result<Expr, Refused> {
    let tokens = Tokenizer::new(&Where, text).tokenize().map_err(|error| {
        bad(format!("The filter cannot be read: {}.", shown(&error.to_string())))
    })?;
    let tokens = checked(tokens, parameters)?;
    let mut parser = Parser::new(&Where).with_recursion_limit(NESTING_MAX).with_tokens(tokens);
    let expression = parser.parse_expr().map_err(|error| match error {
        ParserError::RecursionLimitExceeded => bad("The filter is nested too deeply."),
        ParserError::ParserError(what) | ParserError::TokenizerError(what) => {
            bad(format!("The filter cannot be read: {}.", shown(&what)))
        }
    })?;
    match &parser.peek_token_ref().token {
        Token::EOF => Ok(expression),
        token => {
            let token = shown(&token.to_string());
            Err(bad(format!("The filter ends before '{token}', or 'AND' or 'OR' is missing.")))
        }
    }
}

/// The tokens without spaces and comments, once none is foreign to filters.
fn checked(tokens: Vec<Token>, parameters: usize) -> Result<Vec<Token>, Refused> {
    let (mut operators, mut kept) = (0, Vec::with_capacity(tokens.len()));
    // For each open parenthesis, whether a function or one in a function opened it.
    let mut open: Vec<bool> = Vec::new();
    let mut placeholders = Placeholders { used: vec![false; parameters], in_order: 0, named: 0 };
    for token in tokens {
        let is_sign = token == Token::Minus && matches!(kept.last(), Some(Token::Comma));
        let token = match token {
            Token::Whitespace(_) => continue,
            Token::Word(word) => Token::Word(name_or_keyword(word)),
            Token::Placeholder(text) => Token::Placeholder(placeholders.number(&text)?),
            other => other,
        };
        match &token {
            Token::Comma
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Placeholder(_) => {}
            Token::Minus if is_sign => {}
            Token::Word(_)
            | Token::Minus
            | Token::Eq
            | Token::Neq
            | Token::Lt
            | Token::LtEq
            | Token::Gt
            | Token::GtEq
            | Token::LParen
            | Token::RParen
            | Token::Period => operators += 1,
            other => {
                let other = shown(&other.to_string());
                return Err(bad(format!("'{other}' has no meaning in a filter.")));
            }
        }
        match &token {
            Token::LParen => {
                let is_call = matches!(kept.last(), Some(Token::Word(word)) if is_name(word));
                let is_inside = open.last() == Some(&true);
                if is_inside {
                    return Err(bad("The arguments of a function are a name and values."));
                }
                open.push(is_call);
            }
            Token::RParen => drop(open.pop()),
            _ => {}
        }
        kept.push(token);
    }
    if operators > OPERATORS_MAX {
        return Err(bad(format!(
            "The filter has {operators} names, operators and parentheses; the limit is \
             {OPERATORS_MAX}. Give many values in one IN."
        )));
    }
    placeholders.check_all_used()?;
    Ok(kept)
}

/// A word that is no keyword of filters becomes a name, so that the parser tries nothing else.
fn name_or_keyword(word: Word) -> Word {
    let is_keyword = matches!(
        word.keyword,
        Keyword::AND
            | Keyword::OR
            | Keyword::NOT
            | Keyword::IN
            | Keyword::BETWEEN
            | Keyword::LIKE
            | Keyword::IS
            | Keyword::NULL
            | Keyword::TRUE
            | Keyword::FALSE
    );
    if is_keyword {
        return word;
    }
    Word { quote_style: Some('"'), keyword: Keyword::NoKeyword, ..word }
}

fn is_name(word: &Word) -> bool {
    word.keyword == Keyword::NoKeyword
}

struct Placeholders {
    used: Vec<bool>,
    in_order: usize,
    named: usize,
}

impl Placeholders {
    /// The placeholder as `$n`.
    fn number(&mut self, text: &str) -> Result<String, Refused> {
        let number = match text.strip_prefix('$') {
            None if text == "?" => {
                self.in_order += 1;
                Some(self.in_order)
            }
            None => None,
            Some(digits) => {
                self.named += 1;
                let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
                digits.parse().ok().filter(|_| is_number)
            }
        };
        if self.in_order > 0 && self.named > 0 {
            return Err(bad("The filter mixes '?' and '$1': use one of them."));
        }
        let number: Option<usize> = number;
        let Some(used) = number.and_then(|n| self.used.get_mut(n.checked_sub(1)?)) else {
            return Err(bad(format!(
                "The filter has no value for the parameter '{}': {} were given.",
                shown(text),
                self.used.len()
            )));
        };
        *used = true;
        Ok(format!("${}", number.unwrap_or_default()))
    }

    fn check_all_used(&self) -> Result<(), Refused> {
        match self.used.iter().position(|used| !used) {
            None => Ok(()),
            Some(at) => Err(bad(format!("The parameter {} is not used.", at + 1))),
        }
    }
}
