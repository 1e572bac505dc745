//! Draws plots as inline SVG: lines over time, or stacked areas for parts of a whole.

use super::words::{clock, day, value};
use crate::model::{Grade, Plot, Unit};
use std::fmt::Write as _;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;
/// Number of colors in the style sheet.
pub(super) const COLORS: usize = 8;

/// Whether the lines are parts of a whole: several rates of one grade.
pub(super) fn stacked(plot: &Plot) -> bool {
    let of = |g: Grade| plot.lines.iter().all(|l| l.grade == g);
    plot.unit == Unit::BytesPerSecond && plot.lines.len() > 1 && (of(Grade::Exclusive) || of(Grade::Shared))
}

/// The plot as an `svg` element.
pub(super) fn draw(plot: &Plot) -> String {
    let steps = plot.lines.iter().map(|l| l.points.len()).max().unwrap_or(0);
    let lines = heights(plot, steps);
    let top = lines.iter().flatten().flatten().copied().fold(0.0, f64::max);
    let (top, ticks) = scale(top, plot.unit);
    let x = |n: f64| LEFT + (WIDTH - LEFT - RIGHT) * n / (steps.max(2) - 1) as f64;
    let y = |v: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - v / top);
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" preserveAspectRatio=\"none\">");
    for n in 0..=ticks {
        let v = top * f64::from(n) / f64::from(ticks);
        let at = y(v);
        let text = if v == 0.0 { "0".to_owned() } else { short(&value(v, plot.unit)) };
        _ = write!(out, "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{:.1}\"/>", WIDTH - RIGHT);
        _ = write!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            LEFT - 6.0,
            at + 3.5
        );
    }
    times(&mut out, plot, steps, x);
    let stack = stacked(plot);
    for (n, line) in lines.iter().enumerate().rev() {
        let (color, dashed) = (n % COLORS, plot.lines[n].grade == Grade::Shared);
        for piece in pieces(line) {
            let path: Vec<String> = piece.iter().map(|(n, v)| format!("{:.1} {:.1}", x(*n as f64), y(*v))).collect();
            let (Some(first), Some(last)) = (piece.first(), piece.last()) else { continue };
            if stack {
                let base = y(0.0);
                _ = write!(
                    out,
                    "<path class=\"area c{color}\" d=\"M{:.1} {base:.1}L{}L{:.1} {base:.1}Z\"/>",
                    x(first.0 as f64),
                    path.join("L"),
                    x(last.0 as f64)
                );
            } else {
                let class = if dashed { " dashed" } else { "" };
                // A path of a single point would be invisible.
                let dot = if path.len() == 1 { "h0.1" } else { "" };
                _ = write!(out, "<path class=\"line c{color}{class}\" d=\"M{}{dot}\"/>", path.join("L"));
            }
        }
    }
    out + "</svg>"
}

/// Shortens `5.00 Tb/s` to `5 Tb/s`.
fn short(text: &str) -> String {
    let Some((number, unit)) = text.split_once(' ') else { return text.to_owned() };
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {unit}")
}

/// Points of each line; in stacked plots on top of the previous lines.
fn heights(plot: &Plot, steps: usize) -> Vec<Vec<Option<f64>>> {
    if !stacked(plot) {
        return plot.lines.iter().map(|l| l.points.clone()).collect();
    }
    let mut sum = vec![0.0; steps];
    let line = |l: &crate::model::Line| {
        let at = |(n, v): (usize, &Option<f64>)| {
            sum[n] += (*v)?;
            Some(sum[n])
        };
        l.points.iter().enumerate().map(at).collect()
    };
    plot.lines.iter().map(line).collect()
}

/// A round axis maximum of at least `top`, and the number of ticks.
fn scale(top: f64, unit: Unit) -> (f64, u32) {
    // Rates are shown in bits, so the maximum is round in bits.
    let factor = if unit == Unit::BytesPerSecond { 8.0 } else { 1.0 };
    let least = if unit == Unit::Ratio { 0.01 } else { 1e-9 };
    let want = (top * factor).max(least);
    let ten = 10f64.powf(want.log10().floor());
    let (step, ticks) = [(1.0, 4), (1.5, 3), (2.0, 4), (3.0, 3), (4.0, 4), (5.0, 5), (6.0, 3), (8.0, 4), (10.0, 4)]
        .into_iter()
        .find(|(s, _)| s * ten >= want * 0.999)
        .unwrap_or((10.0, 4));
    let top = step * ten / factor;
    if unit == Unit::Ratio && top > 1.0 { (1.0, 4) } else { (top, ticks) }
}

fn times(out: &mut String, plot: &Plot, steps: usize, x: impl Fn(f64) -> f64) {
    let seconds = plot.step_seconds * steps as f64;
    let every = (steps.max(2) - 1) as f64 / 6.0;
    let mut before = String::new();
    for n in 0..=6 {
        let at = f64::from(n) * every;
        let ns = plot.start_ns + (at * plot.step_seconds * 1e9) as i64;
        let text = match seconds {
            s if s < 1200.0 => clock(ns, true),
            s if s < 86_400.0 * 1.5 => clock(ns, false),
            _ => format!("{} {}", day(ns), clock(ns, false)),
        };
        if text != before {
            let anchor = match n {
                0 => "start",
                6 => "end",
                _ => "middle",
            };
            _ = write!(
                out,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{text}</text>",
                x(at),
                HEIGHT - 6.0
            );
        }
        before = text;
    }
}

/// Runs of points without gaps.
fn pieces(line: &[Option<f64>]) -> Vec<Vec<(usize, f64)>> {
    let mut all = vec![Vec::new()];
    for (n, point) in line.iter().enumerate() {
        match (point, all.last_mut()) {
            (Some(v), Some(piece)) => piece.push((n, *v)),
            (None, Some(piece)) if !piece.is_empty() => all.push(Vec::new()),
            _ => {}
        }
    }
    all.retain(|piece| !piece.is_empty());
    all
}
