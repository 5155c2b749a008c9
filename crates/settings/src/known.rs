//! The keys that a reading asked for, as the reference of job files shows them.

use std::cell::RefCell;

use serde_json::Value;

/// How the value of a key is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// Key-value pairs that have entries of their own.
    Section,
    /// One of these names.
    Choice(Vec<&'static str>),
    /// A quantity of this kind, with its least and largest value as a file says them.
    Range(&'static str, String, String),
    /// A value of this kind without bounds.
    Plain(&'static str),
}

impl Form {
    pub(crate) fn between(what: &'static str, (low, high): (String, String)) -> Form {
        Form::Range(what, low, high)
    }
}

/// One key that a parser knows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KnownKey {
    /// The dotted key from the root of the file.
    pub(crate) path: String,
    /// How its value is written; `None` if the parser only asked whether there is one.
    pub(crate) form: Option<Form>,
    /// The value of an absent key in the normalised form; `None` if the key must be there.
    pub(crate) default: Option<Value>,
    /// The parser asked whether the file has the key, so it may be absent.
    pub(crate) is_optional: bool,
}

/// The keys of one document in the order in which they were asked for.
#[derive(Debug, Default)]
pub(crate) struct KnownKeys {
    keys: RefCell<Vec<KnownKey>>,
}

impl KnownKeys {
    /// Adds a key; the first form that is given for a path stays.
    pub(crate) fn add(&self, path: String, read: impl FnOnce() -> (Form, Option<Value>)) {
        self.change(path, |key| {
            if key.form.is_none() {
                let (form, default) = read();
                (key.form, key.default) = (Some(form), default);
            }
        });
    }

    /// Adds a key of which nothing else is known yet.
    pub(crate) fn see(&self, path: String) {
        self.change(path, |_| {});
    }

    /// Notes that the key at `path` may be absent.
    pub(crate) fn set_optional(&self, path: &str) {
        self.change(path.to_owned(), |key| key.is_optional = true);
    }

    pub(crate) fn into_vec(self) -> Vec<KnownKey> {
        self.keys.into_inner()
    }

    fn change(&self, path: String, change: impl FnOnce(&mut KnownKey)) {
        let mut keys = self.keys.borrow_mut();
        let index = keys.iter().position(|key| key.path == path).unwrap_or_else(|| {
            keys.push(KnownKey { path, form: None, default: None, is_optional: false });
            keys.len() - 1
        });
        change(&mut keys[index]);
    }
}
