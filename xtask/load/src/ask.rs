//! `fabriclens-load ask`: runs dashboard queries on each server, compares the answers and measures the latency.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// Step of range queries in seconds.
const STEP: i64 = 15;
/// Largest relative difference that counts as rounding.
const SAME: f64 = 1e-9;

/// A query: title, PromQL, and whether it is a range or an instant query.
struct Question {
    name: &'static str,
    promql: &'static str,
    range: bool,
}

const fn now(name: &'static str, promql: &'static str) -> Question {
    Question { name, promql, range: false }
}
const fn graph(name: &'static str, promql: &'static str) -> Question {
    Question { name, promql, range: true }
}

const QUESTIONS: [Question; 13] = [
    now("ports that report", "count(fabric_port_info)"),
    now("received, by host", "sum by (host) (rate(fabric_port_io_bytes_total{direction=\"receive\"}[1m]))"),
    now("ten fullest ports", "topk(10, rate(fabric_port_io_bytes_total[1m]))"),
    now(
        "ports that pause, by host",
        "count by (host) (increase(fabric_pfc_frames_total{direction=\"transmit\"}[5m]) > 0)",
    ),
    now(
        "lost packets of 10 min",
        "max by (host) (max_over_time(fabric_rdma_out_of_sequence_total[10m]) \
         - min_over_time(fabric_rdma_out_of_sequence_total[10m]))",
    ),
    now(
        "RDMA by rail",
        "sum by (rail) (rate(fabric_rdma_io_bytes_total[1m]) * on (host, device, port) group_left (rail) fabric_port_info)",
    ),
    graph("fabric, by direction", "sum by (direction) (rate(fabric_port_io_bytes_total[1m]))"),
    graph(
        "five busiest hosts",
        "topk(5, sum by (host) (rate(fabric_port_io_bytes_total{direction=\"transmit\"}[1m])))",
    ),
    graph("one host's ports", "rate(fabric_port_io_bytes_total{host=\"node00007\"}[30s])"),
    graph("one host's counters", "{__name__=~\"fabric_(pfc|cnp|ecn)_.+\", host=\"node00003\"}"),
    graph("pause share, by host", "max by (host) (rate(fabric_pfc_pause_seconds_total{priority=\"3\"}[1m]))"),
    graph("99th percentile of ports", "quantile by (direction) (0.99, rate(fabric_port_packets_total[1m]))"),
    graph(
        "RDMA by rail, graph",
        "sum by (rail) (rate(fabric_rdma_io_bytes_total{direction=\"transmit\"}[1m]) \
         * on (host, device, port) group_left (rail) fabric_port_info)",
    ),
];

/// Options of `ask`.
#[derive(clap::Args)]
pub struct Args {
    /// `name=url` of a server, repeated; the others are compared with the first
    #[arg(long, required = true)]
    server: Vec<String>,
    /// Time of the last sample, Unix milliseconds
    #[arg(long)]
    end: i64,
    /// Seconds of data
    #[arg(long)]
    ticks: i64,
    /// Repetitions of each query; servers take turns
    #[arg(long, default_value_t = 1)]
    rounds: usize,
}

struct Server<'a> {
    name: &'a str,
    url: &'a str,
    agent: ureq::Agent,
}

/// Runs the queries; gives for each query and server the milliseconds, and the largest difference to the first server.
///
/// # Errors
/// When a server does not answer.
pub fn run(args: &Args) -> Result<Value> {
    let server =
        |s: &'_ String| s.split_once('=').map(|(n, u)| (n.to_owned(), u.to_owned())).context("--server NAME=URL");
    let named = args.server.iter().map(server).collect::<Result<Vec<_>>>()?;
    let servers: Vec<Server> =
        named.iter().map(|(name, url)| Server { name, url, agent: ureq::Agent::new_with_defaults() }).collect();
    let mut times = vec![vec![Vec::new(); servers.len()]; QUESTIONS.len()];
    let mut differences = vec![vec![None; servers.len()]; QUESTIONS.len()];
    for round in 0..args.rounds {
        for (q, question) in QUESTIONS.iter().enumerate() {
            let mut first = None;
            for (s, server) in servers.iter().enumerate() {
                let begin = Instant::now();
                let text = server.ask(question, args)?;
                times[q][s].push(begin.elapsed().as_secs_f64() * 1e3);
                if round > 0 {
                    continue;
                }
                let answer = series(&text).with_context(|| format!("{}: {}", server.name, question.promql))?;
                ensure!(!answer.is_empty(), "{} has no result for {}", server.name, question.promql);
                match &first {
                    None => first = Some(answer),
                    Some(first) => differences[q][s] = Some(difference(first, &answer)),
                }
            }
        }
    }
    let of_question = |(q, question): (usize, &Question)| {
        let of_server = |(s, server): (usize, &Server)| {
            (server.name.to_owned(), json!({"ms": times[q][s], "difference": differences[q][s]}))
        };
        let servers: serde_json::Map<String, Value> = servers.iter().enumerate().map(of_server).collect();
        json!({"name": question.name, "promql": question.promql, "range": question.range, "servers": servers})
    };
    Ok(json!({"same": SAME, "questions": QUESTIONS.iter().enumerate().map(of_question).collect::<Vec<_>>()}))
}

impl Server<'_> {
    fn ask(&self, question: &Question, args: &Args) -> Result<String> {
        // Half a second off the samples, so that it does not matter whether a window includes both ends.
        let end = args.end as f64 / 1e3 + 0.5;
        let path = if question.range { "query_range" } else { "query" };
        // VictoriaMetrics aligns range queries to the step unless its response cache is off.
        let request =
            self.agent.get(format!("{}/api/v1/{path}", self.url)).query("query", question.promql).query("nocache", "1");
        let request = if question.range {
            let start = end - ((args.ticks - 60).max(STEP) / STEP * STEP) as f64;
            request.query("start", start.to_string()).query("end", end.to_string()).query("step", STEP.to_string())
        } else {
            request.query("time", end.to_string())
        };
        let mut answer = request.call().with_context(|| format!("ask {} {}", self.name, question.promql))?;
        Ok(answer.body_mut().with_config().limit(256 << 20).read_to_string()?)
    }
}

/// Points by labels, without the metric name: servers disagree which functions keep it.
type Series = BTreeMap<String, Vec<(f64, f64)>>;

fn series(text: &str) -> Result<Series> {
    let answer: Value = serde_json::from_str(text).context("read the answer")?;
    let point = |p: &Value| -> Option<(f64, f64)> { Some((p[0].as_f64()?, p[1].as_str()?.parse().ok()?)) };
    let mut out = Series::new();
    for one in answer["data"]["result"].as_array().context("no result")? {
        let name = if one["values"].is_array() { one["metric"]["__name__"].as_str() } else { None };
        let labels = one["metric"].as_object().context("no labels")?.iter().filter(|l| l.0 != "__name__");
        let labels: Vec<String> = labels.map(|(n, v)| format!("{n}={v}")).collect();
        let points = match one["values"].as_array() {
            Some(values) => values.iter().map(point).collect(),
            None => point(&one["value"]).map(|p| vec![p]),
        };
        let key = format!("{} {}", name.unwrap_or_default(), labels.join(","));
        if out.insert(key, points.context("no numbers")?).is_some() {
            bail!("a series comes twice");
        }
    }
    Ok(out)
}

/// Largest relative difference of two answers; infinity if series or times differ.
fn difference(a: &Series, b: &Series) -> f64 {
    if !a.keys().eq(b.keys()) {
        return f64::INFINITY;
    }
    let mut worst = 0.0_f64;
    for (p, q) in a.values().zip(b.values()) {
        if p.len() != q.len() {
            return f64::INFINITY;
        }
        for ((t, v), (u, w)) in p.iter().zip(q) {
            let same_time = (t - u).abs() < 1e-6;
            let off = (v - w).abs() / v.abs().max(w.abs()).max(f64::MIN_POSITIVE);
            worst = worst.max(if !same_time {
                f64::INFINITY
            } else if v == w {
                0.0
            } else {
                off
            });
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(value: &str) -> Series {
        let text = format!(
            r#"{{"status":"success","data":{{"resultType":"vector","result":[
                {{"metric":{{"__name__":"x","host":"a"}},"value":[1.5,"{value}"]}},
                {{"metric":{{"host":"b"}},"value":[1.5,"2"]}}]}}}}"#
        );
        series(&text).unwrap()
    }

    #[test]
    fn differing_series_are_infinitely_far() {
        assert_eq!(difference(&answer("4"), &answer("4")), 0.0);
        assert_eq!(difference(&answer("4"), &answer("5")), 0.2);
        let mut fewer = answer("4");
        fewer.pop_first();
        assert_eq!(difference(&answer("4"), &fewer), f64::INFINITY);
    }
}
