use super::*;

#[test]
fn names_and_tags_lead_back_to_their_metric() {
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        assert_eq!(metric.name().parse(), Ok(metric));
        assert_eq!(Metric::from_tag(metric.tag()), Some(metric));
    }
    assert_eq!("ip".parse(), Ok(Metric::InnerProduct));
    assert_eq!(Metric::from_tag(77), None);
}

#[test]
fn unknown_names_are_answered_with_the_choices() {
    let error = "manhattan".parse::<Metric>().expect_err("no such metric");
    let expected = "unknown metric 'manhattan': choose one of l2, cosine, inner_product";
    assert_eq!(error.to_string(), expected);
}
