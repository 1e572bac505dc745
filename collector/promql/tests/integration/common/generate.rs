//! Random series and expressions over them, generated from a seed.

use fabriclens_model::{Labels, Series, stale};

/// xorshift64*: the same seed gives the same sequence on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn unit(&mut self) -> f64 {
        self.below(1 << 30) as f64 / f64::from(1 << 30)
    }
}

/// Counters with resets, gauges with NaN, infinities and gaps, histograms; scraped every 15 s with some jitter, sorted
/// by labels. Times begin at `base` and span 40 minutes.
pub fn series(r: &mut Random, base: i64) -> Vec<Series> {
    let mut out = vec![];
    let hosts = ["a", "b", "c"];
    let ports = ["1", "2"];
    for host in hosts {
        out.push(one(
            r,
            base,
            &[("__name__", "info"), ("host", host), ("rack", if host == "c" { "r2" } else { "r1" })],
            |_, _| 1.0,
        ));
        for port in ports {
            let labels = |name| [("__name__", name), ("host", host), ("port", port)];
            out.push(counter(r, base, &labels("rx_total"), 1e6));
            out.push(counter(r, base, &labels("tx_total"), 1e9));
            out.push(counter(r, base, &labels("young_total"), 0.0));
            out.push(one(r, base, &labels("depth"), |r, _| r.unit() * 100.0 - 20.0));
            out.push(one(r, base, &labels("level"), |r, _| r.below(5) as f64));
            out.push(one(r, base, &labels("odd"), |r, _| match r.below(8) {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                3 => -0.0,
                n => n as f64 * 1e-3,
            }));
            out.push(one(r, base, &labels("slope"), |r, i| i as f64 * 2.5 + r.unit()));
        }
        let mut counts = [0.0; 4];
        let mut columns = vec![vec![]; 4];
        for _ in 0..160 {
            let total = r.below(20);
            for (b, c) in counts.iter_mut().enumerate() {
                *c += (total * (b + 1) / 4) as f64;
                columns[b].push(*c);
            }
        }
        for (le, column) in ["0.1", "0.5", "2.5", "+Inf"].into_iter().zip(columns) {
            out.push(one(r, base, &[("__name__", "lat_bucket"), ("host", host), ("le", le)], |_, i| column[i]));
        }
    }
    out.sort_by(|a, b| a.labels.cmp(&b.labels));
    out
}

fn counter(r: &mut Random, base: i64, labels: &[(&str, &str)], start: f64) -> Series {
    let mut value = start;
    one(r, base, labels, |r, _| {
        value = if r.one_in(40) { 0.0 } else { value + r.below(1000) as f64 };
        value
    })
}

fn one(r: &mut Random, base: i64, labels: &[(&str, &str)], mut value: impl FnMut(&mut Random, usize) -> f64) -> Series {
    let mut s = Series { labels: Labels::new(labels.iter().copied()), ..Series::default() };
    let jitter = r.one_in(2);
    let mut missing = 0;
    for i in 0..160 {
        let v = value(r, i);
        if missing > 0 {
            missing -= 1;
            continue;
        }
        s.times.push(base + i as i64 * 15_000 + if jitter { r.below(3_000) as i64 } else { 0 });
        if r.one_in(50) {
            s.values.push(stale());
            missing = r.below(10);
            continue;
        }
        if r.one_in(60) {
            // Occasionally long enough to fall out of the lookback.
            missing = r.below(30);
        }
        s.values.push(v);
    }
    s
}

const MAP: &[&str] =
    &["abs", "ceil", "floor", "sqrt", "sgn", "deg", "rad", "timestamp", "absent", "sort", "sort_desc", "exp", "ln"];
/// The last digit of these functions is platform dependent, and further operations could amplify it.
const SENSITIVE: &[&str] = &[
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "minute",
    "hour",
    "day_of_week",
    "day_of_month",
    "day_of_year",
    "days_in_month",
    "month",
    "year",
];
const OVER: &[&str] = &[
    "rate",
    "increase",
    "irate",
    "delta",
    "idelta",
    "deriv",
    "resets",
    "changes",
    "sum_over_time",
    "avg_over_time",
    "min_over_time",
    "max_over_time",
    "count_over_time",
    "stddev_over_time",
    "stdvar_over_time",
    "last_over_time",
    "present_over_time",
    "absent_over_time",
];
const OVER_EXACT: &[&str] = &["resets", "changes", "min_over_time", "last_over_time", "count_over_time"];
const NAMES: &[&str] = &["rx_total", "tx_total", "young_total", "depth", "level", "odd", "slope", "info", "lat_bucket"];
const RANGES: &[&str] = &["30s", "1m", "90s", "2m", "5m", "13m"];

fn shift(r: &mut Random) -> String {
    let offset = if r.one_in(5) {
        format!(" offset {}", r.pick(&["1m", "-1m", "37s", "5m", "0s1m"][..4]))
    } else {
        String::new()
    };
    let at = if r.one_in(8) {
        format!(" @ {}", r.pick(&["start()", "end()", "1700000900", "1700000123.456"]))
    } else {
        String::new()
    };
    format!("{at}{offset}")
}

fn selector(r: &mut Random) -> String {
    let name = r.pick(NAMES);
    let matchers = match r.below(8) {
        0 => r#"{host="a"}"#,
        1 => r#"{host=~"a|b"}"#,
        2 => r#"{host!="c", port="1"}"#,
        3 => r#"{port!~"2"}"#,
        4 => r#"{host="nowhere"}"#,
        _ => "",
    };
    format!("{name}{matchers}")
}

fn ranged(r: &mut Random, depth: usize) -> String {
    let range = r.pick(RANGES);
    if depth > 0 && r.one_in(4) {
        let step = r.pick(&["", "15s", "40s", "1m", "7m"]);
        let inner = vector(r, depth - 1);
        return format!("({inner})[{range}:{step}]{}", shift(r));
    }
    format!("{}[{range}]{}", selector(r), shift(r))
}

fn grouping(r: &mut Random) -> &'static str {
    [
        "",
        " by (host)",
        " by (port)",
        " by (host, port)",
        " without (port)",
        " without (host, le)",
        " by (rack, __name__)",
    ][r.below(7)]
}

/// A scalar expression.
pub fn scalar(r: &mut Random, depth: usize) -> String {
    match r.below(if depth == 0 { 3 } else { 6 }) {
        0 => r.pick(&["0", "1", "2.5", "-3", "1e3", "0.1", "Inf", "NaN"]).to_owned(),
        1 => "time()".to_owned(),
        2 => "pi()".to_owned(),
        3 => format!("scalar({})", vector(r, depth - 1)),
        4 => format!("({} {} {})", scalar(r, depth - 1), arithmetic(r), scalar(r, depth - 1)),
        _ => format!("({} {} bool {})", scalar(r, depth - 1), comparison(r), scalar(r, depth - 1)),
    }
}

fn arithmetic(r: &mut Random) -> &'static str {
    ["+", "-", "*", "/", "%", "^", "atan2"][r.below(7)]
}

fn comparison(r: &mut Random) -> &'static str {
    ["==", "!=", "<", "<=", ">", ">="][r.below(6)]
}

fn matching(r: &mut Random, set: bool) -> String {
    let on = r.pick(&["", "on (host)", "on (host, port)", "ignoring (port)", "ignoring (rack, le)", "on ()"]);
    let group = if on.is_empty() || set {
        ""
    } else {
        r.pick(&["", "", "group_left", "group_right", "group_left (rack)", "group_right (rack)"])
    };
    format!("{on} {group}")
}

/// An instant vector expression.
pub fn vector(r: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return format!("{}{}", selector(r), shift(r));
    }
    let d = depth - 1;
    match r.below(20) {
        0 | 1 => format!("{}{}", selector(r), shift(r)),
        2..=6 => over_time(r, d),
        7 => format!("{}({})", r.pick(MAP), vector(r, d)),
        8 => format!("{}({})", r.pick(SENSITIVE), vector(r, 0)),
        9..=11 => {
            let op = r.pick(&["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"]);
            format!("{op}{} ({})", grouping(r), vector(r, d))
        }
        12 => match r.below(4) {
            // Equal values would make the choice arbitrary, so only inputs that hardly ever tie.
            0 => format!("topk{} ({}, depth)", grouping(r), r.pick(&["1", "2", "3", "10", "0"])),
            1 => format!("bottomk{} ({}, slope)", grouping(r), r.pick(&["1", "2", "3", "-1"])),
            2 => format!(
                "quantile{} ({}, {})",
                grouping(r),
                r.pick(&["0", "0.3", "0.5", "1", "1.5", "NaN"]),
                vector(r, d)
            ),
            // The last digit of a transcendental function is platform dependent, and here it would become a label.
            _ => format!("count_values{} (\"v\", {}(level[{}]))", grouping(r), r.pick(OVER_EXACT), r.pick(RANGES)),
        },
        13 => {
            let op = arithmetic(r);
            let d = if matches!(op, "%" | "^") { 0 } else { d };
            format!("({} {op} {} {})", vector(r, d), matching(r, false), vector(r, d))
        }
        14 => {
            let op = comparison(r);
            let as_bool = r.pick(&["", "bool"]);
            format!("({} {op} {as_bool} {} {})", vector(r, d), matching(r, false), vector(r, d))
        }
        15 => {
            let op = r.pick(&["and", "or", "unless"]);
            format!("({} {op} {} {})", vector(r, d), matching(r, true), vector(r, d))
        }
        16 => {
            let op = if r.one_in(2) {
                arithmetic(r).to_owned()
            } else {
                format!("{} {}", comparison(r), r.pick(&["", "bool"]))
            };
            if r.one_in(2) {
                format!("({} {op} {})", vector(r, d), scalar(r, d))
            } else {
                format!("({} {op} {})", scalar(r, d), vector(r, d))
            }
        }
        17 => other(r, d),
        18 => format!("-{}", vector(r, 0)),
        _ => format!(
            "histogram_quantile({}, rate(lat_bucket[{}]))",
            r.pick(&["0", "0.5", "0.9", "1", "2"]),
            r.pick(RANGES)
        ),
    }
}

fn over_time(r: &mut Random, d: usize) -> String {
    match r.below(12) {
        0 => format!("quantile_over_time({}, {})", r.pick(&["0.5", "0", "1", "0.9", "-1"]), ranged(r, d)),
        1 => format!("predict_linear({}, {})", ranged(r, d), r.pick(&["60", "-30", "3600"])),
        2 => format!("holt_winters({}, {}, {})", ranged(r, d), r.pick(&["0.5", "0.1"]), r.pick(&["0.3", "0.9"])),
        _ => format!("{}({})", r.pick(OVER), ranged(r, d)),
    }
}

fn other(r: &mut Random, d: usize) -> String {
    match r.below(7) {
        0 => format!("clamp({}, {}, {})", vector(r, d), scalar(r, 0), scalar(r, 0)),
        1 => format!("clamp_min({}, {})", vector(r, d), scalar(r, 0)),
        2 => format!("clamp_max({}, {})", vector(r, d), scalar(r, 0)),
        3 => format!("round({}, {})", vector(r, d), r.pick(&["1", "0.5", "10", "0.01"])),
        4 => format!(r#"label_replace({}, "h2", "x-$1", "host", "([ab])")"#, vector(r, d)),
        5 => format!(r#"label_join({}, "joined", "/", "host", "port")"#, vector(r, d)),
        _ => format!("vector({})", scalar(r, d)),
    }
}

/// The expression with a token or a few characters added or removed: usually invalid.
pub fn mutated(r: &mut Random, query: &str) -> String {
    const TOKENS: &[&str] = &[
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "-",
        "+",
        "*",
        " by ",
        " on (host) ",
        " group_left ",
        " bool ",
        " offset 1m ",
        "[5m]",
        "[5m:1m]",
        "[5m:]",
        " @ 1700000000 ",
        "1",
        "\"x\"",
        "5m",
        "=",
        "=~",
        "!=",
        "sum",
        "rate",
        " and ",
        "host",
        "#",
        "\n",
        ":",
        "(1)",
        " atan2 ",
        "'y'",
        "`z`",
        "\\",
        ".",
        "0x",
        "e",
        " NaN ",
        " without () ",
        "{}",
        "{x=\"\"}",
        "é",
        "start()",
        "_",
    ];
    let mut chars: Vec<char> = query.chars().collect();
    for _ in 0..1 + r.below(2) {
        let at = r.below(chars.len() + 1);
        match r.below(3) {
            0 => drop(chars.splice(at..at, r.pick(TOKENS).chars())),
            1 => drop(chars.drain(at..(at + 1 + r.below(3)).min(chars.len()))),
            _ => {
                let end = (at + 1 + r.below(3)).min(chars.len());
                drop(chars.splice(at..end, r.pick(TOKENS).chars()));
            }
        }
    }
    chars.into_iter().collect()
}
