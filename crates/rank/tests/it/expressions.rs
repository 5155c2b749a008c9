//! Expressions against an evaluator of trees.

use vstream_attribute::Attributes;
use vstream_rank::{Expression, QueryErrorKind, RankInputs, RankRow};
use vstream_vector::{Metric, SplitMix};

use crate::mail::{mails, schema, Mail, NOW_MS};

/// An expression as a tree, with the text that it is written as.
enum Tree {
    Number(f64),
    Parameter,
    Distance,
    Stars,
    StarsOr(Box<Tree>),
    Fresh(Box<Tree>),
    IsSpam,
    One(&'static str, Box<Tree>),
    Two(&'static str, Box<Tree>, Box<Tree>),
    If(Box<Tree>, Box<Tree>, Box<Tree>),
}

const ONES: [&str; 13] = [
    "-", "!", "abs", "ceil", "floor", "exp", "log", "log10", "sqrt", "tanh", "atan", "sigmoid",
    "relu",
];
const TWOS: [&str; 17] = [
    "||", "&&", "<", "<=", ">", ">=", "==", "!=", "+", "-", "*", "/", "%", "^", "pow", "min", "max",
];

fn random_tree(random: &mut SplitMix, levels: usize) -> Tree {
    let inner = |random: &mut SplitMix| Box::new(random_tree(random, levels.saturating_sub(1)));
    if levels == 0 {
        return match random.below(6) {
            0 => Tree::Parameter,
            1 => Tree::Distance,
            2 => Tree::Stars,
            3 => Tree::IsSpam,
            _ => Tree::Number(random.below(9) as f64 / 2.0),
        };
    }
    match random.below(10) {
        0 => Tree::If(inner(random), inner(random), inner(random)),
        1 => Tree::StarsOr(inner(random)),
        2 => Tree::Fresh(inner(random)),
        3..=5 => Tree::One(ONES[random.below(ONES.len())], inner(random)),
        _ => Tree::Two(TWOS[random.below(TWOS.len())], inner(random), inner(random)),
    }
}

/// How strongly the outermost sign binds, as the documentation has it.
fn strength(tree: &Tree) -> usize {
    match tree {
        Tree::One("-" | "!", _) => 6,
        Tree::Two(sign, ..) => match *sign {
            "||" => 1,
            "&&" => 2,
            "<" | "<=" | ">" | ">=" | "==" | "!=" => 3,
            "+" | "-" => 4,
            "*" | "/" | "%" => 5,
            "^" => 7,
            _ => 8,
        },
        _ => 8,
    }
}

/// Writes a tree with as few brackets as the grammar allows.
fn write(tree: &Tree) -> String {
    let within = |tree: &Tree, least: usize| {
        let text = write(tree);
        if strength(tree) < least {
            return format!("({text})");
        }
        text
    };
    match tree {
        Tree::Number(number) => number.to_string(),
        Tree::Parameter => "$p".to_owned(),
        Tree::Distance => "distance".to_owned(),
        Tree::Stars => "attribute(stars)".to_owned(),
        Tree::StarsOr(other) => format!("attribute(stars,{})", write(other)),
        Tree::Fresh(age) => format!("freshness(sent, {})", write(age)),
        Tree::IsSpam => "has(folder, 'spam')".to_owned(),
        Tree::One(sign @ ("-" | "!"), a) => format!("{sign}{}", within(a, 6)),
        Tree::One(name, a) => format!("{name}({})", write(a)),
        Tree::Two(name @ ("pow" | "min" | "max"), a, b) => {
            format!("{name}({}, {})", write(a), write(b))
        }
        Tree::Two(sign, a, b) => {
            let own = strength(tree);
            // Equal signs join from the left, but comparisons do not chain and powers join from
            // the right, where a sign before a value may stand too.
            let left = own + usize::from(own == 3 || own == 7);
            let right = if own == 7 { 6 } else { own + 1 };
            format!("{} {sign} {}", within(a, left), within(b, right))
        }
        Tree::If(c, a, b) => format!("if({},{},{})", write(c), write(a), write(b)),
    }
}

fn value(tree: &Tree, mail: &Mail, distance: f32) -> f64 {
    let of = |tree: &Tree| value(tree, mail, distance);
    let truth = |value: f64| value != 0.0 && !value.is_nan();
    let number = |is_true: bool| if is_true { 1.0 } else { 0.0 };
    match tree {
        Tree::Number(number) => *number,
        Tree::Parameter => 1.25,
        Tree::Distance => f64::from(distance),
        Tree::Stars => mail.stars.unwrap_or(0) as f64,
        Tree::StarsOr(other) => mail.stars.map_or_else(|| of(other), |stars| stars as f64),
        Tree::Fresh(age_max) => {
            let age_max = of(age_max);
            match mail.sent_ms {
                Some(sent) if age_max > 0.0 => {
                    let age = (NOW_MS - sent) as f64 / 1000.0;
                    (1.0 - age / age_max).max(0.0)
                }
                _ => 0.0,
            }
        }
        Tree::IsSpam => number(mail.folder == Some("spam")),
        Tree::One(name, a) => {
            let a = of(a);
            match *name {
                "-" => -a,
                "!" => number(!truth(a)),
                "abs" => a.abs(),
                "ceil" => a.ceil(),
                "floor" => a.floor(),
                "exp" => a.exp(),
                "log" => a.ln(),
                "log10" => a.log10(),
                "sqrt" => a.sqrt(),
                "tanh" => a.tanh(),
                "atan" => a.atan(),
                "sigmoid" => 1.0 / (1.0 + (-a).exp()),
                _ => {
                    if a < 0.0 {
                        0.0
                    } else {
                        a
                    }
                }
            }
        }
        Tree::Two(name, a, b) => {
            let (a, b) = (of(a), of(b));
            match *name {
                "||" => number(truth(a) || truth(b)),
                "&&" => number(truth(a) && truth(b)),
                "<" => number(a < b),
                "<=" => number(a <= b),
                ">" => number(a > b),
                ">=" => number(a >= b),
                "==" => number(a == b),
                "!=" => number(a != b),
                "+" => a + b,
                "-" => a - b,
                "*" => a * b,
                "/" => a / b,
                "%" => a % b,
                "^" | "pow" => a.powf(b),
                "min" => a.min(b),
                _ => a.max(b),
            }
        }
        Tree::If(c, a, b) => {
            if truth(of(c)) {
                of(a)
            } else {
                of(b)
            }
        }
    }
}

#[test]
fn programs_compute_what_their_trees_mean() {
    let (mut numbers, mut total) = (0, 0);
    for seed in 0..3_000 {
        let random = &mut SplitMix(seed);
        let levels = random.below(7);
        let tree = random_tree(random, levels);
        let text = write(&tree);
        let expression = match Expression::parse(&schema(), &text) {
            Ok(expression) => expression,
            Err(error) => {
                assert_eq!(error.kind, QueryErrorKind::TooLarge, "seed {seed}: {text}: {error}");
                continue;
            }
        };
        let has_parameter = expression.parameters().next().is_some();
        let parameters: &[(&str, f64)] = if has_parameter { &[("p", 1.25)] } else { &[] };
        let inputs = RankInputs { parameters, metric: Metric::Cosine, now_ms: NOW_MS };
        let program = expression.bind(&inputs).expect("a program");
        for mail in &mails(random, 5, 20) {
            let distance = random.unit();
            let attributes = mail.attributes();
            let row = RankRow { attributes, distance: Some(distance), bm25: None };
            let (got, expected) = (program.evaluate(&row), value(&tree, mail, distance));
            let is_equal = got == expected || (got.is_nan() && expected.is_nan());
            assert!(is_equal, "seed {seed}: {text} is {got}, not {expected}");
            numbers += usize::from(got.is_finite());
            total += 1;
        }
    }
    assert!(total > 13_000 && numbers > total / 2, "{numbers} of {total} are numbers");
}

/// A range holds the value at every distance within its ends, and says when there may be none.
#[test]
fn ranges_hold_all_values() {
    let (mut useful, mut total) = (0, 0);
    for seed in 0..4_000 {
        let random = &mut SplitMix(10_000 + seed);
        let levels = random.below(6);
        let text = write(&random_tree(random, levels));
        let Ok(expression) = Expression::parse(&schema(), &text) else { continue };
        if !expression.uses_distance() {
            continue;
        }
        let has_parameter = expression.parameters().next().is_some();
        let parameters: &[(&str, f64)] = if has_parameter { &[("p", 1.25)] } else { &[] };
        let inputs = RankInputs { parameters, metric: Metric::Cosine, now_ms: NOW_MS };
        let program = expression.bind(&inputs).expect("a program");
        for mail in &mails(random, 3, 20) {
            let near = 2.0 * random.unit() - 0.5;
            let far = near + random.unit() * [0.0, 0.01, 1.0][random.below(3)];
            let attributes = mail.attributes();
            let row = |distance| RankRow { attributes, distance, bm25: None };
            let range = program.range(&row(None), (near, far));
            for part in 0..=20 {
                let distance = (near + (far - near) * part as f32 / 20.0).clamp(near, far);
                let value = program.evaluate(&row(Some(distance)));
                let holds = (range.least..=range.most).contains(&value);
                let is_in = if value.is_nan() { range.may_be_nan } else { holds };
                assert!(is_in, "seed {seed}: {text} at {distance} is {value}, not in {range:?}");
            }
            useful += usize::from(range.least.is_finite() && range.most.is_finite());
            total += 1;
        }
    }
    assert!(total > 2_000 && useful > total / 5, "{useful} of {total} ranges have ends");
}

/// The expressions that one writes give ranges as narrow as the distance allows.
#[test]
fn ranges_are_narrow() {
    let row = RankRow::default();
    for (text, most) in [
        ("closeness", 0.01),
        ("0.7 * closeness + 0.3 * bm25 / (bm25 + 10)", 0.007),
        ("closeness * (1 + freshness(sent)) + attribute(stars)", 0.01),
        ("if(has(folder), 2, 1) * exp(-distance)", 0.01),
        ("max(closeness ^ 2, 0.1) - log(1 + distance)", 0.03),
    ] {
        let expression = Expression::parse(&schema(), text).expect("an expression");
        let inputs = RankInputs { parameters: &[], metric: Metric::Cosine, now_ms: NOW_MS };
        let program = expression.bind(&inputs).expect("a program");
        let range = program.range(&row, (0.2, 0.21));
        assert!(range.most - range.least < most && !range.may_be_nan, "{text}: {range:?}");
    }
}

/// One lookup per column in any order of columns, several of one column, and rows that lack some.
#[test]
fn lookups_find_their_columns_in_any_order() {
    let text = "1000 * has(folder, 'sent') + 100 * has(subject) + 10 * attribute(stars) + \
                has(folder) + has(folder, 'inbox') / 2 + has(body) / 4 + has(sent) / 8";
    let expression = Expression::parse(&schema(), text).expect("an expression");
    let inputs = RankInputs { parameters: &[], metric: Metric::L2, now_ms: NOW_MS };
    let program = expression.bind(&inputs).expect("a program");
    for mail in &mails(&mut SplitMix(5), 1_000, 50) {
        let flag = |is_true: bool| f64::from(u8::from(is_true));
        let expected = 1000.0 * flag(mail.folder == Some("sent"))
            + 100.0 * flag(mail.subject.is_some())
            + 10.0 * mail.stars.unwrap_or(0) as f64
            + flag(mail.folder.is_some())
            + flag(mail.folder == Some("inbox")) / 2.0
            + flag(mail.body.is_some()) / 4.0
            + flag(mail.sent_ms.is_some()) / 8.0;
        let row = RankRow { attributes: mail.attributes(), ..RankRow::default() };
        assert_eq!(program.evaluate(&row), expected);
    }
    let row = RankRow { attributes: Attributes::NONE, ..RankRow::default() };
    assert_eq!(program.evaluate(&row), 0.0);
}
