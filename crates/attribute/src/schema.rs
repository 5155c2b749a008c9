//! The schema of a collection: which ids, attributes and groups its rows have.

mod bytes;
#[cfg(test)]
mod tests;
mod text;

use crate::error::{Refused, RefusedKind};

/// Most attributes of a collection.
pub const ATTRIBUTES_MAX: usize = 256;
/// Most bytes of the name of an attribute.
pub const NAME_BYTES_MAX: usize = 128;
/// Most bytes of all attributes of a row, encoded.
pub const ATTRIBUTES_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Most bytes of a string id.
pub const STRING_ID_BYTES_MAX: usize = 512;
/// Name of the attribute, a keyword, that holds the group of a row where groups are shared.
pub const GROUP_ATTRIBUTE: &str = "group";

/// The kind of the values of an attribute. Every attribute may be missing in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttributeKind {
    /// A word that is compared as a whole.
    Keyword,
    /// A list of such words.
    Keywords,
    /// A whole number.
    I64,
    /// A number.
    F64,
    /// Yes or no.
    Bool,
    /// A moment, in milliseconds since 1970-01-01 UTC.
    Timestamp,
    /// A text that is searched by words, in isolated groups.
    Text,
}

impl AttributeKind {
    /// All kinds, in the order of their tags.
    pub const ALL: [AttributeKind; 7] = [
        AttributeKind::Keyword,
        AttributeKind::Keywords,
        AttributeKind::I64,
        AttributeKind::F64,
        AttributeKind::Bool,
        AttributeKind::Timestamp,
        AttributeKind::Text,
    ];

    /// The name used in settings.
    pub fn name(self) -> &'static str {
        ["keyword", "keywords", "i64", "f64", "bool", "timestamp", "text"][self as usize]
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<AttributeKind> {
        AttributeKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The byte that stands for the kind in files.
    pub fn tag(self) -> u8 {
        self as u8
    }

    /// The kind with this tag.
    pub fn from_tag(tag: u8) -> Option<AttributeKind> {
        AttributeKind::ALL.get(usize::from(tag)).copied()
    }
}

/// An attribute of the rows of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name, unique in the schema.
    pub name: String,
    /// The kind of its values.
    pub kind: AttributeKind,
}

/// The kind of the ids of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdKind {
    /// Whole numbers.
    #[default]
    U64,
    /// Texts of 1 to [`STRING_ID_BYTES_MAX`] bytes.
    String,
}

/// Whether rows belong to groups, and what a query may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// Rows have no group.
    #[default]
    None,
    /// Every row has a group, its attribute [`GROUP_ATTRIBUTE`]; a query names a group or asks all.
    Shared,
    /// Every row has a group, and every query sees one group alone.
    Isolated,
}

/// What the rows of a collection carry beside their vectors.
///
/// The position of an attribute is its *column*, which files and filters use. Attributes are added
/// at the end and never removed or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// The kind of ids.
    pub id: IdKind,
    /// Key of the hash that stands for a string id ([`crate::NameHash`]). Whoever makes a collection
    /// of string ids draws it at random. It never changes, because the hashes are stored.
    pub id_key: [u8; 16],
    /// Attributes by column.
    pub attributes: Vec<Attribute>,
    /// True if an attribute that the schema lacks is added with the kind of its first value.
    pub open: bool,
    /// Groups of rows.
    pub grouping: Grouping,
}

impl Schema {
    /// A schema of number ids with these attributes. Errors: see [`Schema::add`].
    pub fn new<'a>(
        attributes: impl IntoIterator<Item = (&'a str, AttributeKind)>,
    ) -> Result<Schema, Refused> {
        let mut schema = Schema::default();
        for (name, kind) in attributes {
            schema.add(name, kind)?;
        }
        Ok(schema)
    }

    /// True if rows carry nothing beside number ids and vectors.
    pub fn is_plain(&self) -> bool {
        *self == Schema::default()
    }

    /// The column of an attribute.
    pub fn column(&self, name: &str) -> Option<u16> {
        self.attributes.iter().position(|attribute| attribute.name == name).map(|at| at as u16)
    }

    /// Says how rows are grouped. Shared groups get the attribute [`GROUP_ATTRIBUTE`], at the end
    /// unless it is there. Errors: `BadSchema` if it is there with another kind, or one too many.
    pub fn set_grouping(&mut self, grouping: Grouping) -> Result<(), Refused> {
        if grouping == Grouping::Shared {
            self.add(GROUP_ATTRIBUTE, AttributeKind::Keyword)?;
        }
        self.grouping = grouping;
        Ok(())
    }

    /// The column of the group of a row, where groups are shared.
    pub fn group_column(&self) -> Option<u16> {
        match self.grouping {
            Grouping::Shared => self.column(GROUP_ATTRIBUTE),
            Grouping::None | Grouping::Isolated => None,
        }
    }

    /// The kind of a column's values.
    pub fn kind(&self, column: u16) -> Option<AttributeKind> {
        self.attributes.get(usize::from(column)).map(|attribute| attribute.kind)
    }

    /// Adds an attribute and returns its column. Errors: `BadSchema` if the name is empty, too
    /// long, begins with `$` or is there with another kind, or if there are too many attributes.
    pub fn add(&mut self, name: &str, kind: AttributeKind) -> Result<u16, Refused> {
        let bad = |what: String| Err(Refused::new(RefusedKind::BadSchema, what));
        if let Some(column) = self.column(name) {
            let there = self.attributes[usize::from(column)].kind;
            if there == kind {
                return Ok(column);
            }
            let (there, kind) = (there.name(), kind.name());
            return bad(format!("The attribute '{name}' is of type {there}, not {kind}."));
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.starts_with('$') {
            return bad(format!(
                "'{name}' is no name of an attribute: use 1 to {NAME_BYTES_MAX} bytes, not \
                 beginning with '$'."
            ));
        }
        if self.attributes.len() == ATTRIBUTES_MAX {
            return bad(format!(
                "The collection has {ATTRIBUTES_MAX} attributes, which is the limit."
            ));
        }
        self.attributes.push(Attribute { name: name.to_owned(), kind });
        Ok((self.attributes.len() - 1) as u16)
    }

    /// Checks that this schema is `older` with attributes added at its end, so that rows and filters
    /// of the older one keep their meaning. Whether the schema is open may differ.
    ///
    /// Errors: `BadSchema`, with the first difference.
    pub fn extends(&self, older: &Schema) -> Result<(), Refused> {
        let bad = |what: String| Err(Refused::new(RefusedKind::BadSchema, what));
        if self.id != older.id {
            return bad("The kind of ids cannot change.".to_owned());
        }
        if self.grouping != older.grouping {
            return bad("The groups of a collection cannot change.".to_owned());
        }
        for (column, was) in older.attributes.iter().enumerate() {
            let (name, kind) = (&was.name, was.kind.name());
            match self.attributes.get(column) {
                Some(is) if is == was => {}
                Some(is) if is.name == *name => {
                    let is = is.kind.name();
                    return bad(format!("The attribute '{name}' is of type {kind}, not {is}."));
                }
                Some(is) => {
                    let is = &is.name;
                    return bad(format!(
                        "Column {column} is '{name}', not '{is}': add attributes at the end."
                    ));
                }
                None => return bad(format!("The attribute '{name}' cannot be removed.")),
            }
        }
        Ok(())
    }
}
