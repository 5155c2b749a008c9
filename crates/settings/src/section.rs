//! Reads one mapping key by key and collects every problem instead of stopping at the first one.
//!
//! A method that finds a problem notes it and returns a valid value, so that the rest of the file
//! is read too. The caller checks the notes before it uses any value.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde_json::{Map, Value};
use vstream_engine::RemoteLevel;

use crate::address::{after_scheme, FolderAddress};
use crate::document::Document;
use crate::error::SettingsError;
use crate::known::{Form, KnownKeys};
use crate::units;

/// The problems so far and the keys that were asked for. All sections of a document share them.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    problems: RefCell<Vec<String>>,
    pub(crate) known: KnownKeys,
}

impl Notes {
    pub(crate) fn add(&self, problem: String) {
        self.problems.borrow_mut().push(problem);
    }

    /// Returns `value` if there are no problems, otherwise the error.
    pub(crate) fn or_error<T>(self, value: T) -> Result<T, SettingsError> {
        let problems = self.problems.into_inner();
        if problems.is_empty() {
            Ok(value)
        } else {
            Err(SettingsError::new(problems))
        }
    }
}

/// One mapping of the document. `path` is its dotted key, empty for the root.
pub(crate) struct Section<'a> {
    path: String,
    fields: Option<&'a Map<String, Value>>,
    plain_units: bool,
    known_keys: RefCell<Vec<&'static str>>,
    notes: &'a Notes,
}

/// How a quantity with a unit is read, written and named.
struct Unit {
    what: &'static str,
    example: &'static str,
    read: fn(&str) -> Option<u64>,
    write: fn(u64) -> String,
}

const DURATION: Unit = Unit {
    what: "duration",
    example: "10 s, 500 ms or 2 min",
    read: units::duration_ms,
    write: units::duration_text,
};

const SIZE: Unit = Unit {
    what: "size",
    example: "64 mb or 4 gb",
    read: units::size_bytes,
    write: units::size_text,
};

impl<'a> Section<'a> {
    pub(crate) fn root(document: &'a Document, notes: &'a Notes) -> Section<'a> {
        Section {
            path: String::new(),
            fields: document.root.as_object(),
            plain_units: document.plain_units,
            known_keys: RefCell::default(),
            notes,
        }
    }

    /// The mapping at `key`; empty if the file has none.
    pub(crate) fn section(&self, key: &'static str) -> Section<'a> {
        self.know(key, || (Form::Section, None));
        let fields = match self.get(key) {
            None => None,
            Some(Value::Object(fields)) => Some(fields),
            Some(other) => {
                self.note(
                    key,
                    &format!("{} is not a mapping. Write key: value pairs.", show(other)),
                );
                None
            }
        };
        Section {
            path: self.path_of(key),
            fields,
            plain_units: self.plain_units,
            known_keys: RefCell::default(),
            notes: self.notes,
        }
    }

    /// True if the file has a value at `key` other than `null`.
    pub(crate) fn has(&self, key: &'static str) -> bool {
        self.notes.known.set_optional(&self.path_of(key));
        self.get(key).is_some()
    }

    /// True if the document has no problem so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.notes.problems.borrow().is_empty()
    }

    /// Notes a problem at `key`.
    pub(crate) fn note(&self, key: &str, sentence: &str) {
        self.notes.add(format!("{}: {sentence}", self.path_of(key)));
    }

    /// A whole number inside `range`. Without a default the key is required.
    pub(crate) fn integer(
        &self,
        key: &'static str,
        range: RangeInclusive<u64>,
        default: Option<u64>,
    ) -> u64 {
        self.know(key, || {
            let ends = (range.start().to_string(), range.end().to_string());
            (Form::between("whole number", ends), default.map(Value::from))
        });
        let Some(value) = self.get(key) else {
            let hint = || format!("a whole number from {} to {}", range.start(), range.end());
            return default.unwrap_or_else(|| self.missing(key, &hint(), *range.start()));
        };
        match value.as_u64().filter(|number| range.contains(number)) {
            Some(number) => number,
            None => {
                self.outside(key, value, "a whole number", &range);
                *range.start()
            }
        }
    }

    /// A finite number inside `range`.
    pub(crate) fn number(
        &self,
        key: &'static str,
        range: RangeInclusive<f64>,
        default: f64,
    ) -> f64 {
        self.know(key, || {
            let ends = (range.start().to_string(), range.end().to_string());
            (Form::between("number", ends), Some(default.into()))
        });
        let Some(value) = self.get(key) else { return default };
        match value.as_f64().filter(|number| range.contains(number)) {
            Some(number) => number,
            None => {
                self.outside(key, value, "a number", &range);
                default
            }
        }
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, key: &'static str, default: bool) -> bool {
        self.know(key, || (Form::Plain("`true`, `false`"), Some(default.into())));
        let Some(value) = self.get(key) else { return default };
        value.as_bool().unwrap_or_else(|| {
            self.note(key, &format!("{} is neither true nor false. Write one.", show(value)));
            default
        })
    }

    /// A text that is not empty. Without a default the key is required.
    pub(crate) fn text(&self, key: &'static str, default: Option<&str>) -> String {
        self.know(key, || (Form::Plain("text"), default.map(Value::from)));
        match self.get(key) {
            None => match default {
                Some(text) => text.to_owned(),
                None => self.missing(key, "a text", String::new()),
            },
            Some(Value::String(text)) if !text.trim().is_empty() => text.clone(),
            Some(other) => {
                self.note(key, &format!("{} is not a text. Write one, in quotes.", show(other)));
                String::new()
            }
        }
    }

    /// A list of texts; empty if the file has none.
    pub(crate) fn texts(&self, key: &'static str) -> Vec<String> {
        self.know(key, || (Form::Plain("list of texts"), Some(Value::Array(Vec::new()))));
        let Some(value) = self.get(key) else { return Vec::new() };
        let list: Option<Vec<String>> = value
            .as_array()
            .and_then(|list| list.iter().map(|text| text.as_str().map(str::to_owned)).collect());
        list.unwrap_or_else(|| {
            self.note(key, &format!("{} is not a list of texts. Write [a, b].", show(value)));
            Vec::new()
        })
    }

    /// One of `choices` by its name. The first one if the file has another name.
    pub(crate) fn choice<T: Clone + PartialEq>(
        &self,
        key: &'static str,
        what: &str,
        choices: &[(&'static str, T)],
        default: Option<T>,
    ) -> T {
        let find = |text: &str| choices.iter().find(|(name, _)| *name == text);
        self.choice_or_alias(key, what, choices, default, |text| Some(find(text)?.1.clone()))
    }

    /// Reads like [`Section::choice`], but `parse` accepts more names than a message should list.
    pub(crate) fn choice_or_alias<T: Clone + PartialEq>(
        &self,
        key: &'static str,
        what: &str,
        choices: &[(&'static str, T)],
        default: Option<T>,
        parse: impl Fn(&str) -> Option<T>,
    ) -> T {
        self.know(key, || {
            let name_of = |value: &T| choices.iter().find(|(_, one)| one == value);
            let default = default.as_ref().and_then(name_of).map(|(name, _)| Value::from(*name));
            (Form::Choice(choices.iter().map(|(name, _)| *name).collect()), default)
        });
        let names = || choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let fallback = || choices[0].1.clone();
        let Some(value) = self.get(key) else {
            return default
                .unwrap_or_else(|| self.missing(key, &format!("one of {}", names()), fallback()));
        };
        value.as_str().and_then(parse).unwrap_or_else(|| {
            let value = show(value);
            self.note(key, &format!("{value} is not {what}. Choose one of {}.", names()));
            fallback()
        })
    }

    /// A duration in milliseconds.
    pub(crate) fn duration_ms(
        &self,
        key: &'static str,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> u64 {
        self.quantity(key, &DURATION, range, default)
    }

    /// A size in bytes.
    pub(crate) fn size_bytes(
        &self,
        key: &'static str,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> u64 {
        self.quantity(key, &SIZE, range, default)
    }

    /// A path, made absolute against the working directory. Without a default the key is required.
    pub(crate) fn path(&self, key: &'static str, default: Option<&str>) -> PathBuf {
        self.know(key, || (Form::Plain("path"), default.map(Value::from)));
        let text = match (self.get(key), default) {
            (None, None) => self.missing(key, "a path", String::new()),
            _ => self.text(key, default),
        };
        if text.is_empty() {
            return PathBuf::new();
        }
        if after_scheme(&text).is_some() {
            self.note(key, "this is a path of this machine, and no address. Write it without ://.");
            return PathBuf::new();
        }
        std::path::absolute(&text).unwrap_or_else(|_| PathBuf::from(text))
    }

    /// A folder on this machine, made absolute, or an address on another file system. Required.
    pub(crate) fn address(&self, key: &'static str) -> FolderAddress {
        self.know(key, || (Form::Plain("path or address"), None));
        if self.get(key).is_none() {
            self.missing(key, "a path or an address such as s3://bucket/folder", ());
            return FolderAddress::Local(PathBuf::new());
        }
        let text = self.text(key, None);
        if text.is_empty() {
            return FolderAddress::Local(PathBuf::new());
        }
        FolderAddress::parse(&text).unwrap_or_else(|sentence| {
            self.note(key, &sentence);
            FolderAddress::Local(PathBuf::new())
        })
    }

    /// The address of a store that an engine opens by itself: a folder, made absolute, or
    /// `s3://bucket/folder`.
    pub(crate) fn far_store(&self, key: &'static str) -> String {
        self.know(key, || (Form::Plain("path or address"), None));
        let text = self.text(key, None);
        if text.is_empty() {
            return text;
        }
        if after_scheme(&text).is_some_and(|rest| rest.contains('@')) {
            // Addresses are printed and logged, so the sentence does not repeat this one.
            self.note(
                key,
                "an address holds no credentials. Leave them to the environment: AWS_ACCESS_KEY_ID and \
                 AWS_SECRET_ACCESS_KEY.",
            );
            return String::new();
        }
        if let Err(refused) = RemoteLevel::at(&text, 0) {
            self.note(key, &format!("{refused}."));
            return String::new();
        }
        if after_scheme(&text).is_some() {
            return text;
        }
        std::path::absolute(&text).map_or(text, |path| path.display().to_string())
    }

    /// The unchanged mapping at `key`, for settings that are passed on without validation.
    pub(crate) fn mapping(&self, key: &'static str) -> Map<String, Value> {
        self.know(key, || (Form::Plain("mapping"), Some(Value::Object(Map::new()))));
        self.section(key).fields.cloned().unwrap_or_default()
    }

    /// Notes every unknown key: one that no method read. Call it last.
    pub(crate) fn finish(&self) {
        let known_keys = self.known_keys.borrow();
        for key in self.fields.into_iter().flat_map(Map::keys) {
            if !known_keys.contains(&key.as_str()) {
                let known = known_keys.join(", ");
                self.note(key, &format!("there is no such key. The keys here are {known}."));
            }
        }
    }

    fn quantity(
        &self,
        key: &'static str,
        unit: &Unit,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> u64 {
        self.know(key, || {
            let ends = ((unit.write)(*range.start()), (unit.write)(*range.end()));
            (Form::between(unit.what, ends), Some(default.into()))
        });
        let Some(value) = self.get(key) else { return default };
        let read = match value {
            Value::String(text) => (unit.read)(text),
            Value::Number(number) if self.plain_units => number.as_u64(),
            // Zero is the same in every unit.
            Value::Number(number) => number.as_u64().filter(|number| *number == 0),
            _ => None,
        };
        match read {
            Some(number) if range.contains(&number) => number,
            Some(_) => {
                let range = (unit.write)(*range.start())..=(unit.write)(*range.end());
                self.outside(key, value, &format!("a {}", unit.what), &range);
                default
            }
            None => {
                let sentence = format!(
                    "{} is not a {}. Write a whole number and its unit, such as {}.",
                    show(value),
                    unit.what,
                    unit.example
                );
                self.note(key, &sentence);
                default
            }
        }
    }

    /// Keeps how `key` is read, with its default in the normalised form, for the reference.
    fn know(&self, key: &'static str, read: impl FnOnce() -> (Form, Option<Value>)) {
        self.notes.known.add(self.path_of(key), read);
    }

    fn get(&self, key: &'static str) -> Option<&'a Value> {
        self.notes.known.see(self.path_of(key));
        let mut known_keys = self.known_keys.borrow_mut();
        if !known_keys.contains(&key) {
            known_keys.push(key);
        }
        self.fields.and_then(|fields| fields.get(key)).filter(|value| !value.is_null())
    }

    fn missing<T>(&self, key: &str, expected: &str, fallback: T) -> T {
        self.note(key, &format!("this key is missing. Add it with {expected}."));
        fallback
    }

    fn outside<T: Display>(&self, key: &str, value: &Value, what: &str, range: &RangeInclusive<T>) {
        let (low, high) = (range.start(), range.end());
        let value = show(value);
        self.note(key, &format!("{value} is out of range. Give {what} from {low} to {high}."));
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }
}

/// A value for a sentence. A long one is cut.
fn show(value: &Value) -> String {
    let text = match value {
        Value::String(text) => format!("'{text}'"),
        other => other.to_string(),
    };
    if text.chars().count() <= 60 {
        return text;
    }
    text.chars().take(57).chain("...".chars()).collect()
}
