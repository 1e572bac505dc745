//! Lays out labels and values of series: as a table, or as one block per series if a table is too wide. Labels that all
//! series share are printed once above. Called by [`super::print`].

use fabriclens_base::terminal;
use std::collections::{BTreeMap, BTreeSet};

type Labels = BTreeMap<String, String>;

/// Labels that identify a series, in this order; others follow by name.
const IDENTITY: [&str; 7] = ["__name__", "host", "device", "port", "priority", "direction", "reason"];
const GAP: &str = "  ";
/// Indentation of a block below its first line.
const INDENT: &str = "    ";
/// Labels below the first line of a block start at multiples of this, so that most are aligned.
const STOP: usize = 24;

/// A column of values besides the labels: one cell per series.
pub(super) struct Column {
    name: String,
    cells: Vec<String>,
    right: bool,
}

impl Column {
    pub(super) fn left(name: &str, cells: Vec<String>) -> Self {
        Self { name: name.to_owned(), cells, right: false }
    }

    pub(super) fn right(name: &str, cells: Vec<String>) -> Self {
        Self { right: true, ..Self::left(name, cells) }
    }

    fn same(&self) -> bool {
        self.cells.len() > 1 && self.cells.iter().all(|c| *c == self.cells[0])
    }

    fn width(&self) -> usize {
        self.cells.iter().chain([&self.name]).map(|t| chars(t)).max().unwrap_or(0)
    }
}

/// All label names, identifying ones first.
pub(super) fn names<'a>(labels: &[&'a Labels]) -> Vec<&'a str> {
    let all: BTreeSet<&str> = labels.iter().flat_map(|l| l.keys().map(String::as_str)).collect();
    let mut all: Vec<&str> = all.into_iter().collect();
    all.sort_by_key(|n| IDENTITY.iter().position(|i| i == n).unwrap_or(IDENTITY.len()));
    all
}

/// Formats one line per series, or one block per series if a line does not fit `width` columns. `when` is printed
/// above.
pub(super) fn lay_out(labels: &[&Labels], values: Vec<Column>, when: Option<String>, width: usize) -> String {
    let (common, differing): (Vec<&str>, Vec<&str>) = names(labels).into_iter().partition(|n| {
        let first = labels[0].get(*n);
        labels.len() > 1 && labels.iter().all(|l| l.get(*n) == first)
    });
    let mut above: Vec<String> = common
        .into_iter()
        .map(|n| {
            let value = printable(&labels[0][n]);
            if n == "__name__" { value } else { pair(n, &value) }
        })
        .collect();
    above.extend(when);
    let texts = differing
        .iter()
        .map(|n| Column::left(&printable(title(n)).to_uppercase(), cells(labels, n, str::to_owned, "-")));
    let columns: Vec<Column> = texts.chain(values).collect();
    let needed = columns.iter().map(Column::width).sum::<usize>() + GAP.len() * columns.len().saturating_sub(1);
    if needed <= width {
        let head = if above.is_empty() { String::new() } else { above.join(GAP) + "\n" };
        return head + &table(&columns, labels.len());
    }
    let values = columns.into_iter().skip(differing.len());
    // For facts, the labels are the information and the value is always 1.
    let facts = differing.iter().any(|n| !IDENTITY.contains(n));
    let (same, values): (Vec<Column>, Vec<Column>) = values.partition(|c| facts && c.same());
    above.extend(same.into_iter().map(|mut c| format!("{} {}", c.name, c.cells.swap_remove(0))));
    blocks(labels, &differing, &values, &above, width)
}

fn table(columns: &[Column], rows: usize) -> String {
    let widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let mut out = String::new();
    let mut line = |cell: &dyn Fn(&Column) -> String| {
        let cells =
            columns.iter().zip(&widths).map(|(c, w)| if c.right { right(&cell(c), *w) } else { left(&cell(c), *w) });
        push_line(&mut out, "", &cells.collect::<Vec<_>>().join(GAP));
    };
    line(&|c| c.name.clone());
    for row in 0..rows {
        line(&|c| c.cells[row].clone());
    }
    out
}

/// Formats blocks: identity and values on the first line, aligned, and other labels below.
fn blocks(labels: &[&Labels], differing: &[&str], values: &[Column], above: &[String], width: usize) -> String {
    let (identity, others): (Vec<&str>, Vec<&str>) = differing.iter().partition(|n| IDENTITY.contains(n));
    let mut first: Vec<Column> =
        identity.iter().map(|n| Column::left("", cells(labels, n, |v| pair(title(n), v), ""))).collect();
    first.extend(values.iter().map(|c| {
        let w = c.cells.iter().map(|t| chars(t)).max().unwrap_or(0);
        let place = |t: &String| if c.right { right(t, w) } else { left(t, w) };
        Column::left("", c.cells.iter().map(|t| format!("{} {}", c.name, place(t))).collect())
    }));
    let mut out = String::new();
    let texts: Vec<(&str, usize)> = above.iter().map(|t| (t.as_str(), chars(t))).collect();
    flow(&mut out, ["", ""], &texts, width, 1);
    for (row, series) in labels.iter().enumerate() {
        if !out.is_empty() && !others.is_empty() {
            out.push('\n');
        }
        let texts: Vec<(&str, usize)> = first.iter().map(|c| (c.cells[row].as_str(), c.width())).collect();
        flow(&mut out, ["", INDENT], &texts, width, 1);
        let pairs = others.iter().filter_map(|n| series.get(*n).map(|v| pair(n, &printable(v))));
        let pairs: Vec<String> = pairs.collect();
        let texts: Vec<(&str, usize)> = pairs.iter().map(|p| (p.as_str(), chars(p))).collect();
        flow(&mut out, [INDENT; 2], &texts, width, STOP);
    }
    out
}

/// Appends texts, each at the next multiple of `stop` columns, in lines of at most `width` unless a single text is
/// longer. Each text has its number of columns; `indents` are those of the first line and of others.
fn flow(out: &mut String, indents: [&str; 2], texts: &[(&str, usize)], width: usize, stop: usize) {
    let [mut indent, hanging] = indents;
    let (mut line, mut next) = (String::new(), 0);
    for (text, takes) in texts {
        if next > 0 && indent.len() + next + takes > width {
            push_line(out, indent, &line);
            line.clear();
            (indent, next) = (hanging, 0);
        }
        line = left(&line, next) + text;
        next = (next + takes + GAP.len()).next_multiple_of(stop);
    }
    push_line(out, indent, &line);
}

fn push_line(out: &mut String, indent: &str, text: &str) {
    let text = text.trim_end();
    if !text.is_empty() {
        out.extend([indent, text, "\n"]);
    }
}

fn cells(labels: &[&Labels], name: &str, show: impl Fn(&str) -> String, absent: &str) -> Vec<String> {
    labels.iter().map(|l| l.get(name).map_or_else(|| absent.to_owned(), |v| show(&printable(v)))).collect()
}

fn title(name: &str) -> &str {
    if name == "__name__" { "metric" } else { name }
}

fn pair(name: &str, value: &str) -> String {
    let name = printable(name);
    if value.contains(char::is_whitespace) { format!("{name}={value:?}") } else { format!("{name}={value}") }
}

/// Aligns rows of cells in columns.
pub(super) fn rows(lines: &[impl AsRef<[String]>]) -> Vec<String> {
    let lines: Vec<&[String]> = lines.iter().map(AsRef::as_ref).collect();
    let columns = lines.iter().map(|line| line.len()).max().unwrap_or(0);
    let width = |c: usize| lines.iter().filter_map(|l| l.get(c)).map(|cell| chars(cell)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |cells: &&[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| left(cell, *width));
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    lines.iter().map(line).collect()
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn left(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}

fn right(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

/// Replaces characters that act on a terminal.
pub(super) fn printable(text: &str) -> String {
    terminal::line(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: [&[(&str, &str)]; 3] = [
        &[("host", "h1"), ("device", "mlx5_0"), ("port", "1"), ("driver", "mlx5_core"), ("node_desc", "h1 mlx5_0")],
        &[("host", "h20"), ("device", "mlx5_1"), ("port", "1"), ("driver", "mlx5_core"), ("netdev", "ens1f1np1")],
        &[("host", "h20"), ("device", "ibs2"), ("driver", "a driver with a name longer than the screen is wide")],
    ];

    fn show(ports: &[&[(&str, &str)]], values: Vec<Column>, width: usize) -> String {
        let common = [("__name__", "fabric_port_info"), ("numa_node", "1")];
        let own = |p: &&[(&str, &str)]| common.iter().chain(*p).map(|(n, v)| ((*n).into(), (*v).into())).collect();
        let labels: Vec<Labels> = ports.iter().map(own).collect();
        lay_out(&labels.iter().collect::<Vec<_>>(), values, Some("now".to_owned()), width)
    }

    fn values(cells: &[&str]) -> Vec<Column> {
        vec![Column::right("VALUE", cells.iter().map(|c| (*c).to_owned()).collect())]
    }

    #[test]
    fn narrow_results_are_tables() {
        let ports = &PORTS[..2];
        let want = "\
fabric_port_info  port=1  driver=mlx5_core  numa_node=1  now
HOST  DEVICE  NETDEV     NODE_DESC  VALUE
h1    mlx5_0  -          h1 mlx5_0      1
h20   mlx5_1  ens1f1np1  -          1 234
";
        assert_eq!(show(ports, values(&["1", "1 234"]), 41), want);
        let narrow = show(ports, values(&["1", "1 234"]), 40);
        let want = "\
fabric_port_info  port=1
driver=mlx5_core  numa_node=1  now

host=h1   device=mlx5_0  VALUE     1
    node_desc=\"h1 mlx5_0\"

host=h20  device=mlx5_1  VALUE 1 234
    netdev=ens1f1np1
";
        assert_eq!(narrow, want);
    }

    #[test]
    fn facts_print_their_value_once() {
        let want = "\
fabric_port_info  numa_node=1  now  VALUE 1

host=h1   device=mlx5_0  port=1
    driver=mlx5_core        node_desc=\"h1 mlx5_0\"

host=h20  device=mlx5_1  port=1
    driver=mlx5_core        netdev=ens1f1np1

host=h20  device=ibs2
    driver=\"a driver with a name longer than the screen is wide\"
";
        let text = show(&PORTS, values(&["1"; 3]), 60);
        assert_eq!(text, want);
        // A single series shares nothing with others, and loses nothing.
        let one = show(&PORTS[..1], values(&["1"]), 50);
        let want = "now

metric=fabric_port_info  host=h1  device=mlx5_0
    port=1  VALUE 1
    driver=mlx5_core        node_desc=\"h1 mlx5_0\"
    numa_node=1
";
        assert_eq!(one, want);
    }

    #[test]
    fn identity_lines_keep_their_values() {
        let ports: [&[(&str, &str)]; 2] = [&[("host", "h1")], &[("host", "h20")]];
        let course = Column::left("COURSE", vec!["___".to_owned(); 2]);
        let text = show(&ports, vec![course], 10);
        assert!(text.ends_with("now\nhost=h1\n    COURSE ___\nhost=h20\n    COURSE ___\n"), "{text}");
    }

    #[test]
    fn lines_fit_the_screen() {
        for width in [30, 40, 60, 80, 100] {
            for line in show(&PORTS[..2], values(&["1", "2"]), width).lines() {
                assert!(chars(line) <= width, "{width}: {line}");
            }
        }
        let ports: [&[(&str, &str)]; 1] = [&[("x", "a\u{1b}[2J\nb")]];
        assert!(!show(&ports, vec![], 5).contains('\u{1b}'));
    }
}
