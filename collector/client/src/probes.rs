//! `fabriclens probes`: how much of the fabric traced paths cross, the ports that agents offer, or the plan and the traces of a
//! host.

use serde::Deserialize;

use super::layout::{printable, rows};
use super::{ClientError, Form, ask, pairs, parse, print, print_json, url};
use crate::args::ProbesArgs;

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    summary: Option<Summary>,
    hosts: Vec<Host>,
    next: Option<usize>,
}

#[derive(Deserialize)]
struct Summary {
    hosts: usize,
    ports: usize,
    unused_ports: usize,
    probes_per_s: f64,
    traces_per_s: f64,
    coverage: Coverage,
}

#[derive(Deserialize)]
struct Coverage {
    between_switches: usize,
    all_between_switches: usize,
    at_hosts: usize,
    all_at_hosts: usize,
}

#[derive(Deserialize)]
struct Host {
    host: String,
    ports: Vec<Port>,
    pairs: Option<Vec<Pair>>,
    #[serde(default)]
    traces: Vec<Trace>,
}

#[derive(Deserialize)]
struct Port {
    port: String,
    address: Option<String>,
    lid: Option<u32>,
    traffic_class: Option<u32>,
    class_source: Option<String>,
    service_level: Option<u32>,
    level_source: Option<String>,
    answers: bool,
    traces: bool,
    unused: Option<String>,
}

#[derive(Deserialize)]
struct Pair {
    from: String,
    host: String,
    port: String,
    class: String,
    source_ports: Vec<u32>,
    probe_every_ms: u32,
    trace_every_ms: u32,
    tcp_twin: bool,
}

#[derive(Deserialize)]
struct Trace {
    from: String,
    host: String,
    port: String,
    source_port: Option<u16>,
    age_seconds: f64,
    why: Option<String>,
    hops: Vec<Hop>,
}

#[derive(Deserialize)]
struct Hop {
    addresses: Vec<String>,
    switch: Option<String>,
    ingress: Option<String>,
    egress: Option<String>,
    matched: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// [`ClientError`].
pub fn probes(args: &ProbesArgs) -> Result<(), ClientError> {
    let mut out = std::io::stdout().lock();
    let mut offset = 0;
    loop {
        let mut form: Form = args.host.iter().map(|host| ("host", host.clone())).collect();
        form.extend((offset > 0).then(|| ("offset", offset.to_string())));
        let of = url(&args.server, "api/v1/probes");
        let body = ask(&args.server, |agent| agent.get(of).query_pairs(pairs(&form)).call())?;
        if args.json {
            print_json(&mut out, &body)?;
        }
        let answer: Answer = parse(&args.server, &body)?;
        if !args.json {
            print(&mut out, &text(&answer.data, offset == 0))?;
        }
        match answer.data.next {
            Some(next) if next > offset => offset = next,
            _ => return Ok(()),
        }
    }
}

fn text(data: &Data, is_first: bool) -> String {
    let mut out = String::new();
    if let Some(summary) = data.summary.as_ref().filter(|_| is_first) {
        out.push_str(&head(summary));
    }
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut row = |cells: Vec<String>| lines.push(cells.iter().map(|cell| printable(cell)).collect());
    let titles = |titles: &[&str]| titles.iter().map(|title| (*title).to_owned()).collect::<Vec<_>>();
    if data.hosts.iter().any(|host| host.pairs.is_some()) {
        row(titles(&["FROM", "TO", "PORT", "CLASS", "PROBE", "TRACE", "TCP", "SOURCE PORTS"]));
        for pair in data.hosts.iter().flat_map(|host| host.pairs.iter().flatten()) {
            let Pair { from, host, port, class, source_ports, .. } = pair;
            let ports = source_ports.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            let twin = if pair.tcp_twin { "yes" } else { "-" }.to_owned();
            let [probe, trace] = [pair.probe_every_ms, pair.trace_every_ms].map(interval);
            row(vec![from.clone(), host.clone(), port.clone(), class.clone(), probe, trace, twin, ports]);
        }
    } else if !data.hosts.is_empty() {
        if is_first {
            row(titles(&["HOST", "PORT", "ADDRESS", "CLASS", "STATE"]));
        }
        for host in &data.hosts {
            for port in &host.ports {
                let lid = || port.lid.map(|lid| format!("LID {lid}"));
                let address = port.address.clone().or_else(lid).unwrap_or_else(|| "-".to_owned());
                row(vec![host.host.clone(), port.port.clone(), address, class(port), state(port)]);
            }
        }
    }
    out.extend(rows(&lines).iter().map(|line| format!("{line}\n")));
    let traces: Vec<&Trace> = data.hosts.iter().flat_map(|host| &host.traces).collect();
    if !traces.is_empty() {
        out.push('\n');
        out.extend(rows(&traced(&traces)).iter().map(|line| format!("{line}\n")));
    }
    out
}

/// The last trace of each source port: `SWITCH[PORT IN>PORT OUT]` by distance, and what named each switch.
fn traced(traces: &[&Trace]) -> Vec<Vec<String>> {
    let titles = ["FROM", "TO", "PORT", "SOURCE PORT", "AGE", "SWITCHES", "NAMED BY", "STATE"];
    let mut lines: Vec<Vec<String>> = vec![titles.map(str::to_owned).to_vec()];
    let list = |hops: &[Hop], word: fn(&Hop) -> String, between: &str| match hops {
        [] => "-".to_owned(),
        hops => hops.iter().map(word).collect::<Vec<_>>().join(between),
    };
    for Trace { from, host, port, source_port, age_seconds, why, hops } in traces {
        let cells = [
            from.clone(),
            host.clone(),
            port.clone(),
            source_port.map_or_else(|| "-".to_owned(), |port| port.to_string()),
            format!("{age_seconds:.0}s"),
            list(hops, hop, " "),
            list(hops, |hop| hop.matched.clone().unwrap_or_else(|| "-".to_owned()), ","),
            why.clone().unwrap_or_else(|| "path".to_owned()),
        ];
        lines.push(cells.iter().map(|cell| printable(cell)).collect());
    }
    lines
}

fn hop(hop: &Hop) -> String {
    let unnamed = || match &hop.addresses[..] {
        [] => "*".to_owned(),
        addresses => addresses.join("|"),
    };
    let name = hop.switch.clone().unwrap_or_else(unnamed);
    match (&hop.ingress, &hop.egress) {
        (None, None) => name,
        ports => {
            let [ingress, egress] = [ports.0, ports.1].map(|port| port.as_deref().unwrap_or("?"));
            format!("{name}[{ingress}>{egress}]")
        }
    }
}

fn head(summary: &Summary) -> String {
    let Summary { hosts, ports, unused_ports, probes_per_s, traces_per_s, coverage } = summary;
    if *hosts == 0 {
        return "no agent traces or probes; set probes.enabled in the agents' configuration (docs/probes.md)\n"
            .to_owned();
    }
    let share = |crossed: usize, all: usize| match all {
        0 => "no link known".to_owned(),
        all => format!("{crossed} of {all} ({:.0} %)", 100.0 * crossed as f64 / all as f64),
    };
    format!(
        "hosts: {hosts}, ports: {ports}, left out: {unused_ports}; planned: {probes_per_s:.1} probes and {traces_per_s:.1} \
         traces per second\nlinks that traced paths cross, by direction: between switches {}, at hosts {}\n",
        share(coverage.between_switches, coverage.all_between_switches),
        share(coverage.at_hosts, coverage.all_at_hosts),
    )
}

fn state(port: &Port) -> String {
    if let Some(why) = &port.unused {
        return format!("left out: {why}");
    }
    match (port.answers, port.traces) {
        (true, true) => "probes and traces",
        (true, false) => "probes",
        (false, true) => "traces",
        (false, false) => "is traced to",
    }
    .to_owned()
}

/// Traffic class (InfiniBand: service level), and where it comes from.
fn class(port: &Port) -> String {
    let known = |what: &str, value: Option<u32>, source: &Option<String>| {
        let source = source.as_ref().map_or_else(String::new, |source| format!(" ({source})"));
        Some(format!("{what}{}{source}", value?))
    };
    let level = || known("SL ", port.service_level, &port.level_source);
    known("", port.traffic_class, &port.class_source).or_else(level).unwrap_or_else(|| "-".to_owned())
}

fn interval(ms: u32) -> String {
    match ms {
        0 => "-".to_owned(),
        ms if ms < 1000 => format!("{ms}ms"),
        ms => format!("{:.1}s", f64::from(ms) / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(json: &str) -> Data {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn coverage_and_left_out_ports_are_shown() {
        let all = data(
            r#"{"summary": {"hosts": 2, "ports": 1, "unused_ports": 1, "probes_per_s": 3.5, "traces_per_s": 0.25,
                "coverage": {"between_switches": 3, "all_between_switches": 8, "at_hosts": 0, "all_at_hosts": 0}},
               "hosts": [
                {"host": "h1", "ports": [{"port": "mlx5_0/1", "address": "10.0.0.1", "traffic_class": 106,
                 "class_source": "forced by the driver of the host", "answers": true, "traces": true}]},
                {"host": "h\u001b2", "ports": [{"port": "mlx5_0/1", "lid": 7, "service_level": 0, "level_source": "unknown, so 0",
                 "answers": true, "traces": false, "unused": "two claim it"}]}]}"#,
        );
        let expected = "hosts: 2, ports: 1, left out: 1; planned: 3.5 probes and 0.2 traces per second\n\
            links that traced paths cross, by direction: between switches 3 of 8 (38 %), at hosts no link known\n\
            HOST  PORT      ADDRESS   CLASS                                   STATE\n\
            h1    mlx5_0/1  10.0.0.1  106 (forced by the driver of the host)  probes and traces\n\
            h\u{fffd}2   mlx5_0/1  LID 7     SL 0 (unknown, so 0)                    left out: two claim it\n";
        assert_eq!(text(&all, true), expected);
        assert_eq!(text(&all, false).lines().count(), 2, "further pages have no head");
    }

    #[test]
    fn the_plan_of_a_host_is_shown() {
        let one = data(
            r#"{"hosts": [{"host": "h1", "ports": [], "pairs": [{"from": "mlx5_0/1", "host": "h2", "port": "mlx5_1/1",
                "class": "job", "source_ports": [50000, 50001], "probe_every_ms": 1500, "trace_every_ms": 0,
                "tcp_twin": true}]}]}"#,
        );
        let expected = "FROM      TO  PORT      CLASS  PROBE  TRACE  TCP  SOURCE PORTS\n\
            mlx5_0/1  h2  mlx5_1/1  job    1.5s   -      yes  50000,50001\n";
        assert_eq!(text(&one, true), expected);
    }

    #[test]
    fn traces_are_shown_by_source_port() {
        let one = data(
            r#"{"hosts": [{"host": "h1", "ports": [], "pairs": [], "traces": [
                {"from": "mlx5_0/1", "host": "h3", "port": "mlx5_0/1", "source_port": 50000, "age_seconds": 12.4,
                 "hops": [{"addresses": [], "switch": "leaf1", "ingress": "1", "egress": "swp9", "matched": "cable"},
                          {"addresses": ["10.9.0.1"], "switch": "spine1", "ingress": "2", "matched": "address"}]},
                {"from": "mlx5_0/1", "host": "h4", "port": "mlx5_0/1", "source_port": 50001, "age_seconds": 0.2,
                 "why": "a switch\u001b is silent",
                 "hops": [{"addresses": ["10.9.0.1", "10.9.0.2"]}, {"addresses": []}]}]}]}"#,
        );
        let expected = "\nFROM      TO  PORT      SOURCE PORT  AGE  SWITCHES                      NAMED BY       STATE\n\
            mlx5_0/1  h3  mlx5_0/1  50000        12s  leaf1[1>swp9] spine1[2>?]     cable,address  path\n\
            mlx5_0/1  h4  mlx5_0/1  50001        0s   10.9.0.1|10.9.0.2 *           -,-            a switch\u{fffd} is silent\n";
        let shown = text(&one, true);
        let shown = shown.split_once('\n').unwrap().1;
        assert_eq!(words(shown), words(expected));
        assert!(shown.contains('\u{fffd}'), "{shown}");
    }

    fn words(text: &str) -> Vec<Vec<&str>> {
        text.lines().map(|line| line.split_whitespace().collect()).collect()
    }
}
