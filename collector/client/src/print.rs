//! Formats query results for people (see [`super::layout`]) or as CSV.

use std::collections::BTreeMap;

use super::answer::{Answer, Data, Point, Range};
use super::layout::{Column, lay_out, names, printable};
use fabriclens_base::terminal::csv_cell;
use fabriclens_core::time::format_time;

/// Heights of a sparkline.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Formats a result, one line per series, or one block if a line does not fit `width` columns. Ranges show a sparkline
/// and the smallest, largest and last value.
pub(super) fn people(answer: &Answer, width: usize) -> String {
    match &answer.data {
        Data::Scalar(p) | Data::String(p) => format!("{}\n", printable(&p.1)),
        Data::Vector(list) if list.is_empty() => "no series at this time\n".to_owned(),
        Data::Matrix(list) if list.is_empty() => "no series in this range\n".to_owned(),
        Data::Vector(list) => {
            let labels: Vec<_> = list.iter().map(|i| &i.metric).collect();
            let one_time = list.iter().all(|i| i.value.0 == list[0].value.0);
            let mut columns = vec![Column::right("VALUE", list.iter().map(|i| human(&i.value.1)).collect())];
            if !one_time {
                columns.push(Column::left("TIME", list.iter().map(|i| clock(i.value.0)).collect()));
            }
            let when = one_time.then(|| clock(list[0].value.0));
            lay_out(&labels, columns, when, width)
        }
        Data::Matrix(list) => {
            let labels: Vec<_> = list.iter().map(|r| &r.metric).collect();
            let number = |p: &Point| p.1.parse::<f64>().unwrap_or(f64::NAN);
            let pick = |r: &Range, f: fn(f64, f64) -> f64| {
                let v = r.values.iter().map(number).filter(|v| !v.is_nan()).reduce(f);
                v.map_or_else(|| "NaN".to_owned(), |v| human(&v.to_string()))
            };
            let times = list.iter().flat_map(|r| &r.values).map(|p| p.0);
            let span = times.fold((f64::INFINITY, f64::NEG_INFINITY), |s, t| (s.0.min(t), s.1.max(t)));
            let columns = vec![
                Column::left("COURSE", list.iter().map(|r| sparkline(&r.values, span)).collect()),
                Column::right("MIN", list.iter().map(|r| pick(r, f64::min)).collect()),
                Column::right("MAX", list.iter().map(|r| pick(r, f64::max)).collect()),
                Column::right(
                    "LAST",
                    list.iter().map(|r| r.values.last().map(|p| human(&p.1)).unwrap_or_default()).collect(),
                ),
            ];
            lay_out(&labels, columns, Some(format!("{} to {}", clock(span.0), clock(span.1))), width)
        }
    }
}

/// Formats CSV: `time,<labels>,value`, one line per sample.
pub(super) fn csv(answer: &Answer) -> String {
    let empty = BTreeMap::new();
    let rows: Vec<(&BTreeMap<String, String>, &Point)> = match &answer.data {
        Data::Scalar(p) | Data::String(p) => vec![(&empty, p)],
        Data::Vector(list) => list.iter().map(|i| (&i.metric, &i.value)).collect(),
        Data::Matrix(list) => list.iter().flat_map(|r| r.values.iter().map(|p| (&r.metric, p))).collect(),
    };
    let labels: Vec<_> = rows.iter().map(|r| r.0).collect();
    let names = names(&labels);
    let mut out = String::new();
    let header: Vec<String> =
        std::iter::once("time").chain(names.iter().copied()).chain(["value"]).map(csv_cell).collect();
    out.push_str(&(header.join(",") + "\n"));
    for (metric, point) in rows {
        let label = |n: &&str| csv_cell(metric.get(*n).map_or("", String::as_str));
        let mut cells = vec![clock(point.0)];
        cells.extend(names.iter().map(label));
        cells.push(csv_cell(&point.1));
        out.push_str(&(cells.join(",") + "\n"));
    }
    out
}

/// Formats a number: large whole numbers in groups of three, fractions with six digits.
fn human(text: &str) -> String {
    let Ok(v) = text.parse::<f64>() else { return printable(text) };
    if !v.is_finite() || v == 0.0 {
        return text.to_owned();
    }
    let rounded = if v.abs() >= 1e6 {
        format!("{v:.0}")
    } else if v.fract() == 0.0 {
        format!("{v}")
    } else {
        six_digits(v)
    };
    if rounded.contains('e') {
        return rounded;
    }
    let (sign, rest) = rounded.strip_prefix('-').map_or(("", rounded.as_str()), |r| ("-", r));
    let (whole, fraction) = rest.split_once('.').map_or((rest, String::new()), |(w, f)| (w, format!(".{f}")));
    let mut grouped = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            grouped.push(' ');
        }
        grouped.push(c);
    }
    format!("{sign}{grouped}{fraction}")
}

fn six_digits(v: f64) -> String {
    if v.abs() < 1e-4 {
        return format!("{v:.5e}");
    }
    let decimals = (5 - v.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{v:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn clock(seconds: f64) -> String {
    let text = format_time((seconds * 1000.0).round() as i64);
    text.strip_suffix(".000Z").map_or(text.clone(), |t| format!("{t}Z"))
}

/// Draws bars over the time span of the whole result, blank where there is no point.
fn sparkline(points: &[Point], span: (f64, f64)) -> String {
    const WIDTH: usize = 40;
    let width = (span.1 - span.0).max(1e-3);
    let mut slots: Vec<Option<f64>> = vec![None; WIDTH];
    for (t, text) in points {
        let Some(v) = text.parse::<f64>().ok().filter(|v| v.is_finite()) else { continue };
        let slot = &mut slots[(((t - span.0) / width) * (WIDTH - 1) as f64).round() as usize % WIDTH];
        *slot = Some(slot.map_or(v, |s| s.max(v)));
    }
    let values = || slots.iter().flatten();
    let (min, max) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
    // With few points, gaps are left out.
    let spread = points.len() < WIDTH;
    let bar = |v: f64| if max > min { BARS[(((v - min) / (max - min)) * 7.0).round() as usize] } else { BARS[0] };
    slots.iter().filter(|s| !spread || s.is_some()).map(|s| s.map_or(' ', bar)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(data: &str) -> Answer {
        serde_json::from_str(&format!("{{\"status\":\"success\",\"data\":{data}}}")).unwrap()
    }

    #[test]
    fn names_and_values_of_senders_cannot_act() {
        let metric = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let body = |labels: BTreeMap<String, String>| {
            let series = serde_json::json!({"metric": labels, "value": [0, "1"]});
            let answer = serde_json::json!({"status": "success", "data": {"resultType": "vector", "result": [series]}});
            serde_json::from_value::<Answer>(answer).unwrap()
        };
        for labels in [metric("a\u{9b}2J", "x"), metric("a", "=cmd|'/C calc'!A0\u{1b}[2J")] {
            for text in
                [people(&body(labels.clone()), 80), people(&body(labels.clone()), 5), csv(&body(labels.clone()))]
            {
                assert!(!text.contains(['\u{9b}', '\u{1b}']) && !text.contains(",=cmd"), "{text:?}");
            }
        }
    }

    #[test]
    fn common_labels_are_above_the_table() {
        let a = answer(
            r#"{"resultType":"vector","result":[
            {"metric":{"__name__":"m","host":"h1","zone":"a"},"value":[1700000000,"1234567.8"]},
            {"metric":{"__name__":"m","host":"h20","zone":"a"},"value":[1700000000,"0.25"]}]}"#,
        );
        let want = "m  zone=a  2023-11-14T22:13:20Z\nHOST      VALUE\nh1    1 234 568\nh20        0.25\n";
        assert_eq!(people(&a, 80), want);
        let want =
            "time,__name__,host,zone,value\n2023-11-14T22:13:20Z,m,h1,a,1234567.8\n2023-11-14T22:13:20Z,m,h20,a,0.25\n";
        assert_eq!(csv(&a), want);
    }

    #[test]
    fn ranges_show_a_sparkline() {
        let a = answer(
            r#"{"resultType":"matrix","result":[{"metric":{"h":"x"},"values":[[10,"0"],[20,"7"],[30,"3.5"]]}]}"#,
        );
        let want =
            "1970-01-01T00:00:10Z to 1970-01-01T00:00:30Z\nH  COURSE  MIN  MAX  LAST\nx  ▁█▅       0    7   3.5\n";
        assert_eq!(people(&a, 80), want);
    }

    #[test]
    fn numbers_are_short_and_texts_printable() {
        let pairs = [
            ("0", "0"),
            ("1000", "1 000"),
            ("-1234567", "-1 234 567"),
            ("0.333333333333", "0.333333"),
            ("1e-07", "1.00000e-7"),
            ("+Inf", "+Inf"),
            ("12.5", "12.5"),
            ("NaN", "NaN"),
        ];
        for (text, want) in pairs {
            assert_eq!(human(text), want, "{text}");
        }
        assert_eq!(printable("a\u{1b}[2J"), "a\u{fffd}[2J");
        assert_eq!(people(&answer(r#"{"resultType":"vector","result":[]}"#), 80), "no series at this time\n");
        assert_eq!(people(&answer(r#"{"resultType":"scalar","result":[1,"4"]}"#), 80), "4\n");
        assert_eq!(csv_cell("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
