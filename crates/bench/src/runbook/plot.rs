//! Recall per search step as an SVG picture: a page of text needs no plotting library.

use std::fmt::Write;

use super::SearchReport;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 45.0;

/// A plot of recall@10 over the steps: the index under way, the fresh one where it was built, and
/// the live rows as an area behind them, scaled to their peak.
pub fn svg(title: &str, target: f64, searches: &[SearchReport]) -> String {
    let last = searches.last().map_or(1, |search| search.step).max(1);
    let recalls = searches.iter().flat_map(|search| {
        let fresh = search.equal_effort.map(|both| both.fresh_recall);
        [Some(search.recall), fresh].into_iter().flatten()
    });
    let lowest = recalls.fold(target, f64::min);
    let scale = Scale { last, floor: (lowest * 20.0 - 0.2).floor().max(0.0) / 20.0 };
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
        escaped(title)
    );
    area(&mut text, &scale, searches);
    axes(&mut text, &scale);
    let (x, y, end) = (LEFT, scale.y(target), WIDTH - RIGHT);
    let _ = writeln!(
        text,
        "<line x1=\"{x}\" y1=\"{y:.1}\" x2=\"{end}\" y2=\"{y:.1}\" stroke=\"#888\" \
         stroke-dasharray=\"6 4\"/>"
    );
    let equal = |search: &SearchReport| search.equal_effort.map(|both| both.fresh_recall);
    line(&mut text, &scale, "#d95f02", searches, &equal);
    line(&mut text, &scale, "#1f5fa8", searches, &|search| Some(search.recall));
    let has_fresh = searches.iter().any(|search| search.equal_effort.is_some());
    legend(&mut text, has_fresh);
    text + "</svg>\n"
}

struct Scale {
    last: usize,
    /// Recall at the foot of the plot.
    floor: f64,
}

impl Scale {
    fn x(&self, step: usize) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * step as f64 / self.last as f64
    }

    fn y(&self, recall: f64) -> f64 {
        let share = (recall - self.floor) / (1.0 - self.floor).max(1e-9);
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share
    }
}

fn axes(text: &mut String, scale: &Scale) {
    const TICKS: usize = 5;
    for tick in 0..=TICKS {
        let share = tick as f64 / TICKS as f64;
        let recall = scale.floor + (1.0 - scale.floor) * share;
        let (y, end) = (scale.y(recall), WIDTH - RIGHT);
        let step = (scale.last as f64 * share).round() as usize;
        let (x, foot) = (scale.x(step), HEIGHT - BOTTOM + 18.0);
        let _ = writeln!(
            text,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{end}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{recall:.3}</text>\n\
             <text x=\"{x:.1}\" y=\"{foot:.1}\" text-anchor=\"middle\">{step}</text>",
            LEFT - 6.0,
            y + 4.0,
        );
    }
    let _ = writeln!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">step of the runbook</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 8.0,
    );
}

fn area(text: &mut String, scale: &Scale, searches: &[SearchReport]) {
    let peak = searches.iter().map(|search| search.live).max().unwrap_or(0).max(1);
    let (Some(first), Some(last)) = (searches.first(), searches.last()) else { return };
    let foot = HEIGHT - BOTTOM;
    let mut points = format!("{:.1},{foot:.1}", scale.x(first.step));
    for search in searches {
        let y = foot - (HEIGHT - TOP - BOTTOM) * search.live as f64 / peak as f64;
        let _ = write!(points, " {:.1},{y:.1}", scale.x(search.step));
    }
    let _ = write!(points, " {:.1},{foot:.1}", scale.x(last.step));
    let _ = writeln!(text, "<polygon points=\"{points}\" fill=\"#eef2f6\"/>");
}

fn line(
    text: &mut String,
    scale: &Scale,
    colour: &str,
    searches: &[SearchReport],
    recall: &dyn Fn(&SearchReport) -> Option<f64>,
) {
    let mut points = String::new();
    for search in searches {
        if let Some(recall) = recall(search) {
            let _ = write!(points, "{:.1},{:.1} ", scale.x(search.step), scale.y(recall));
        }
    }
    if !points.is_empty() {
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>",
            points.trim_end()
        );
    }
}

fn legend(text: &mut String, has_fresh: bool) {
    let fresh = ("#d95f02", "freshly built, same probes");
    let all = [("#1f5fa8", "recall@10"), ("#888", "target"), ("#c5d0dc", "live rows"), fresh];
    let shown = if has_fresh { &all[..] } else { &all[..3] };
    for (i, (colour, name)) in shown.iter().enumerate() {
        let x = WIDTH - RIGHT - 110.0 * shown.len() as f64 - 60.0 + 110.0 * i as f64;
        let _ = writeln!(
            text,
            "<rect x=\"{x:.1}\" y=\"12\" width=\"12\" height=\"10\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"21\">{name}</text>",
            x + 17.0,
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
