//! Attributes and payloads of rows, as the Python half gives them: column by column.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use vstream_engine::{
    AttributeKind, Attributes, AttributesBuilder, Fields, Refused, Schema, ValueRef,
    PAYLOAD_BYTES_MAX,
};

use crate::failure::Failure;

/// Numbers, and which of them are there: all without a mask.
type Masked<T> = (Vec<T>, Option<Vec<bool>>);

/// The values of one attribute, one per row.
enum Values {
    Texts(Vec<Option<String>>),
    Lists(Vec<Option<Vec<String>>>),
    Whole(Masked<i64>),
    Real(Masked<f64>),
    Truth(Masked<bool>),
}

/// A column: the attribute's name and kind, and its values.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: AttributeKind,
    values: Values,
}

/// What some rows carry beside their vectors.
#[derive(Default)]
pub(crate) struct FieldColumns {
    pub(crate) columns: Vec<Column>,
    payloads: Option<Vec<Option<Vec<u8>>>>,
}

impl<'a, 'py> FromPyObject<'a, 'py> for FieldColumns {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<FieldColumns> {
        type Given<'py> =
            (Vec<(String, String, Bound<'py, PyAny>)>, Option<Vec<Option<Bound<'py, PyBytes>>>>);
        let (given, payloads): Given<'py> = given.extract()?;
        let columns = given.into_iter().map(|(name, kind, values)| {
            let kind = AttributeKind::from_name(&kind)
                .ok_or_else(|| PyTypeError::new_err(format!("{kind} is no kind")))?;
            Ok(Column { name, kind, values: Values::take(kind, &values)? })
        });
        let columns = columns.collect::<PyResult<_>>()?;
        let bytes = |payload: Option<Bound<'py, PyBytes>>| payload.map(|it| it.as_bytes().to_vec());
        let payloads = payloads.map(|payloads| payloads.into_iter().map(bytes).collect());
        Ok(FieldColumns { columns, payloads })
    }
}

impl Values {
    fn take(kind: AttributeKind, given: &Bound<'_, PyAny>) -> PyResult<Values> {
        Ok(match kind {
            AttributeKind::Keyword | AttributeKind::Text => Values::Texts(given.extract()?),
            AttributeKind::Keywords => Values::Lists(given.extract()?),
            AttributeKind::I64 | AttributeKind::Timestamp => Values::Whole(masked(given)?),
            AttributeKind::F64 => Values::Real(masked(given)?),
            AttributeKind::Bool => Values::Truth(masked(given)?),
        })
    }

    fn len(&self) -> usize {
        match self {
            Values::Texts(values) => values.len(),
            Values::Lists(values) => values.len(),
            Values::Whole((values, _)) => values.len(),
            Values::Real((values, _)) => values.len(),
            Values::Truth((values, _)) => values.len(),
        }
    }

    /// The value of a row, if it has one.
    fn get(&self, kind: AttributeKind, row: usize) -> Option<ValueRef<'_>> {
        fn at<T: Copy>((values, mask): &Masked<T>, row: usize) -> Option<T> {
            mask.as_ref().is_none_or(|mask| mask[row]).then(|| values[row])
        }
        match self {
            Values::Texts(values) => values[row].as_deref().map(|text| match kind {
                AttributeKind::Text => ValueRef::Text(text),
                _ => ValueRef::Keyword(text),
            }),
            Values::Lists(values) => {
                let texts = values[row].as_ref()?;
                Some(ValueRef::Keywords(texts.iter().map(String::as_str).collect()))
            }
            Values::Whole(values) => at(values, row).map(|number| match kind {
                AttributeKind::Timestamp => ValueRef::Timestamp(number),
                _ => ValueRef::I64(number),
            }),
            Values::Real(values) => at(values, row).map(ValueRef::F64),
            Values::Truth(values) => at(values, row).map(ValueRef::Bool),
        }
    }
}

/// Copies numbers and their mask, since the interpreter lock is released while they are read.
fn masked<T>(given: &Bound<'_, PyAny>) -> PyResult<Masked<T>>
where
    T: numpy::Element + Copy,
{
    let (values, mask): (PyReadonlyArray1<'_, T>, Option<PyReadonlyArray1<'_, bool>>) =
        given.extract()?;
    let mask = mask.map(|mask| mask.as_array().to_vec());
    Ok((values.as_array().to_vec(), mask))
}

impl FieldColumns {
    /// Checks that every column has a value for each of `rows` rows.
    pub(crate) fn check(&self, rows: usize) -> Result<(), Failure> {
        let short = self.columns.iter().find(|column| {
            let masks_fit = match &column.values {
                Values::Whole((_, mask)) => mask.as_ref().is_none_or(|mask| mask.len() == rows),
                Values::Real((_, mask)) => mask.as_ref().is_none_or(|mask| mask.len() == rows),
                Values::Truth((_, mask)) => mask.as_ref().is_none_or(|mask| mask.len() == rows),
                Values::Texts(_) | Values::Lists(_) => true,
            };
            column.values.len() != rows || !masks_fit
        });
        if let Some(column) = short {
            let (name, values) = (&column.name, column.values.len());
            return Err(Failure::invalid(format!(
                "the attribute '{name}' has {values} values and there are {rows} rows"
            )));
        }
        match &self.payloads {
            Some(payloads) if payloads.len() != rows => Err(Failure::invalid(format!(
                "there are {} payloads and {rows} rows: pass one per row",
                payloads.len()
            ))),
            _ => Ok(()),
        }
    }

    /// Encodes the rows for a schema that has all the columns. Errors: what the schema refuses.
    pub(crate) fn encode(&self, schema: &Schema, rows: usize) -> Result<EncodedFields, Refused> {
        let columns: Vec<(u16, &Column)> = self
            .columns
            .iter()
            .map(|column| (schema.column(&column.name).unwrap_or(u16::MAX), column))
            .collect();
        let mut encoded = EncodedFields { bytes: Vec::new(), ends: Vec::with_capacity(rows) };
        let mut builder = AttributesBuilder::default();
        for row in 0..rows {
            builder.clear();
            for (at, column) in &columns {
                if let Some(value) = column.values.get(column.kind, row) {
                    builder.set(schema, *at, &value)?;
                }
            }
            encoded.bytes.extend_from_slice(builder.build().bytes());
            encoded.ends.push(encoded.bytes.len());
        }
        Ok(encoded)
    }

    /// Columns of `schema` that a row has a name for and no value: an update removes these.
    pub(crate) fn removed(&self, schema: &Schema, row: usize) -> Vec<u16> {
        let is_missing = |column: &&Column| column.values.get(column.kind, row).is_none();
        let at = |column: &Column| schema.column(&column.name);
        self.columns.iter().filter(is_missing).filter_map(at).collect()
    }

    /// Errors: `Invalid` if a payload is too large.
    pub(crate) fn check_payloads(&self) -> Result<(), Failure> {
        let is_large = |payload: &&Vec<u8>| payload.len() > PAYLOAD_BYTES_MAX;
        match self.payloads.iter().flatten().flatten().find(is_large) {
            None => Ok(()),
            Some(payload) => Err(Failure::invalid(format!(
                "a payload has {} bytes: the limit is {PAYLOAD_BYTES_MAX}",
                payload.len()
            ))),
        }
    }

    /// The payload of a row.
    pub(crate) fn payload(&self, row: usize) -> Option<&[u8]> {
        self.payloads.as_ref()?[row].as_deref()
    }

    /// True if payloads were given, also if every one of them is missing.
    pub(crate) fn has_payloads(&self) -> bool {
        self.payloads.is_some()
    }
}

/// The attributes of some rows in the engine's form.
pub(crate) struct EncodedFields {
    bytes: Vec<u8>,
    /// Where the bytes of each row end.
    ends: Vec<usize>,
}

impl EncodedFields {
    /// Errors: `Invalid` if a row has no group where groups are shared.
    pub(crate) fn check_groups(&self, schema: &Schema) -> Result<(), Failure> {
        let Some(column) = schema.group_column() else { return Ok(()) };
        let has_group = |row: usize| {
            let group = self.row(row).get(column);
            matches!(group, Some(ValueRef::Keyword(group)) if !group.is_empty())
        };
        match (0..self.ends.len()).find(|&row| !has_group(row)) {
            None => Ok(()),
            Some(row) => Err(Failure::invalid(format!(
                "row {row} has no group and the collection has shared groups: pass group"
            ))),
        }
    }

    /// The attributes of a row.
    pub(crate) fn row(&self, row: usize) -> Attributes<'_> {
        let from = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        Attributes::decode(&self.bytes[from..self.ends[row]]).expect("bytes of a builder")
    }

    /// Attributes, payload and string id of a row as the engine takes them.
    pub(crate) fn fields<'a>(
        &'a self,
        row: usize,
        columns: &'a FieldColumns,
        (name, check): (&'a str, u64),
    ) -> Fields<'a> {
        Fields { name, check, attributes: self.row(row), payload: columns.payload(row) }
    }
}
