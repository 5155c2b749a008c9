//! What was measured of a real replica.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::service::Service;

/// Times of a real replica, and what it was asked.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Times of a query at the target recall.
    pub service: Service,
    /// Times of a query at the floor.
    pub floor: Service,
    /// The floor of the recall.
    pub floor_recall: f64,
    /// Seconds from the order to the first answer: the median.
    pub start_s: f64,
    /// What was measured, as it was written.
    pub about: Value,
}

impl Measured {
    /// Reads what `bench`'s `replica` wrote. Errors: a sentence.
    pub fn read(path: &Path) -> Result<Measured, String> {
        let wrong = |what: &str| format!("{}: {what}", path.display());
        let text = fs::read_to_string(path).map_err(|error| wrong(&error.to_string()))?;
        let mut about: Value =
            serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
        let numbers = |name: &str| -> Result<Vec<f64>, String> {
            let list =
                about[name].as_array().ok_or_else(|| wrong(&format!("{name} is missing")))?;
            Ok(list.iter().filter_map(Value::as_f64).collect())
        };
        let service = |name: &str| {
            Service::measured(numbers(name)?).ok_or_else(|| wrong(&format!("{name} has no times")))
        };
        let (target, floor) = (service("target_s")?, service("floor_s")?);
        let mut starts = numbers("starts_s")?;
        starts.sort_by(f64::total_cmp);
        let start_s = *starts.get(starts.len() / 2).ok_or_else(|| wrong("starts_s is empty"))?;
        let floor_recall =
            about["floor_recall_asked"].as_f64().ok_or_else(|| wrong("the floor is missing"))?;
        // Their quantiles are enough.
        for (name, service) in [("target_s", &target), ("floor_s", &floor)] {
            about[name] = service.json();
        }
        Ok(Measured { service: target, floor, floor_recall, start_s, about })
    }
}
