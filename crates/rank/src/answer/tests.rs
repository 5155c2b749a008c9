use vstream_attribute::{AttributeKind, Schema, Value, ValueRef};

use super::*;
use crate::error::QueryErrorKind;

fn ranked(id: u64, score: f64) -> Ranked {
    Ranked { score, id, version: 1, distance: None }
}

fn ids(rows: &[Ranked]) -> Vec<u64> {
    rows.iter().map(|row| row.id).collect()
}

#[test]
fn scores_descend_ties_go_by_id_and_no_number_is_last() {
    let rows = [
        ranked(7, 0.0),
        ranked(3, -0.0),
        ranked(1, f64::NAN),
        ranked(0, f64::NAN),
        ranked(9, f64::INFINITY),
        ranked(8, f64::NEG_INFINITY),
        ranked(5, 2.0),
        ranked(4, 2.0),
    ];
    let all = [9, 4, 5, 3, 7, 8, 0, 1];
    for k in 0..=rows.len() {
        let mut best = Best::new(k);
        for row in rows {
            best.offer(row);
        }
        assert_eq!(best.bound().map(|row| row.id), k.checked_sub(1).map(|last| all[last]));
        assert_eq!(ids(&best.finish()), all[..k], "k = {k}");
    }
}

#[test]
fn a_row_that_replaces_one_of_its_value_lets_a_dropped_value_stay_out() {
    let mut best = Diversify::new(3, 2);
    let (red, blue) = (ValueRef::Keyword("red"), ValueRef::Keyword("blue"));
    for (value, id, score) in [
        (Some(&red), 1, 5.0),
        (Some(&red), 2, 4.0),
        (Some(&red), 3, 3.0),
        (Some(&blue), 4, 1.0),
        (Some(&red), 5, 6.0),
        (None, 6, 0.5),
        (Some(&blue), 7, 2.0),
    ] {
        best.offer(value, ranked(id, score));
    }
    let rows = best.finish();
    assert_eq!(rows.iter().map(|(_, row)| row.id).collect::<Vec<_>>(), [5, 1, 7]);
    assert_eq!(rows[0].0, Some(Value::Keyword("red".to_owned())));
}

#[test]
fn values_of_all_kinds_and_none_are_told_apart() {
    let values = [
        None,
        Some(ValueRef::Keyword("")),
        Some(ValueRef::Keyword("1")),
        Some(ValueRef::I64(1)),
        Some(ValueRef::I64(-1)),
        Some(ValueRef::F64(1.0)),
        Some(ValueRef::F64(0.0)),
        Some(ValueRef::Bool(true)),
        Some(ValueRef::Bool(false)),
        Some(ValueRef::Timestamp(1)),
    ];
    let mut groups = GroupBy::new(2, 100);
    for (id, value) in (0..).zip(&values) {
        groups.offer(value.as_ref(), ranked(id, -(id as f64))).expect("room");
    }
    groups.offer(Some(&ValueRef::F64(-0.0)), ranked(99, -99.0)).expect("room");
    let groups = groups.finish(100);
    let expected: Vec<_> =
        values.iter().map(|value| value.as_ref().map(ValueRef::to_value)).collect();
    assert_eq!(groups.iter().map(|group| group.value.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(ids(&groups[6].rows), [6, 99], "0 and -0 are one value");
}

#[test]
fn grouping_refuses_more_rows_than_it_may_hold_and_stays_as_it_was() {
    let mut groups = GroupBy::new(2, 3);
    for id in 0..3 {
        assert_eq!(groups.offer(Some(&ValueRef::I64(id)), ranked(id as u64, 0.0)), Ok(true));
    }
    let full = Err(TooManyRows { rows_max: 3 });
    assert_eq!(groups.offer(Some(&ValueRef::I64(3)), ranked(9, 1.0)), full);
    assert_eq!(groups.offer(Some(&ValueRef::I64(0)), ranked(9, 1.0)), full);
    let groups = groups.finish(2);
    assert_eq!(groups.iter().map(|group| ids(&group.rows)).collect::<Vec<_>>(), [[0], [1]]);
}

#[test]
fn only_single_values_group_answers() {
    let kinds = AttributeKind::ALL.map(|kind| (kind.name(), kind));
    let schema = Schema::new(kinds).expect("a schema");
    for (name, kind) in kinds {
        let is_single = !matches!(kind, AttributeKind::Keywords | AttributeKind::Text);
        assert_eq!(grouping_column(&schema, name).is_ok(), is_single, "{name}");
    }
    let error = grouping_column(&schema, "size").expect_err("unknown");
    assert_eq!(error.kind, QueryErrorKind::UnknownAttribute);
}

#[test]
fn fusion_adds_reciprocal_places() {
    let text = RankedList { ids: &[1, 2, 3, 2], weight: 1.0 };
    let vector = RankedList { ids: &[3, 1, 4], weight: 1.0 };
    let fused = reciprocal_rank_fusion(&[text, vector], FUSION_CONSTANT, 10).expect("lists");
    let expected = [
        Fused { id: 1, score: 1.0 / 61.0 + 1.0 / 62.0 },
        Fused { id: 3, score: 1.0 / 63.0 + 1.0 / 61.0 },
        Fused { id: 2, score: 1.0 / 62.0 },
        Fused { id: 4, score: 1.0 / 63.0 },
    ];
    assert_eq!(fused, expected);
    let heavy = RankedList { weight: 3.0, ..vector };
    let fused = reciprocal_rank_fusion(&[text, heavy], FUSION_CONSTANT, 2).expect("lists");
    assert_eq!(fused.iter().map(|row| row.id).collect::<Vec<_>>(), [3, 1]);
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let list = RankedList { weight: bad, ..text };
        assert!(reciprocal_rank_fusion(&[list], FUSION_CONSTANT, 2).is_err());
        assert!(reciprocal_rank_fusion(&[text], bad, 2).is_err());
    }
    assert_eq!(reciprocal_rank_fusion(&[], FUSION_CONSTANT, 2), Ok(Vec::new()));
}
