//! What is asked of partitions.

use vstream_attribute::Filter;
use vstream_settings::CollectionSettings;

use crate::frontier::Frontier;
use crate::wire::Output;

const ASKS: u8 = 1;
const PAYLOAD: u8 = 2;
const NAMES: u8 = 4;

/// How much of its rows a partition reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// As much as the recall target needs.
    #[default]
    Auto,
    /// All: the answer is exact.
    Exact,
    /// This many leaves.
    Leaves(u32),
}

impl Effort {
    fn number(self) -> i32 {
        match self {
            Effort::Auto => 0,
            Effort::Exact => -1,
            Effort::Leaves(leaves) => i32::try_from(leaves.max(1)).unwrap_or(i32::MAX),
        }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The collection's dimension.
    pub vector: &'a [f32],
    /// Rows, 1 to 1,000.
    pub k: usize,
    /// How much is read.
    pub effort: Effort,
    /// What rows must be.
    pub filter: Option<&'a Filter>,
    /// Largest distance of a row.
    pub radius: Option<f32>,
    /// Attributes that rows are to carry, ascending.
    pub columns: &'a [u16],
    /// Whether rows are to carry their payloads.
    pub payload: bool,
    /// How much of the vector stream must be behind the answer; `None` for any.
    pub least: Option<&'a Frontier>,
    /// What the collection was like when the question was made: filter and attributes name columns of its schema. `None`
    /// if it names none.
    pub of: Option<&'a CollectionSettings>,
}

impl<'a> Question<'a> {
    /// The k nearest rows and nothing else.
    pub fn new(vector: &'a [f32], k: usize) -> Question<'a> {
        Question {
            vector,
            k,
            effort: Effort::Auto,
            filter: None,
            radius: None,
            columns: &[],
            payload: false,
            least: None,
            of: None,
        }
    }

    /// True if rows of an answer may be anywhere: see the router of a job.
    pub(crate) fn is_everywhere(&self) -> bool {
        self.effort != Effort::Auto || self.filter.is_some()
    }

    /// As bytes.
    ///
    /// * `wait_ms`: how long a partition may wait.
    /// * `names`: whether ids are texts, which rows are to carry.
    pub(crate) fn to_bytes(self, wait_ms: i32, names: bool) -> Vec<u8> {
        let mut out = Output::default();
        out.i32(wait_ms);
        match self.least {
            Some(least) => least.write(&mut out),
            None => Frontier::default().write(&mut out),
        }
        out.i32(self.k as i32);
        out.i32(self.effort.number());
        out.i32(self.vector.len() as i32);
        self.vector.iter().for_each(|element| out.f32(*element));
        self.write_asked(names, &mut out);
        out.0
    }

    /// What is asked beside the nearest rows; one byte if that is nothing.
    fn write_asked(self, names: bool, out: &mut Output) {
        let is_plain = self.filter.is_none() && self.radius.is_none();
        if is_plain && self.columns.is_empty() && !self.payload && !names {
            out.u8(0);
            return;
        }
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        out.u8(ASKS | flag(self.payload, PAYLOAD) | flag(names, NAMES));
        let mut filter = Vec::new();
        if let Some(asked) = self.filter {
            asked.encode(&mut filter);
        }
        out.bytes(&filter);
        out.u16(self.columns.len() as u16);
        self.columns.iter().for_each(|column| out.u16(*column));
        out.f32(self.radius.unwrap_or(f32::NAN));
    }
}
