//! A row that is a query is none of its own neighbours.

use vstream_index::Reach;

use super::leave_out;

/// Groups as they are noted: first position, how many, and the id of the one in the middle.
fn noted(groups: &[(u32, u32, u64)]) -> Vec<Reach> {
    let reach = |&(nth, weight, id)| Reach {
        id,
        nth,
        weight,
        distance: 0.0,
        leaf: None,
        cost: 0.0,
        code: None,
    };
    groups.iter().map(reach).collect()
}

fn left(groups: &[(u32, u32, u64)], own: Option<u64>) -> Vec<(u32, u32, u64)> {
    let mut reach = noted(groups);
    leave_out(own, &mut reach);
    reach.iter().map(|hit| (hit.nth, hit.weight, hit.id)).collect()
}

#[test]
fn the_row_itself_leaves_no_gap() {
    let groups = [(0, 1, 70), (1, 1, 71), (2, 4, 72), (6, 4, 73)];
    assert_eq!(left(&groups, None), groups);
    assert_eq!(left(&groups, Some(99)), groups, "it is not among those that are noted");
    assert_eq!(left(&groups, Some(70)), [(0, 1, 71), (1, 4, 72), (5, 4, 73)]);
    assert_eq!(left(&groups, Some(71)), [(0, 1, 70), (1, 4, 72), (5, 4, 73)]);
    assert_eq!(left(&groups, Some(72)), [(0, 1, 70), (1, 1, 71), (2, 3, 72), (5, 4, 73)]);
    assert_eq!(left(&groups, Some(73)), [(0, 1, 70), (1, 1, 71), (2, 4, 72), (6, 3, 73)]);
}
