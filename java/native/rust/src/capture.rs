//! A captured state as Java sees it: files to upload, a manifest, and a pin on both.

use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vstream_engine::{Capture, CapturedState};

use crate::failure::{Failure, Poison};

/// The state of one moment, before and after its files were written.
pub(crate) struct Captured {
    poison: Poison,
    stage: Mutex<Stage>,
}

enum Stage {
    Pinned(Box<Capture>),
    Written(CapturedState),
    Failed,
}

impl Captured {
    pub(crate) fn new(capture: Capture) -> Captured {
        let stage = Mutex::new(Stage::Pinned(Box::new(capture)));
        Captured { poison: Poison::default(), stage }
    }

    /// Writes what is missing, once; returns a line per file, its parts separated by tabs:
    /// name, length, first shard, last shard, path.
    pub(crate) fn write(&self) -> Result<String, Failure> {
        self.poison.guard(|| {
            let mut stage = self.stage();
            *stage = match std::mem::replace(&mut *stage, Stage::Failed) {
                Stage::Pinned(capture) => Stage::Written(capture.write()?),
                stage => stage,
            };
            let mut lines = String::new();
            let state = written(&stage)?;
            for file in state.files() {
                let (first, last) = (file.shards.start(), file.shards.end());
                let path = state.dir().join(&file.name);
                let path = path.display();
                writeln!(lines, "{}\t{}\t{first}\t{last}\t{path}", file.name, file.bytes)
                    .expect("a string takes every line");
            }
            Ok(lines)
        })
    }

    /// The manifest of the written state.
    pub(crate) fn manifest(&self) -> Result<Vec<u8>, Failure> {
        self.poison.guard(|| Ok(written(&self.stage())?.manifest.clone()))
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        // A panic while writing poisons the whole object: see `Poison`.
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn written(stage: &Stage) -> Result<&CapturedState, Failure> {
    match stage {
        Stage::Written(state) => Ok(state),
        Stage::Pinned(_) => Err(Failure::invalid("The state is not written yet; write it first.")),
        Stage::Failed => {
            Err(Failure::invalid("The state could not be written before; capture another."))
        }
    }
}
