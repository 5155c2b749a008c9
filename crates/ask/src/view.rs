//! What a job has published, and what follows from it for questions.

use std::collections::BTreeSet;

use vstream_attribute::IdKind;
use vstream_route::Template;
use vstream_settings::CollectionSettings;

use crate::error::Attempt;
use crate::place::Place;
use crate::published::{read, Partitions, Templates};
use crate::reply::Reply;

/// What a job has published.
pub(crate) struct View {
    source: Vec<u8>,
    pub(crate) addresses: Vec<(String, u16)>,
    pub(crate) collection: CollectionSettings,
    run: i64,
    epoch: i64,
    routers: Vec<Template>,
}

impl View {
    /// Reads what is published. Errors: nothing is, or not yet.
    pub(crate) fn read(place: &Place) -> Result<View, Attempt> {
        let nothing = || Attempt::again("no job has published where it answers");
        let source = read(place, Partitions::NAME)?.ok_or_else(nothing)?;
        let templates = read(place, Templates::NAME)?.ok_or_else(nothing)?;
        View::new(source, &Templates::of(&templates)?)
    }

    fn new(source: Vec<u8>, templates: &Templates) -> Result<View, Attempt> {
        let partitions = Partitions::of(&source)?;
        let collection = CollectionSettings::from_json(&partitions.collection);
        let collection = collection.map_err(Attempt::again)?;
        let is_first = templates.is_changing && templates.older.is_empty();
        let mut routers = Vec::new();
        if templates.epoch > 0 && !is_first {
            let of = |bytes: &[u8]| Template::from_bytes(bytes).map_err(Attempt::again);
            routers.push(of(&templates.newer)?);
            if templates.is_changing {
                routers.push(of(&templates.older)?);
            }
        }
        Ok(View {
            source,
            addresses: partitions.addresses,
            collection,
            run: templates.run,
            epoch: templates.epoch,
            routers,
        })
    }

    /// False if partitions are elsewhere by now. While nobody can say, they are asked where they were.
    pub(crate) fn is_current(&self, place: &Place) -> bool {
        let now = read(place, Partitions::NAME);
        now.map_or(true, |now| now.is_none_or(|now| now == self.source))
    }

    /// True if ids are texts.
    pub(crate) fn has_names(&self) -> bool {
        self.collection.schema.id == IdKind::String
    }

    /// The partitions that may hold an answer, ascending.
    pub(crate) fn choose(
        &self,
        vector: &[f32],
        is_everywhere: bool,
    ) -> Result<Vec<usize>, Attempt> {
        let count = self.addresses.len();
        if is_everywhere || self.routers.is_empty() {
            return Ok((0..count).collect());
        }
        let (mut chosen, mut visits) = (BTreeSet::new(), Vec::new());
        for router in &self.routers {
            // The vector was checked: what is wrong here is the template.
            router.fan_out(vector, count as u32, &mut visits).map_err(Attempt::again)?;
            chosen.extend(visits.iter().map(|partition| *partition as usize));
        }
        Ok(chosen.into_iter().collect())
    }

    /// True if no row can be missing between these answers.
    ///
    /// * Rows are placed by a template only after all partitions have heard of it. So a partition that has
    ///   not heard of a newer one than this view was rightly chosen, or rightly left out, at the moment of
    ///   its answer.
    /// * An old owner lets rows go only after all new owners have them, at the step "settle". So answers
    ///   from before it go together, and answers from after it do.
    pub(crate) fn fits(&self, replies: &[Reply]) -> bool {
        let is_all = replies.len() == self.addresses.len();
        let knows = |reply: &Reply| reply.run == self.run && reply.position.epoch() <= self.epoch;
        let mut settled = replies.iter().map(|reply| reply.position.settled());
        let first = settled.next();
        let go_together = settled.all(|one| Some(one) == first);
        (is_all || replies.iter().all(knows)) && go_together
    }
}
