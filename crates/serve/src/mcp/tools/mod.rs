//! What there is to call.
//!
//! A model writes the arguments, so they are read strictly: a key that is not known is refused with those
//! that are. What cannot be done comes back as a sentence that says what to do instead, for the model to
//! try again.

mod listed;
mod read;
mod write;

use std::sync::Arc;

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) use self::listed::list;
use crate::access::Access;
use crate::failure::Failure;
use crate::qdrant::Call;
use crate::shared::{Moment, Shared};

/// Bytes of the longest answer of a tool: a model has to read it.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A call, whose arguments have the right form.
pub(super) enum Tool {
    Collections(read::Collections),
    Search(read::Search),
    Get(read::Get),
    Watch(read::Watch),
    Upsert(write::Upsert),
    Delete(write::Delete),
}

impl Tool {
    /// Reads arguments; `None` if there is no such tool. Errors: `BAD_REQUEST`.
    pub(super) fn read(name: &str, arguments: Option<&RawValue>) -> Option<Result<Tool, Failure>> {
        let json = arguments.map_or("{}", RawValue::get);
        Some(match name {
            "collections" => parse(json).map(Tool::Collections),
            "search" => parse(json).map(Tool::Search),
            "get" => parse(json).map(Tool::Get),
            "watch" => parse(json).map(Tool::Watch),
            "upsert" => parse(json).map(Tool::Upsert),
            "delete" => parse(json).map(Tool::Delete),
            _ => return None,
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Tool::Collections(_) => "collections",
            Tool::Search(_) => "search",
            Tool::Get(_) => "get",
            Tool::Watch(_) => "watch",
            Tool::Upsert(_) => "upsert",
            Tool::Delete(_) => "delete",
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, Failure> {
    if !json.starts_with('{') {
        return Err(Failure::bad("the arguments: give an object"));
    }
    serde_json::from_str(json).map_err(|error| Failure::bad(format!("the arguments: {error}")))
}

/// Does what a tool does, and counts it. Errors: a sentence.
///
/// * `tool`: or why its arguments are wrong.
/// * returns: JSON.
pub(super) async fn call(
    shared: &Arc<Shared>,
    (access, moment): (&Access, &Moment),
    tool: Result<Tool, Failure>,
) -> Result<Box<RawValue>, String> {
    let name = tool.as_ref().map_or("unread", Tool::name);
    let of = |collection: &str| Call {
        shared: shared.clone(),
        access: access.clone(),
        name: collection.to_owned(),
        moment: moment.clone(),
        tool: Some(name),
    };
    let answer = match tool {
        Err(failure) => Err(failure),
        Ok(Tool::Collections(asked)) => asked.answer(shared, access),
        Ok(Tool::Search(asked)) => {
            let call = of(&asked.collection);
            asked.answer(&call).await
        }
        Ok(Tool::Get(asked)) => {
            let call = of(&asked.collection);
            asked.answer(&call).await
        }
        Ok(Tool::Watch(asked)) => {
            let call = of(&asked.collection);
            asked.answer(&call).await
        }
        Ok(Tool::Upsert(asked)) => {
            let call = of(&asked.collection);
            asked.answer(&call).await
        }
        Ok(Tool::Delete(asked)) => {
            let call = of(&asked.collection);
            asked.answer(&call).await
        }
    };
    let answer = answer.and_then(check_length);
    let status = answer.as_ref().map_or_else(|failure| failure.status, |_| StatusCode::OK);
    shared.measured.tool(name, status.as_u16());
    answer.map_err(advised)
}

/// Errors: `PAYLOAD_TOO_LARGE`.
fn check_length(answer: Box<RawValue>) -> Result<Box<RawValue>, Failure> {
    let bytes = answer.get().len();
    if bytes <= ANSWER_BYTES_MAX {
        return Ok(answer);
    }
    let what = format!(
        "the answer has {bytes} bytes, and {ANSWER_BYTES_MAX} at most are given: ask for fewer points, \
         or name the keys that you need in 'payload'; 'watch' takes a smaller 'limit'"
    );
    Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, what))
}

/// The sentence of a failure, and what to do about it.
fn advised(failure: Failure) -> String {
    let advice = match failure.status {
        StatusCode::NOT_FOUND if failure.message.contains("collection") => {
            ". Call 'collections' for the names of those there are"
        }
        StatusCode::GONE => {
            ". Call 'watch' without 'after' for where it is now, and read again what you need"
        }
        StatusCode::FORBIDDEN => ". Ask whoever runs the server for a key that does",
        StatusCode::SERVICE_UNAVAILABLE => ". Nothing was done; try later",
        _ => "",
    };
    failure.message + advice
}

/// An answer as JSON. Errors: `INTERNAL_SERVER_ERROR`.
fn json<T: serde::Serialize>(answer: &T) -> Result<Box<RawValue>, Failure> {
    let raw = serde_json::value::to_raw_value(answer);
    raw.map_err(|error| Failure::broken(format!("the answer: {error}")))
}
