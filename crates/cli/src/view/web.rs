//! What the page of a job shows, as JSON.

use serde_json::{json, Value as Json};

use super::meter::Meter;

/// The newest progress with its rates; `crates/serve/src/page/page.js` reads it. Times are in
/// milliseconds unless a name says otherwise.
///
/// * `asks`: the collection that the page may ask, if there is one.
pub(super) fn figures(meter: &Meter, has_ended: bool, asks: Option<&str>) -> String {
    let (now, rates) = (meter.latest(), meter.rates());
    let mut figures = json!({
        "kind": "job",
        "title": meter.scene.title,
        "asks": asks,
        "phase": if has_ended { "ended" } else { &now.phase },
        "seconds": now.seconds,
        "done": meter.done(),
        "recall_target": meter.scene.recall_target,
        "vectors": now.vectors,
        "vectors_per_second": rates.vectors,
        "deletes": now.deletes,
        "deletes_per_second": rates.deletes,
        "queries": now.queries,
        "queries_per_second": rates.queries,
        "p50": now.query_p50_ms,
        "p99": now.query_p99_ms,
        "recall_at_10": now.recall_at_10,
        "recall_recent": now.recall_recent,
        "audits": now.audits,
    });
    let of_partitions = json!({
        "writes_waiting": now.writes_waiting,
        "searches_in_flight": now.searches_in_flight,
        "freshness_lag": now.freshness_lag_ms,
        "bad_records": now.bad_records,
        "epoch": now.epoch,
        "hand_over_step": now.hand_over_step,
        "rows_adopted": now.rows_adopted,
        "rows_per_partition": now.rows_per_partition,
        "work_us_per_partition": now.work_us_per_partition,
    });
    if let (Json::Object(all), Json::Object(more)) = (&mut figures, of_partitions) {
        all.extend(more);
    }
    figures.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::{Goal, Scene};
    use super::*;
    use crate::jvm::Progress;

    #[test]
    fn rates_are_those_of_the_last_seconds_and_what_is_unknown_is_null() {
        let mut meter = Meter::new(Scene {
            title: "a job".to_owned(),
            parallelism: 2,
            preload: 0,
            goal: Goal::Records(1_000),
            recall_target: 0.9,
        });
        for (seconds, vectors) in [(1.0, 100), (2.0, 300)] {
            let phase = "stream".to_owned();
            meter.take(Progress { seconds, vectors, phase, ..Progress::default() });
        }
        let now: Json = serde_json::from_str(&figures(&meter, false, Some("news"))).expect("JSON");
        assert_eq!((&now["kind"], &now["phase"]), (&json!("job"), &json!("stream")));
        assert_eq!(now["asks"], json!("news"));
        assert_eq!((&now["vectors"], &now["vectors_per_second"]), (&json!(300), &json!(200.0)));
        assert_eq!((&now["done"], &now["recall_target"]), (&json!(0.2), &json!(0.9)));
        assert_eq!((&now["p99"], &now["writes_waiting"]), (&Json::Null, &Json::Null));
        let end: Json = serde_json::from_str(&figures(&meter, true, None)).expect("JSON");
        assert_eq!(end["phase"], "ended");
    }
}
