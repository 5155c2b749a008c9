//! Filters as Python gives them.

use serde_json::Value as Json;
use vstream_engine::{Filter, Names, Test, Value, GROUP_ATTRIBUTE};

use crate::failure::Failure;

/// The form (`dict`, `json`, `sql`, or `all` for every row), the text, parameters as a JSON list, and
/// a shared group.
pub(crate) type GivenFilter = (String, String, String, Option<String>);

/// Reads a filter. Errors: `Invalid` with what is wrong with it.
pub(crate) fn read(names: Names<'_>, given: &GivenFilter) -> Result<Filter, Failure> {
    let (form, text, parameters, group) = given;
    let schema = names.schema;
    let json = |text: &str| {
        serde_json::from_str::<Json>(text)
            .map_err(|error| Failure::invalid(format!("the filter cannot be read: {error}")))
    };
    let filter = match form.as_str() {
        "sql" => {
            let Json::Array(parameters) = json(parameters)? else {
                return Err(Failure::internal("parameters come as a list"));
            };
            let values = parameters.into_iter().map(parameter);
            Filter::from_sql(names, text, &values.collect::<Result<Vec<_>, _>>()?)?
        }
        "json" => Filter::from_json(names, text)?,
        "dict" => Filter::from_dict(names, &json(text)?)?,
        "all" => Filter::ALL,
        _ => return Err(Failure::internal(format!("there is no form '{form}' of filters"))),
    };
    let Some(group) = group else { return Ok(filter.simplify()) };
    let column = schema.group_column().ok_or_else(|| {
        Failure::invalid(format!(
            "the collection has no shared groups: leave {GROUP_ATTRIBUTE} out, or create it with \
             groups='shared'"
        ))
    })?;
    let in_group = Filter::Attribute(column, Test::KeywordIn(vec![group.clone()]));
    Ok(Filter::And(vec![in_group, filter]).simplify())
}

fn parameter(json: Json) -> Result<Value, Failure> {
    Ok(match json {
        Json::Bool(is_true) => Value::Bool(is_true),
        Json::String(text) => Value::Keyword(text),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::I64(whole),
            None => Value::F64(number.as_f64().unwrap_or(f64::INFINITY)),
        },
        _ => {
            return Err(Failure::invalid(format!(
                "{json} is no parameter: pass texts, numbers, truth values and times"
            )))
        }
    })
}
