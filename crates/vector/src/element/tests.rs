use super::*;
use crate::Widen;
use crate::{with_number, Number};

#[test]
fn names_and_tags_lead_back_to_their_element() {
    for element in Element::ALL {
        assert_eq!(element.name().parse(), Ok(element));
        assert_eq!(Element::from_tag(element.tag()), Some(element));
        assert_eq!(with_number!(element, N => N::ELEMENT), element);
        assert_eq!(with_number!(element, N => size_of::<N>()), element.bytes());
    }
    assert_eq!("bfloat16".parse(), Ok(Element::Bf16));
    assert_eq!(Element::from_tag(77), None);
}

#[test]
fn unknown_names_are_answered_with_the_choices() {
    let error = "f64".parse::<Element>().expect_err("no such element type");
    let expected = "unknown element type 'f64': choose one of f32, f16, bf16, u8, i8";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_value_is_accepted_if_and_only_if_it_can_be_held() {
    let edges = [
        (Element::F32, f32::MAX, f32::INFINITY),
        (Element::F16, 65_519.996, 65_520.0),
        (Element::Bf16, f32::from_bits(0x7f7f_7fff), f32::from_bits(0x7f7f_8000)),
        (Element::U8, 255.0, 256.0),
        (Element::I8, 127.0, 128.0),
    ];
    for (element, last, first) in edges {
        assert!(element.accepts(last), "{element} {last}");
        assert!(!element.accepts(first), "{element} {first}");
        assert!(!element.accepts(-first - 1.0), "{element} {}", -first - 1.0);
        assert!(!element.accepts(f32::NAN), "{element} NaN");
        with_number!(element, N => {
            assert!(N::narrow(last).widen().is_finite());
            assert_eq!(N::narrow(0.0).widen(), 0.0);
        });
        assert_eq!(element.accepts(0.5), !element.is_integer());
    }
    assert!(Element::I8.accepts(-128.0));
    assert!(!Element::U8.accepts(-1.0));
    // A refused number would become infinite.
    assert_eq!(crate::F16::narrow(65_520.0).widen(), f32::INFINITY);
    assert_eq!(crate::Bf16::narrow(f32::from_bits(0x7f7f_8000)).widen(), f32::INFINITY);
}
