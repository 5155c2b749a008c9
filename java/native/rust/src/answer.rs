//! Answers of an engine to a batch of queries. If a far store gives no answer, those of the rows that can
//! be reached, marked as partial.

use vstream_attribute::Fields;
use vstream_engine::{
    Answer, Error, ErrorKind, Query, ReadSnapshot, Reader, Scratch, SearchStats, With,
    WithAttributes,
};
use vstream_vector::Neighbor;

use crate::buffer::{push_answer, push_fields, Asked, Effort, Queries, Scanned, Writer};
use crate::failure::Failure;
use crate::filters;
use crate::pool::Pool;

/// Most bytes of what the rows of one answer carry. Further rows carry their string ids alone.
pub(crate) const FIELDS_BYTES_MAX: usize = 16 << 20;
/// How often rows that can be reached are searched. Segments may leave the directory meanwhile.
const REACHABLE_TRIES: usize = 3;

/// Buffers of one search, except its answer.
#[derive(Default)]
pub(crate) struct Workspace {
    pub(crate) scratch: Scratch,
    pub(crate) found: Vec<Neighbor>,
}

/// What was found, and whether rows were left out.
type Reached<T> = Result<(T, bool), Error>;

/// Has `ask` search the rows that can be reached, if `first` says that the others cannot. These rows are
/// those of the present moment, which may be later than that of `first`.
pub(crate) fn reach<T>(
    reader: &Reader,
    first: Result<T, Error>,
    ask: &mut dyn FnMut(&ReadSnapshot) -> Result<T, Error>,
) -> Reached<T> {
    let mut done = first.map(|found| (found, false));
    for _ in 0..REACHABLE_TRIES {
        if !done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
            break;
        }
        let (rows, left_out) = reader.reachable();
        done = ask(&rows).map(|found| (found, left_out > 0));
    }
    done
}

/// Answers the queries in `bytes` one after the other.
pub(crate) fn answer(
    dimension: usize,
    workspaces: &Pool<Workspace>,
    bytes: &[u8],
    out: &mut [u8],
    search: &dyn Fn(&Query<'_>, &mut Workspace) -> Reached<SearchStats>,
) -> Result<usize, Failure> {
    let queries = Queries::new(bytes, dimension)?;
    if queries.wants_fields() {
        return Err(Failure::invalid("A query asks what rows carry; call searchFields."));
    }
    let mut writer = Writer::new(out, queries.answer_bytes())?;
    workspaces.with(|workspace| {
        for query in queries.iter() {
            let filter = query.asked.filter.map(filters::read).transpose()?;
            let query = Query {
                effort: effort(query.effort),
                filter: filter.as_ref(),
                radius: query.asked.radius,
                ..Query::new(query.vector, query.k)
            };
            let (stats, is_partial) = search(&query, workspace)?;
            writer.answer(Scanned { leaves: stats.leaves, is_partial }, &workspace.found, &[]);
        }
        Ok(writer.written())
    })
}

/// Answers queries that ask what rows carry.
pub(crate) fn answer_fields(
    dimension: usize,
    workspaces: &Pool<Workspace>,
    bytes: &[u8],
    search: &dyn Fn(&Query<'_>, &With, &mut Workspace) -> Reached<Answer>,
) -> Result<Vec<u8>, Failure> {
    let queries = Queries::new(bytes, dimension)?;
    let mut out = Vec::new();
    workspaces.with(|workspace| {
        let mut fields = Vec::new();
        for query in queries.iter() {
            let filter = query.asked.filter.map(filters::read).transpose()?;
            let with = with(&query.asked);
            let asked = Query {
                effort: effort(query.effort),
                filter: filter.as_ref(),
                radius: query.asked.radius,
                ..Query::new(query.vector, query.k)
            };
            let (answer, is_partial) = search(&asked, &with, workspace)?;
            fields.clear();
            if query.asked.wants_fields() {
                push_rows(&mut fields, &answer);
            }
            let scanned = Scanned { leaves: answer.stats.leaves, is_partial };
            push_answer(&mut out, scanned, &answer.neighbors, &[], &fields);
        }
        Ok(out)
    })
}

/// Appends what the rows of an answer carry.
fn push_rows(fields: &mut Vec<u8>, answer: &Answer) {
    for row in &answer.rows {
        let carried = row.fields.fields();
        let bytes = carried.attributes.bytes().len() + carried.payload.map_or(0, <[u8]>::len);
        if fields.len() + bytes <= FIELDS_BYTES_MAX {
            push_fields(fields, &carried, false);
        } else {
            let name = Fields { name: carried.name, check: carried.check, ..Fields::NONE };
            push_fields(fields, &name, true);
        }
    }
}

/// What of its rows a query asks for.
fn with(asked: &Asked<'_>) -> With {
    With {
        attributes: WithAttributes::Of(asked.columns().collect()),
        payload: asked.payload,
        vector: false,
    }
}

fn effort(effort: Effort) -> vstream_engine::Effort {
    match effort {
        Effort::Auto => vstream_engine::Effort::Auto,
        Effort::Exact => vstream_engine::Effort::Exact,
        Effort::Probes(probes) => vstream_engine::Effort::probes(probes),
    }
}
