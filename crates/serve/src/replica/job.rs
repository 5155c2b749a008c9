//! Serves the rows of a job, also after it was started again with another collection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::catalog::{blocking, Catalog};
use crate::collection::{Collection, JobSettings};

/// Pause before a job that does not answer is asked again what its collection is like.
const AGAIN: Duration = Duration::from_secs(1);

/// Serves what the collection of a job is like since the job was started again, whenever a question is not for it.
pub(crate) async fn follow_job(
    catalog: Arc<Catalog>,
    settings: JobSettings,
    mut stopping: watch::Receiver<bool>,
) {
    let rounds = async {
        while let Some(changed) =
            catalog.find(&settings.collection).and_then(|one| one.job_changed())
        {
            changed.notified().await;
            loop {
                let settings = settings.clone();
                let opened = blocking(move || Collection::of_job(&settings)).await;
                if let Ok(Ok(collection)) = opened {
                    catalog.serve(Arc::new(collection));
                    break;
                }
                // It may be starting.
                sleep(AGAIN).await;
            }
        }
    };
    tokio::select! {
        () = rounds => {}
        // Also if whoever would say so is gone.
        _ = stopping.changed() => {}
    }
}
