//! Draws a path as inline SVG: a box for each host and switch, with the ports by which packets come and go.

use crate::model::{Path, PathPort};
use fabriclens_base::escape;
use std::fmt::Write as _;

/// Boxes of a path of five stages, and their size.
const MOST: usize = 11;
const BOX: [f64; 2] = [150.0, 34.0];
const GAP: f64 = 90.0;
const HEIGHT: f64 = 74.0;
/// Characters of a name that fit.
const NAME: usize = 20;
const PORT: usize = 12;

/// The path as an `svg` element; empty if it has more nodes than fit.
pub(super) fn draw(path: &Path) -> String {
    let count = path.ports.len();
    if !(2..=MOST).contains(&count) {
        return String::new();
    }
    let width = count as f64 * BOX[0] + (count - 1) as f64 * GAP + 4.0;
    let mut out =
        format!("<svg class=\"path\" viewBox=\"0 0 {width} {HEIGHT}\" role=\"img\" style=\"max-width:{width}px\">");
    for (at, PathPort { node, port }) in path.ports.iter().enumerate() {
        let (x, middle) = (2.0 + at as f64 * (BOX[0] + GAP), HEIGHT / 2.0);
        let y = middle - BOX[1] / 2.0;
        _ = write!(
            out,
            "<rect class=\"node\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"5\"/>",
            BOX[0], BOX[1]
        );
        label(&mut out, "name", "middle", [x + BOX[0] / 2.0, middle + 4.5], node, NAME);
        let right = x + BOX[0];
        // The last port is that of the receiver, all others are egress ports.
        if at + 1 < count {
            let end = right + GAP;
            _ = write!(out, "<path class=\"hop\" d=\"M{right} {middle}H{}\"/>", end - 6.0);
            _ = write!(out, "<path class=\"head\" d=\"M{end} {middle}l-7 -4v8z\"/>");
            label(&mut out, "tick", "start", [right + 4.0, middle - 6.0], port, PORT);
        } else {
            label(&mut out, "tick", "end", [x - 8.0, middle + 15.0], port, PORT);
        }
    }
    out + "</svg>"
}

fn label(out: &mut String, class: &str, anchor: &str, [x, y]: [f64; 2], text: &str, most: usize) {
    // `?PEER` stands for an unknown port.
    let text = if text.starts_with('?') { "?" } else { text };
    let mut short: String = text.chars().take(most).collect();
    if short.len() < text.len() {
        short.pop();
        short.push('…');
    }
    let (short, full) = (escape::html(&short), escape::html(text));
    _ = write!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"><title>{full}</title>{short}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(ports: &[(&str, &str)]) -> Path {
        let port = |(node, port): &(&str, &str)| PathPort { node: (*node).into(), port: (*port).into() };
        Path { ports: ports.iter().map(port).collect(), known: "traced".into() }
    }

    #[test]
    fn each_node_is_a_box_and_names_cannot_act() {
        let all =
            [("h1", "mlx5_0/1"), ("leaf<1>", "5"), ("switch 10.9.0.1", "?leaf2"), ("leaf2", "1"), ("h4", "mlx5_0/1")];
        let drawn = draw(&path(&all));
        assert_eq!((drawn.matches("<rect").count(), drawn.matches("class=\"hop\"").count()), (5, 4));
        assert!(drawn.contains("leaf&lt;1&gt;") && !drawn.contains("leaf<1>"), "{drawn}");
        assert!(drawn.contains(">?</text>") && !drawn.contains("?leaf2"), "{drawn}");
        let long = draw(&path(&[("a-very-long-name-of-a-host.example", "1"), ("h2", "1")]));
        assert!(long.contains("<title>a-very-long-name-of-a-host.example</title>a-very-long-name-o"), "{long}");
        assert_eq!(draw(&path(&[("h1", "1")])), "", "one end is no path");
        assert_eq!(draw(&path(&[("h", "1"); 12])), "");
    }
}
