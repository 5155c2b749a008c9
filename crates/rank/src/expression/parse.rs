//! Reads an expression by precedence climbing (Pratt, 1973) and emits its program.

use vstream_attribute::{AttributeKind, Schema};

use super::emit::Emitter;
use super::features::{Lookup, Wanted};
use super::lexer::{Lexeme, Lexer};
use super::program::{Expression, One, Operation, Two};
use crate::error::{QueryError, QueryErrorKind};

/// Most bytes of an expression.
pub const EXPRESSION_BYTES_MAX: usize = 4 << 10;
/// Most expressions within expressions.
const NESTING_MAX: usize = 48;
/// How old a row is that is no longer fresh, in seconds, unless the expression says so: 90 days.
const FRESH_SECONDS: f64 = 90.0 * 86_400.0;

/// Strength of signs that join two values.
const COMPARISON: u8 = 3;
const PREFIX: u8 = 6;
const POWER: u8 = 7;

const ONES: [(&str, One); 11] = [
    ("abs", One::Abs),
    ("ceil", One::Ceil),
    ("floor", One::Floor),
    ("exp", One::Exp),
    ("log", One::Log),
    ("log10", One::Log10),
    ("sqrt", One::Sqrt),
    ("tanh", One::Tanh),
    ("atan", One::Atan),
    ("sigmoid", One::Sigmoid),
    ("relu", One::Relu),
];

impl Expression {
    /// Reads an expression over the attributes of a schema. Cost: one pass; some microseconds.
    ///
    /// Errors, with their place: `Syntax`, `UnknownFunction`, `UnknownAttribute`; `WrongType` for an
    /// attribute that has no number or no keyword; `TooLarge` above 4 KiB, 1,024 operations, 32
    /// values at a time, 48 levels, 32 values of attributes or 64 parameters.
    pub fn parse(schema: &Schema, text: &str) -> Result<Expression, QueryError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            let what = format!("An expression has at most {EXPRESSION_BYTES_MAX} bytes.");
            return Err(QueryError::too_large(0, what));
        }
        let mut lexer = Lexer::new(text);
        let (at, next) = lexer.next()?;
        let mut parser =
            Parser { schema, lexer, at, next, emitter: Emitter::default(), nesting: 0 };
        parser.expression(0)?;
        if parser.next != Lexeme::End {
            return Err(parser.unexpected("an operator"));
        }
        Ok(parser.emitter.finish())
    }
}

struct Parser<'a> {
    schema: &'a Schema,
    lexer: Lexer<'a>,
    /// Where the next lexeme begins.
    at: usize,
    next: Lexeme<'a>,
    emitter: Emitter,
    nesting: usize,
}

/// The function of a sign between two values, and how strongly it binds.
fn infix(sign: &str) -> Option<(u8, Two)> {
    Some(match sign {
        "||" => (1, Two::Or),
        "&&" => (2, Two::And),
        "<" => (COMPARISON, Two::Less),
        "<=" => (COMPARISON, Two::LessOrEqual),
        ">" => (COMPARISON, Two::Greater),
        ">=" => (COMPARISON, Two::GreaterOrEqual),
        "==" => (COMPARISON, Two::Equal),
        "!=" => (COMPARISON, Two::NotEqual),
        "+" => (4, Two::Add),
        "-" => (4, Two::Subtract),
        "*" => (5, Two::Multiply),
        "/" => (5, Two::Divide),
        "%" => (5, Two::Remainder),
        "^" => (POWER, Two::Power),
        _ => return None,
    })
}

impl<'a> Parser<'a> {
    /// Reads a value and the operators behind it that bind at least so strongly.
    fn expression(&mut self, strength_min: u8) -> Result<(), QueryError> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            let what = format!("An expression has at most {NESTING_MAX} levels.");
            return Err(QueryError::too_large(self.at, what));
        }
        self.value()?;
        let mut is_compared = false;
        while let Lexeme::Sign(sign) = self.next {
            let Some((strength, function)) = infix(sign).filter(|one| one.0 >= strength_min) else {
                break;
            };
            if strength == COMPARISON && std::mem::replace(&mut is_compared, true) {
                let what = "Comparisons do not chain: use brackets, or '&&'.";
                return Err(QueryError::syntax(self.at, what));
            }
            let at = self.advance()?;
            self.expression(if strength == POWER { POWER } else { strength + 1 })?;
            self.emitter.two(at, function)?;
        }
        self.nesting -= 1;
        Ok(())
    }

    fn value(&mut self) -> Result<(), QueryError> {
        let (at, lexeme) = (self.at, self.next);
        match lexeme {
            Lexeme::Number(number) => {
                self.advance()?;
                self.emitter.push(at, Operation::Number(number))
            }
            Lexeme::Parameter(name) => {
                self.advance()?;
                let parameter = self.emitter.parameter(at, name)?;
                self.emitter.push(at, Operation::Parameter(parameter))
            }
            Lexeme::Name(name) => {
                self.advance()?;
                self.named(at, name)
            }
            Lexeme::Sign("(") => {
                self.advance()?;
                self.expression(0)?;
                self.require(")")
            }
            Lexeme::Sign("-") => self.prefix(One::Negate),
            Lexeme::Sign("!") => self.prefix(One::Not),
            _ => Err(self.unexpected("a value")),
        }
    }

    fn prefix(&mut self, function: One) -> Result<(), QueryError> {
        let at = self.advance()?;
        self.expression(PREFIX)?;
        self.emitter.one(at, function)
    }

    /// A constant, a feature or a function; its name was read.
    fn named(&mut self, at: usize, name: &'a str) -> Result<(), QueryError> {
        if let Some((_, function)) = ONES.iter().find(|(known, _)| *known == name) {
            self.require("(")?;
            self.expression(0)?;
            self.require(")")?;
            return self.emitter.one(at, *function);
        }
        match name {
            "true" => self.emitter.push(at, Operation::Number(1.0)),
            "false" => self.emitter.push(at, Operation::Number(0.0)),
            "distance" => self.emitter.push(at, Operation::Distance),
            "closeness" => self.emitter.push(at, Operation::Closeness),
            "bm25" => self.bm25(at),
            "attribute" => self.attribute(at),
            "freshness" => self.freshness(at),
            "has" => self.has(at),
            "if" => self.condition(at),
            "pow" => self.several(at, Two::Power, false),
            "min" => self.several(at, Two::Min, true),
            "max" => self.several(at, Two::Max, true),
            _ => {
                let hint = match self.schema.column(name) {
                    Some(_) => format!(" Write attribute({name}) for the attribute."),
                    None => String::new(),
                };
                let what = format!("There is no feature or function '{name}'.{hint}");
                Err(QueryError::new(QueryErrorKind::UnknownFunction, at, what))
            }
        }
    }

    fn bm25(&mut self, at: usize) -> Result<(), QueryError> {
        if self.next != Lexeme::Sign("(") {
            return self.emitter.push(at, Operation::Bm25);
        }
        self.advance()?;
        let column = self.column("bm25", &[AttributeKind::Text])?;
        self.require(")")?;
        self.emitter.push(at, Operation::Bm25Of(column))
    }

    fn attribute(&mut self, at: usize) -> Result<(), QueryError> {
        const NUMBERS: [AttributeKind; 4] =
            [AttributeKind::I64, AttributeKind::F64, AttributeKind::Bool, AttributeKind::Timestamp];
        self.require("(")?;
        let column = self.column("attribute", &NUMBERS)?;
        let lookup = self.emitter.lookup(at, Lookup { column, wanted: Wanted::Value })?;
        if self.skip(",")? {
            self.expression(0)?;
            self.emitter.replace(at, Operation::ValueOr(lookup))?;
        } else {
            self.emitter.push(at, Operation::Value(lookup))?;
        }
        self.require(")")
    }

    fn freshness(&mut self, at: usize) -> Result<(), QueryError> {
        self.require("(")?;
        let column = self.column("freshness", &[AttributeKind::Timestamp])?;
        let lookup = self.emitter.lookup(at, Lookup { column, wanted: Wanted::Value })?;
        if self.skip(",")? {
            self.expression(0)?;
        } else {
            self.emitter.push(at, Operation::Number(FRESH_SECONDS))?;
        }
        self.emitter.replace(at, Operation::Freshness(lookup))?;
        self.require(")")
    }

    fn has(&mut self, at: usize) -> Result<(), QueryError> {
        const KEYWORDS: [AttributeKind; 2] = [AttributeKind::Keyword, AttributeKind::Keywords];
        self.require("(")?;
        let name_at = self.at;
        let column = self.column("has", &AttributeKind::ALL)?;
        if self.skip(",")? {
            let Lexeme::Quoted(text) = self.next else {
                return Err(self.unexpected("a keyword between quotes"));
            };
            self.advance()?;
            self.require_kind("has", column, &KEYWORDS, name_at)?;
            let wanted = Wanted::Keyword(text.to_owned());
            let lookup = self.emitter.lookup(at, Lookup { column, wanted })?;
            self.emitter.push(at, Operation::Value(lookup))?;
        } else {
            let lookup = self.emitter.lookup(at, Lookup { column, wanted: Wanted::Value })?;
            self.emitter.push(at, Operation::Has(lookup))?;
        }
        self.require(")")
    }

    fn condition(&mut self, at: usize) -> Result<(), QueryError> {
        self.require("(")?;
        self.expression(0)?;
        self.require(",")?;
        let to_else = self.emitter.jump_unless(at)?;
        self.expression(0)?;
        self.require(",")?;
        let to_end = self.emitter.jump(at)?;
        self.emitter.land(&to_else);
        self.expression(0)?;
        self.emitter.land(&to_end);
        self.require(")")
    }

    /// A function of two values, or of more by twos.
    fn several(&mut self, at: usize, function: Two, more: bool) -> Result<(), QueryError> {
        self.require("(")?;
        self.expression(0)?;
        self.require(",")?;
        loop {
            self.expression(0)?;
            self.emitter.two(at, function)?;
            if !more || !self.skip(",")? {
                return self.require(")");
            }
        }
    }

    /// The column of the attribute that is named next.
    fn column(&mut self, of: &str, kinds: &[AttributeKind]) -> Result<u16, QueryError> {
        let (Lexeme::Name(name) | Lexeme::Quoted(name)) = self.next else {
            return Err(self.unexpected("the name of an attribute"));
        };
        let Some(column) = self.schema.column(name) else {
            let what = format!("There is no attribute '{name}'.");
            return Err(QueryError::new(QueryErrorKind::UnknownAttribute, self.at, what));
        };
        self.require_kind(of, column, kinds, self.at)?;
        self.advance()?;
        Ok(column)
    }

    fn require_kind(
        &self,
        of: &str,
        column: u16,
        kinds: &[AttributeKind],
        at: usize,
    ) -> Result<(), QueryError> {
        let attribute = &self.schema.attributes[usize::from(column)];
        if kinds.contains(&attribute.kind) {
            return Ok(());
        }
        let allowed: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
        let (name, kind, allowed) = (&attribute.name, attribute.kind.name(), allowed.join(", "));
        let what = format!("The attribute '{name}' is of type {kind}; '{of}' takes {allowed}.");
        Err(QueryError::new(QueryErrorKind::WrongType, at, what))
    }

    /// Passes over the next lexeme; returns where it began.
    fn advance(&mut self) -> Result<usize, QueryError> {
        let before = self.at;
        (self.at, self.next) = self.lexer.next()?;
        Ok(before)
    }

    /// Passes over a sign if it is next.
    fn skip(&mut self, sign: &'static str) -> Result<bool, QueryError> {
        if self.next != Lexeme::Sign(sign) {
            return Ok(false);
        }
        self.advance()?;
        Ok(true)
    }

    fn require(&mut self, sign: &'static str) -> Result<(), QueryError> {
        if self.skip(sign)? {
            return Ok(());
        }
        Err(self.unexpected(&format!("'{sign}'")))
    }

    fn unexpected(&self, wanted: &str) -> QueryError {
        let there = match self.next {
            Lexeme::End => "the end".to_owned(),
            Lexeme::Number(number) => number.to_string(),
            Lexeme::Name(text) | Lexeme::Quoted(text) => format!("'{text}'"),
            Lexeme::Parameter(name) => format!("'${name}'"),
            Lexeme::Sign(sign) => format!("'{sign}'"),
        };
        QueryError::syntax(self.at, format!("Here must be {wanted}, not {there}."))
    }
}
