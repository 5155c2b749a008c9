//! What a model reads about the tools.

use serde_json::{json, Value as Json};

use super::{read, write};
use crate::access::{Access, Scope};

/// The tools, in the same order each time.
///
/// * `writes`: whether the server was started with those that write; a key that may write nothing is not
///   shown them either.
pub(in crate::mcp) fn list(writes: bool, access: &Access) -> Vec<Json> {
    let mut tools = vec![collections(), search(), get(), watch()];
    if writes && access.has(Scope::Write) {
        tools.extend([upsert(), delete()]);
    }
    tools
}

fn collections() -> Json {
    json!({
        "name": "collections",
        "title": "Collections",
        "description": "Names the collections that can be asked, with their number of points, the \
            dimension of their vectors and how distance is measured. With 'collection' it describes one, \
            with the keys of payloads that a filter can use and the kinds of their values. One that did \
            not open has the reason under 'broken'.",
        "inputSchema": object(&[], json!({
            "collection": {"type": "string", "description": "The one to describe; all if absent."},
        })),
        "outputSchema": answer(&["collections"], json!({"collections": {"type": "array", "items": answer(
            &["name"],
            json!({
                "name": {"type": "string"},
                "points": {"type": "integer"},
                "dimension": {"type": "integer"},
                "distance": distance(),
                "fields": {"type": "object", "additionalProperties": {"type": "string"}},
                "broken": {"type": "string"},
            }),
        )}})),
        "annotations": reads(),
    })
}

fn search() -> Json {
    json!({
        "name": "search",
        "title": "Search",
        "description": "Finds the points of a collection that are nearest to a vector, or to the point of \
            an id, which is then left out. Give 'vector' or 'id'. Points come nearest first, with id, score \
            and payload. For the distances Cosine and Dot a larger score is nearer, for Euclid a smaller one.",
        "inputSchema": object(&["collection"], json!({
            "collection": collection(),
            "vector": vector(),
            "id": point_id(),
            "filter": {
                "type": "object",
                "description": "Only points whose payload matches, in the form of Qdrant: lists of conditions \
                    under must, should and must_not. Conditions: {\"key\": \"city\", \"match\": {\"value\": \
                    \"Oslo\"}}, {\"key\": \"city\", \"match\": {\"any\": [\"Oslo\", \"Lima\"]}}, {\"key\": \
                    \"price\", \"range\": {\"gte\": 5, \"lt\": 9}}, {\"is_empty\": {\"key\": \"city\"}}, \
                    {\"has_id\": [1, 2]}. A value in an object has the key 'outer.inner'.",
            },
            "k": {
                "type": "integer", "minimum": 1, "maximum": read::POINTS_MAX, "default": 10,
                "description": "How many points.",
            },
            "score_threshold": {"type": "number", "description": "Only points with this score or a nearer one."},
            "payload": payload_keys(),
            "with_vector": with_vector(),
        })),
        "outputSchema": answer(&["points", "distance"], json!({
            "points": points(), "distance": distance(),
        })),
        "annotations": reads(),
    })
}

fn get() -> Json {
    json!({
        "name": "get",
        "title": "Get points",
        "description": "Reads points of a collection by their ids. Ids without a point come under 'missing'.",
        "inputSchema": object(&["collection", "ids"], json!({
            "collection": collection(),
            "ids": ids(read::POINTS_MAX),
            "payload": payload_keys(),
            "with_vector": with_vector(),
        })),
        "outputSchema": answer(&["points", "missing"], json!({
            "points": points(), "missing": {"type": "array", "items": point_id()},
        })),
        "annotations": reads(),
    })
}

fn watch() -> Json {
    json!({
        "name": "watch",
        "title": "Watch for changes",
        "description": "Names what was written to a collection since a moment, the oldest first: points that \
            were written (upsert), whose payload was changed (update), or that were deleted. Call it without \
            'after' once, and then with the 'sequence' of the last answer. 'key' is the same for all changes \
            of one point; changes other than upserts may have no 'id'.",
        "inputSchema": object(&["collection"], json!({
            "collection": collection(),
            "after": {
                "type": "integer", "minimum": 0,
                "description": "The 'sequence' of an earlier answer; without it no changes come, and the \
                    sequence of now.",
            },
            "wait_ms": {
                "type": "integer", "minimum": 0, "maximum": read::WAIT_MS_MAX, "default": 0,
                "description": "How long to wait for a change, in milliseconds, if there is none.",
            },
            "limit": {
                "type": "integer", "minimum": 1, "maximum": read::POINTS_MAX, "default": read::POINTS_MAX,
                "description": "How many changes at most; the next call has those that follow.",
            },
        })),
        "outputSchema": answer(&["changes", "sequence"], json!({
            "changes": {"type": "array", "items": answer(&["kind", "sequence", "key"], json!({
                "kind": {"type": "string", "enum": ["upsert", "update", "delete"]},
                "sequence": {"type": "integer"},
                "key": {"type": "string"},
                "id": point_id(),
                "payload": {"type": "object"},
            }))},
            "sequence": {"type": "integer"},
        })),
        "annotations": reads(),
    })
}

fn upsert() -> Json {
    let given = object(
        &["id", "vector"],
        json!({
            "id": point_id(),
            "vector": vector(),
            "payload": {"type": "object", "description": "JSON to keep with it; a key has one type in a collection."},
        }),
    );
    json!({
        "name": "upsert",
        "title": "Write points",
        "description": "Writes points, each whole: a point that is there under the id is replaced, with its \
            payload. If one of them is refused, none is written.",
        "inputSchema": object(&["collection", "points"], json!({
            "collection": collection(),
            "points": {"type": "array", "minItems": 1, "maxItems": write::POINTS_MAX, "items": given},
        })),
        "outputSchema": answer(&["written"], json!({"written": {"type": "integer"}})),
        "annotations": writes(),
    })
}

fn delete() -> Json {
    json!({
        "name": "delete",
        "title": "Delete points",
        "description": "Deletes points by their ids. Ids without a point are left alone.",
        "inputSchema": object(&["collection", "ids"], json!({
            "collection": collection(),
            "ids": ids(write::POINTS_MAX),
        })),
        "outputSchema": answer(&["deleted"], json!({"deleted": {"type": "integer"}})),
        "annotations": writes(),
    })
}

/// Arguments: keys that are not named are refused.
fn object(required: &[&str], properties: Json) -> Json {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// An answer, which may get more keys.
fn answer(required: &[&str], properties: Json) -> Json {
    json!({"type": "object", "properties": properties, "required": required})
}

fn reads() -> Json {
    json!({"readOnlyHint": true, "openWorldHint": false})
}

/// Each replaces or removes what was there, and the same call again changes nothing more.
fn writes() -> Json {
    json!({
        "readOnlyHint": false,
        "destructiveHint": true,
        "idempotentHint": true,
        "openWorldHint": false,
    })
}

fn collection() -> Json {
    json!({"type": "string", "description": "Its name, as 'collections' gives it."})
}

fn vector() -> Json {
    let what = "As many numbers as the collection has dimensions.";
    json!({"type": "array", "items": {"type": "number"}, "description": what})
}

fn point_id() -> Json {
    json!({"type": ["integer", "string"], "description": "A whole number from 0, or a UUID; or the text that a point has as its id."})
}

fn ids(most: usize) -> Json {
    json!({"type": "array", "minItems": 1, "maxItems": most, "items": point_id()})
}

fn payload_keys() -> Json {
    json!({
        "type": "array",
        "items": {"type": "string"},
        "description": "Only these keys of payloads; all if absent, none if empty.",
    })
}

fn with_vector() -> Json {
    json!({"type": "boolean", "default": false, "description": "Whether vectors come too."})
}

fn distance() -> Json {
    json!({"type": "string", "enum": ["Cosine", "Dot", "Euclid"]})
}

fn points() -> Json {
    json!({"type": "array", "items": answer(&["id"], json!({
        "id": point_id(),
        "score": {"type": "number"},
        "payload": {"type": "object"},
        "vector": {"type": "array", "items": {"type": "number"}},
    }))})
}
