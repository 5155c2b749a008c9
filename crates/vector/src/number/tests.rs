use super::*;
use crate::SplitMix;

/// The value of a half by its definition.
fn by_definition(half: u16) -> f64 {
    let (exponent, fraction) = (i32::from(half >> 10 & 0x1f), f64::from(half & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if half >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

#[test]
fn every_half_has_its_value_and_comes_back() {
    for bits in 0..=u16::MAX {
        let (value, expected) = (F16(bits).widen(), by_definition(bits));
        if expected.is_nan() {
            assert!(value.is_nan() && F16::narrow(value).widen().is_nan(), "{bits:#x}");
            continue;
        }
        assert_eq!(f64::from(value).to_bits(), expected.to_bits(), "{bits:#x}");
        assert_eq!(F16::narrow(value), F16(bits));
    }
}

#[test]
fn every_bf16_comes_back() {
    for bits in 0..=u16::MAX {
        let value = Bf16(bits).widen();
        assert_eq!(value.to_bits(), u32::from(bits) << 16);
        if value.is_nan() {
            assert!(Bf16::narrow(value).widen().is_nan());
        } else {
            assert_eq!(Bf16::narrow(value), Bf16(bits));
        }
    }
}

/// Between two neighbours the nearer one is chosen, in the middle the even one.
fn check_rounding<N: Number>(low: N, high: N, low_is_even: bool, seed: u64) {
    let (a, b) = (f64::from(low.widen()), f64::from(high.widen()));
    let middle = ((a + b) / 2.0) as f32;
    assert_eq!(f64::from(middle), (a + b) / 2.0, "singles hold the middle");
    let even = if low_is_even { low } else { high };
    assert_eq!(N::narrow(middle), even, "middle of {a} and {b} (seed {seed})");
    let (below, above) = if middle > 0.0 {
        (middle.next_down(), middle.next_up())
    } else {
        (middle.next_up(), middle.next_down())
    };
    assert_eq!(N::narrow(below), low, "below the middle of {a} and {b}");
    assert_eq!(N::narrow(above), high, "above the middle of {a} and {b}");
}

#[test]
fn rounding_is_to_nearest_with_ties_to_even() {
    for sign in [0, 0x8000u16] {
        for magnitude in 0..0x7bffu16 {
            let bits = sign | magnitude;
            check_rounding(F16(bits), F16(bits + 1), magnitude.is_multiple_of(2), 0);
        }
    }
    let mut random = SplitMix(5);
    for _ in 0..200_000 {
        let bits = random.next() as u16;
        if (bits & 0x7fff) < 0x7f7f && bits & 0x7f80 != 0 {
            check_rounding(Bf16(bits), Bf16(bits + 1), bits.is_multiple_of(2), 5);
        }
    }
}

#[test]
fn the_roundoff_bounds_the_relative_error() {
    let mut random = SplitMix(6);
    for _ in 0..200_000 {
        let value = random.normal() * 10.0;
        let error = |stored: f32, bound: f32| (stored - value).abs() <= bound * value.abs() + 3e-8;
        assert!(error(F16::narrow(value).widen(), Element::F16.roundoff()), "{value}");
        assert!(error(Bf16::narrow(value).widen(), Element::Bf16.roundoff()), "{value}");
    }
}

#[test]
fn bytes_lead_back_to_their_number() {
    for element in Element::ALL {
        crate::with_number!(element, N => {
            for value in [0.0f32, 1.0, 77.0, 127.0] {
                let mut bytes = vec![9];
                N::narrow(value).put(&mut bytes);
                assert_eq!(bytes.len(), 1 + element.bytes());
                assert_eq!(N::take(&bytes[1..]).widen(), value);
            }
        });
    }
    let mut bytes = Vec::new();
    F16::narrow(1.0).put(&mut bytes);
    Bf16::narrow(-2.0).put(&mut bytes);
    (-3i8).put(&mut bytes);
    assert_eq!(bytes, [0x00, 0x3c, 0x00, 0xc0, 0xfd]);
}
