use std::ops::Bound;

use vstream_attribute::{AttributeKind, Attributes, AttributesBuilder, Range, ValueRef};

use super::*;

fn schema() -> Schema {
    let attributes = [("price", AttributeKind::F64), ("colour", AttributeKind::Keyword)];
    Schema::new(attributes).expect("a schema")
}

fn refused(fields: &Fields<'_>, schema: &Schema) -> Option<RefusedKind> {
    check_fields(fields, schema).err().map(|refused| refused.kind)
}

#[test]
fn what_the_schema_lacks_is_refused_by_reason() {
    let (schema, mut builder) = (schema(), AttributesBuilder::default());
    builder.set(&schema, 0, &ValueRef::F64(2.5)).expect("a value");
    let priced = Fields { attributes: builder.build(), ..Fields::NONE };
    assert_eq!(refused(&priced, &schema), None);
    assert_eq!(refused(&priced, &Schema::default()), Some(RefusedKind::UnknownAttribute));
    let others = Schema::new([("price", AttributeKind::I64)]).expect("a schema");
    assert_eq!(refused(&priced, &others), Some(RefusedKind::WrongType));
    let (fits, large) = (vec![1; PAYLOAD_BYTES_MAX], vec![1; PAYLOAD_BYTES_MAX + 1]);
    let with = |payload| Fields { payload: Some(payload), ..Fields::NONE };
    assert_eq!(refused(&with(&fits), &schema), None);
    assert_eq!(refused(&with(&large), &schema), Some(RefusedKind::TooLarge));
}

#[test]
fn ids_are_of_the_kind_of_the_collection() {
    let numbers = schema();
    let texts = Schema { id: IdKind::String, ..schema() };
    let (longest, longer) = ("x".repeat(STRING_ID_BYTES_MAX), "x".repeat(STRING_ID_BYTES_MAX + 1));
    let named = |name| Fields { name, check: 7, ..Fields::NONE };
    assert_eq!(refused(&named("a"), &numbers), Some(RefusedKind::BadId));
    assert_eq!(refused(&Fields { check: 7, ..Fields::NONE }, &numbers), Some(RefusedKind::BadId));
    assert_eq!(refused(&Fields::NONE, &texts), Some(RefusedKind::BadId));
    assert_eq!(refused(&named(&longest), &texts), None);
    assert_eq!(refused(&named(&longer), &texts), Some(RefusedKind::BadId));
}

#[test]
fn updates_are_checked_as_rows_are() {
    let schema = schema();
    let kind = |update| check_update(&update, &schema).err().map(|refused| refused.kind);
    let payload = vec![0; PAYLOAD_BYTES_MAX + 1];
    let (payload, set) = (PayloadChange::Set(&payload), Attributes::NONE);
    assert_eq!(kind(Update { payload, ..Update::default() }), Some(RefusedKind::TooLarge));
    assert_eq!(
        kind(Update { set, unset: &[2], ..Update::default() }),
        Some(RefusedKind::UnknownAttribute)
    );
    assert_eq!(kind(Update { set, unset: &[0, 1], ..Update::default() }), None);
}

#[test]
fn filters_are_limited() {
    let schema = schema();
    let kind = |filter: &Filter| check_filter(filter, &schema).err().map(|refused| refused.kind);
    let cheap = || {
        let range = Range { from: Bound::Unbounded, to: Bound::Excluded(3.0) };
        Filter::Attribute(0, Test::F64Range(range))
    };
    assert_eq!(kind(&Filter::And(vec![cheap(), Filter::Not(Box::new(cheap()))])), None);
    assert_eq!(kind(&Filter::Attribute(2, Test::Exists)), Some(RefusedKind::UnknownAttribute));
    let nested = (1..FILTER_DEPTH_MAX).fold(cheap(), |inner, _| Filter::Not(Box::new(inner)));
    assert_eq!(kind(&nested), None);
    assert_eq!(kind(&Filter::Not(Box::new(nested))), Some(RefusedKind::BadFilter));
    assert_eq!(kind(&Filter::Or(vec![cheap(); FILTER_NODES_MAX])), Some(RefusedKind::BadFilter));
    assert_eq!(kind(&Filter::Ids(vec![1, 2, 3])), None);
    assert_eq!(kind(&Filter::Ids(vec![2, 1])), Some(RefusedKind::BadFilter));
    let many = Filter::Ids((0..=FILTER_VALUES_MAX as u64).collect());
    assert_eq!(kind(&many), Some(RefusedKind::BadFilter));
}
