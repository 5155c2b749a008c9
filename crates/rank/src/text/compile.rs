//! Compiles a text query: takes the terms out of the tree, and makes patterns of them for every
//! attribute that they search.

use std::ops::Range;

use rust_stemmers::Stemmer;
use vstream_attribute::{AttributeKind, Schema};

use super::matcher::{Action, Node, Phrase, SearchedText, Slot, TextMatcher};
use super::query::{
    require_text, TextQuery, DEPTH_MAX, NODES_MAX, PHRASE_WORDS_MAX, SLOTS_MAX, TERMS_MAX,
};
use super::stemming::Language;
use super::tokens::{fold, tokens};
use crate::error::{QueryError, QueryErrorKind};

/// See [`TextMatcher::with_stemming`].
pub(super) fn compile(
    query: &TextQuery,
    schema: &Schema,
    language: Option<Language>,
) -> Result<TextMatcher, QueryError> {
    let mut gatherer = Gatherer::default();
    let plan = gatherer.plan(query, true, DEPTH_MAX)?;
    let terms = gatherer.terms;
    let mut compiler = Compiler {
        columns: searched_columns(&terms, schema)?,
        texts: Vec::new(),
        slots: Vec::new(),
        stemmer: language.map(Language::stemmer),
    };
    compiler.texts = compiler.columns.iter().map(|column| SearchedText::new(*column)).collect();
    let ranges = terms.iter().map(|term| compiler.term(term)).collect::<Result<Vec<_>, _>>()?;
    for text in &mut compiler.texts {
        text.close(compiler.stemmer.is_some());
    }
    let Compiler { texts, slots, stemmer, .. } = compiler;
    Ok(TextMatcher { texts, slots, tree: plan.node(&ranges), stemmer })
}

/// The form of a tree whose terms stand in a list.
enum Plan {
    Term(usize),
    And(Vec<Plan>),
    Or(Vec<Plan>),
    AtLeast(usize, Vec<Plan>),
    Not(Box<Plan>),
}

impl Plan {
    fn node(self, slots: &[Range<u16>]) -> Node {
        let nodes = |plans: Vec<Plan>| plans.into_iter().map(|plan| plan.node(slots)).collect();
        match self {
            Plan::Term(term) => Node::Term(slots[term].clone()),
            Plan::And(all) => Node::And(nodes(all)),
            Plan::Or(any) => Node::Or(nodes(any)),
            Plan::AtLeast(least, of) => Node::AtLeast(least, nodes(of)),
            Plan::Not(one) => Node::Not(Box::new(one.node(slots))),
        }
    }
}

struct Term<'a> {
    column: Option<u16>,
    text: &'a str,
    is_prefix: bool,
    is_scored: bool,
}

/// Takes the terms out of a tree.
#[derive(Default)]
struct Gatherer<'a> {
    terms: Vec<Term<'a>>,
    nodes: usize,
}

impl<'a> Gatherer<'a> {
    fn plan(
        &mut self,
        query: &'a TextQuery,
        is_scored: bool,
        levels: usize,
    ) -> Result<Plan, QueryError> {
        self.nodes += 1;
        if levels == 0 || self.nodes > NODES_MAX {
            let what =
                format!("A text query has at most {DEPTH_MAX} levels and {NODES_MAX} nodes.");
            return Err(QueryError::too_large(0, what));
        }
        let mut each = |of: &'a [TextQuery]| -> Result<Vec<Plan>, QueryError> {
            of.iter().map(|one| self.plan(one, is_scored, levels - 1)).collect()
        };
        match query {
            TextQuery::Word { column, text } | TextQuery::Phrase { column, text } => {
                self.term(Term { column: *column, text, is_prefix: false, is_scored })
            }
            TextQuery::Prefix { column, text } => {
                self.term(Term { column: *column, text, is_prefix: true, is_scored })
            }
            TextQuery::And(all) => Ok(Plan::And(each(all)?)),
            TextQuery::Or(any) => Ok(Plan::Or(each(any)?)),
            TextQuery::AtLeast(least, of) => Ok(Plan::AtLeast(*least, each(of)?)),
            TextQuery::Not(one) => Ok(Plan::Not(Box::new(self.plan(one, false, levels - 1)?))),
        }
    }

    fn term(&mut self, term: Term<'a>) -> Result<Plan, QueryError> {
        if self.terms.len() == TERMS_MAX {
            let what = format!("A text query has at most {TERMS_MAX} words and phrases.");
            return Err(QueryError::too_large(0, what));
        }
        self.terms.push(term);
        Ok(Plan::Term(self.terms.len() - 1))
    }
}

/// All texts if a term names none, else those that are named. Ascending.
fn searched_columns(terms: &[Term<'_>], schema: &Schema) -> Result<Vec<u16>, QueryError> {
    let mut columns: Vec<u16> = terms.iter().filter_map(|term| term.column).collect();
    if terms.iter().any(|term| term.column.is_none()) {
        let all = (0..).zip(&schema.attributes);
        let texts = all.filter(|(_, attribute)| attribute.kind == AttributeKind::Text);
        columns.extend(texts.map(|(column, _)| column));
        if columns.is_empty() {
            let what = "The collection has no attribute of type text.";
            return Err(QueryError::new(QueryErrorKind::NoWords, 0, what));
        }
    }
    columns.sort_unstable();
    columns.dedup();
    for column in &columns {
        require_text(schema, *column, 0)?;
    }
    Ok(columns)
}

struct Compiler {
    columns: Vec<u16>,
    texts: Vec<SearchedText>,
    slots: Vec<Slot>,
    stemmer: Option<Stemmer>,
}

impl Compiler {
    /// Adds the patterns of a term; returns its slots.
    fn term(&mut self, term: &Term<'_>) -> Result<Range<u16>, QueryError> {
        let words = self.words(term)?;
        let from = self.slots.len() as u16;
        for text in 0..self.texts.len() {
            let column = self.columns[text];
            if term.column.is_some_and(|named| named != column) {
                continue;
            }
            if self.slots.len() == SLOTS_MAX {
                let what = format!("A text query has at most {SLOTS_MAX} terms times attributes.");
                return Err(QueryError::too_large(0, what));
            }
            let slot = self.slots.len() as u16;
            self.slots.push(Slot { text: text as u16, is_scored: term.is_scored });
            let text = &mut self.texts[text];
            if let [word] = &words[..] {
                text.add(term.is_prefix, word, Action::Count { slot });
                continue;
            }
            let phrase = text.phrases.len() as u16;
            let last = words.len() - 1;
            text.phrases.push(Phrase { slot, last: 1 << last });
            for (at, word) in words.iter().enumerate() {
                let action = Action::Advance { phrase, bit: 1 << at };
                text.add(term.is_prefix && at == last, word, action);
            }
        }
        Ok(from..self.slots.len() as u16)
    }

    /// The words of a term, folded and stemmed. The last word of a prefix is not stemmed.
    fn words(&self, term: &Term<'_>) -> Result<Vec<String>, QueryError> {
        let mut words: Vec<String> = tokens(term.text)
            .take(PHRASE_WORDS_MAX + 1)
            .map(|token| fold(token.text, &mut String::new()).to_owned())
            .collect();
        if words.is_empty() {
            let what = format!("The term '{}' has no words.", term.text);
            return Err(QueryError::new(QueryErrorKind::NoWords, 0, what));
        }
        if words.len() > PHRASE_WORDS_MAX {
            let what = format!("A phrase has at most {PHRASE_WORDS_MAX} words.");
            return Err(QueryError::too_large(0, what));
        }
        if let Some(stemmer) = &self.stemmer {
            let whole = words.len() - usize::from(term.is_prefix);
            for word in &mut words[..whole] {
                *word = stemmer.stem(word).into_owned();
            }
        }
        Ok(words)
    }
}
