//! A parsed settings file, before validation.

use serde_json::{Map, Value};

use crate::error::SettingsError;

/// The tree of one settings file, with the overrides applied.
#[derive(Clone, Debug)]
pub struct Document {
    pub(crate) root: Value,
    /// True if durations and sizes may be plain numbers. They may be in normalised files, not in
    /// files that people write.
    pub(crate) plain_units: bool,
}

impl Document {
    /// Parses a file that a person wrote: YAML 1.2, one document, no duplicate key.
    pub fn from_yaml(text: &str) -> Result<Document, SettingsError> {
        let root: Value = serde_saphyr::from_str(text).map_err(|error| {
            SettingsError::one(format!("The file is not valid YAML: {error}. Correct that place."))
        })?;
        Document::with_root(root, false)
    }

    /// Parses a normalised file: JSON, in which durations may be milliseconds and sizes bytes.
    pub fn from_json(text: &str) -> Result<Document, SettingsError> {
        let root: Value = serde_json::from_str(text).map_err(|error| {
            SettingsError::one(format!("The text is not valid JSON: {error}. Correct that place."))
        })?;
        Document::with_root(root, true)
    }

    fn with_root(root: Value, plain_units: bool) -> Result<Document, SettingsError> {
        match root {
            Value::Object(_) => Ok(Document { root, plain_units }),
            Value::Null => Ok(Document { root: Value::Object(Map::new()), plain_units }),
            _ => Err(SettingsError::one(
                "The settings are not a mapping. Write one `key: value` per line, as in \
                 examples/mixed.yaml.",
            )),
        }
    }

    /// Sets one value. `assignment` is `key=value` with a dotted key, such as
    /// `workload.rate=16000`. The value is read as YAML. Creates missing sections.
    pub fn set(&mut self, assignment: &str) -> Result<(), SettingsError> {
        let Some((key, text)) = assignment.split_once('=') else {
            return Err(SettingsError::one(format!(
                "--set {assignment}: there is no '='. Write it as key=value, for example \
                 workload.rate=16000."
            )));
        };
        let value: Value = serde_saphyr::from_str(text).map_err(|error| {
            SettingsError::one(format!("--set {key}: '{text}' is not a YAML value: {error}."))
        })?;
        let mut place = &mut self.root;
        for part in key.trim().split('.') {
            let Value::Object(fields) = place else {
                return Err(SettingsError::one(format!(
                    "--set {key}: '{part}' is below a key that holds a plain value. Set the whole \
                     section or choose another key."
                )));
            };
            place = fields.entry(part).or_insert_with(|| Value::Object(Map::new()));
        }
        *place = value;
        Ok(())
    }

    /// Switches a part off to measure its effect. Adds `part` to `collection.without`; for
    /// `dynamic-partitions` it sets `rebalance.policy` to none, so that no range changes its
    /// partition. The validation of the file checks whether the part exists.
    pub fn without(&mut self, part: &str) -> Result<(), SettingsError> {
        if part == "dynamic-partitions" {
            return self.set("rebalance.policy=none");
        }
        let mut parts = match self.root.pointer("/collection/without") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(parts)) => parts.clone(),
            // The validation of the file refuses this value.
            Some(_) => return Ok(()),
        };
        parts.push(Value::String(part.to_owned()));
        self.set(&format!("collection.without={}", Value::Array(parts)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_replace_and_create() {
        let mut document = Document::from_yaml("workload: {rate: 1}\n").expect("valid");
        document.set("workload.rate=16000").expect("replaces");
        document.set("checkpoint.interval=5 s").expect("creates");
        assert_eq!(document.root["workload"]["rate"], 16000);
        assert_eq!(document.root["checkpoint"]["interval"], "5 s");
    }

    #[test]
    fn parts_are_left_out_besides_those_of_the_file() {
        let mut document = Document::from_yaml(
            "collection: {without: [compression]}\nrebalance: {policy: cells}\n",
        )
        .expect("valid");
        document.without("hot-cold").expect("added");
        document.without("dynamic-partitions").expect("set");
        let without = serde_json::json!(["compression", "hot-cold"]);
        assert_eq!(document.root["collection"]["without"], without);
        assert_eq!(document.root["rebalance"]["policy"], "none");
        let mut document = Document::from_yaml("name: a\n").expect("valid");
        document.without("hot-cold").expect("made");
        assert_eq!(document.root["collection"]["without"], serde_json::json!(["hot-cold"]));
    }

    #[test]
    fn overrides_that_make_no_sense_say_why() {
        let mut document = Document::from_yaml("name: a\n").expect("valid");
        let says = |assignment: &str, document: &mut Document| {
            document.set(assignment).expect_err("refused").to_string()
        };
        assert!(says("parallelism", &mut document).contains("there is no '='"));
        assert!(says("name.x=1", &mut document).contains("holds a plain value"));
        assert!(says("name=[1", &mut document).contains("is not a YAML value"));
    }

    #[test]
    fn text_that_is_no_mapping_is_refused() {
        let says = |text: &str| Document::from_yaml(text).expect_err("refused").to_string();
        assert!(says("- 1\n- 2\n").contains("not a mapping"));
        assert!(says("a: [1\n").contains("not valid YAML"));
        assert!(says("a: 1\na: 2\n").contains("not valid YAML"));
        assert!(Document::from_json("{").expect_err("refused").to_string().contains("valid JSON"));
    }
}
