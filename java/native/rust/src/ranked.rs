//! Words and rank expressions of queries to groups: JSON on its way through Java, which reads none
//! of it.
//!
//! ```json
//! {"text": "invoice -paid", "rank": "closeness + $a * bm25", "parameters": {"a": 0.2},
//!  "vector": true}
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use vstream_attribute::Schema;
use vstream_group::{Error, Expression, GroupQuery, PlainTerms, RankBy, TextQuery, TextSearch};

use crate::failure::Failure;

/// Most bytes of the JSON.
pub(crate) const RANKED_BYTES_MAX: usize = 32 << 10;

/// An order other than by distance.
pub(crate) struct Ranked {
    text: Option<TextQuery>,
    rank: Option<Expression>,
    parameters: Vec<(String, f64)>,
    vector: bool,
}

impl Ranked {
    /// Reads an order over the attributes of a schema. Errors: `Invalid` with a sentence.
    pub(crate) fn read(schema: &Schema, json: &str) -> Result<Ranked, Failure> {
        if json.len() > RANKED_BYTES_MAX {
            let what = format!("An order has at most {RANKED_BYTES_MAX} bytes.");
            return Err(Failure::invalid(what));
        }
        let read: Value = serde_json::from_str(json)
            .map_err(|error| Failure::invalid(format!("An order is no JSON: {error}.")))?;
        let words = |key: &str| match &read[key] {
            Value::Null => Ok(None),
            Value::String(words) => Ok(Some(words)),
            _ => Err(Failure::invalid(format!("{key} is a text."))),
        };
        let text = match words("text")? {
            Some(words) => {
                let query = TextQuery::parse(schema, words, PlainTerms::default());
                Some(query.map_err(Error::from)?)
            }
            None => None,
        };
        let rank = match words("rank")? {
            Some(words) => Some(Expression::parse(schema, words).map_err(Error::from)?),
            None => None,
        };
        let mut parameters = Vec::new();
        if let Value::Object(values) = &read["parameters"] {
            for (name, value) in values {
                let value = value
                    .as_f64()
                    .ok_or_else(|| Failure::invalid(format!("Parameter {name} is no number.")))?;
                parameters.push((name.clone(), value));
            }
        }
        Ok(Ranked { text, rank, parameters, vector: read["vector"] == Value::Bool(true) })
    }

    /// Calls `work` with a query in this order.
    pub(crate) fn with<T>(
        &self,
        query: GroupQuery<'_>,
        work: impl FnOnce(&GroupQuery<'_>) -> T,
    ) -> T {
        let parameters: Vec<(&str, f64)> =
            self.parameters.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let rank = |expression| RankBy { expression, parameters: &parameters, now_ms };
        work(&GroupQuery {
            vector: query.vector.filter(|_| self.vector),
            text: self.text.as_ref().map(TextSearch::new),
            rank: self.rank.as_ref().map(rank),
            ..query
        })
    }
}
