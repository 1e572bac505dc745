//! Comparisons of reports as the collector writes them.

use serde_json::{Value, json};

use super::*;

fn figure(unit: &str, parts: &[(&str, f64, usize)]) -> Value {
    let parts = parts.iter().map(|(grade, value, of)| json!({"grade": grade, "value": value, "of": of}));
    json!({"unit": unit, "parts": parts.collect::<Vec<_>>()})
}

/// A figure of ports that only this job used.
fn own(unit: &str, value: f64, of: usize) -> Value {
    figure(unit, &[("exclusive", value, of)])
}

/// Run 1 of a job that ended after an hour on 2 hosts with 2 ports each, and lost up to 0.4 % of it.
fn calm(id: &str) -> Value {
    let rail = |rail: &str| {
        json!({"rail": rail, "ports": 2, "transmitted": own("By", 90e12, 2), "received": figure("By", &[]),
        "of_mean": 1.0, "paused": own("1", 0.001, 2)})
    };
    let host = |host: &str| json!({"host": host, "measured": true, "transmitted": own("By", 90e12, 2), "paused": own("1", 0.002, 2)});
    json!({
        "version": 1, "generated_ns": 0,
        "job": {"cluster": "", "id": id, "run": 1, "user": "ann", "name": "train", "labels": {}, "start_ns": 0,
            "end_ns": 3_600_000_000_000_i64, "hosts": 2, "disagreements": []},
        "range": {"start_ns": 0, "end_ns": 3_600_000_000_000_i64, "step_seconds": 10.0, "method": "samples"},
        "summary": {
            "cost": {"at_least": own("s", 0.0, 4), "at_most": own("s", 14.4, 4), "at_most_share": own("1", 0.004, 4),
                "timeouts": own("{count}", 0.0, 4)},
            "cause": {"kind": "none", "text": "Nothing that was measured held the job back."}},
        "traffic": {"transmitted": own("By", 180e12, 4), "mean_rate": own("By/s", 50e9, 4), "rails": [rail("0"), rail("1")],
            "hosts": [host("gpu-01"), host("gpu-02")], "straggler": null},
        "congestion": {"paused": own("1", 0.001, 4), "pausing": own("1", 0.0, 4), "xmit_wait": figure("1", &[]),
            "cnp_received": own("{count}", 400.0, 4)},
        "incidents": [{"kind": "incast", "role": "bystander"}],
        "health": {"link_errors": own("{count}", 0.0, 4), "discards": own("{count}", 0.0, 4),
            "retransmits": own("{count}", 3.0, 4)},
        "transport": {"tcp_share": 0.01},
        "quality": {"measured": 2},
    })
}

/// The same work, held back by a storm: 12 % longer, 8 to 14 % of it lost.
fn held_back(id: &str) -> Value {
    let mut report = calm(id);
    let end_ns = json!(4_032_000_000_000_i64);
    (report["job"]["end_ns"], report["range"]["end_ns"]) = (end_ns.clone(), end_ns);
    report["summary"]["cost"] = json!({"at_least": own("s", 322.56, 4), "at_most": own("s", 564.48, 4),
        "at_most_share": own("1", 0.14, 4), "timeouts": own("{count}", 0.0, 4)});
    report["summary"]["cause"] =
        json!({"kind": "slow_receiver", "text": "Most likely a receiver of the job itself: gpu-02 mlx5_1."});
    report["traffic"]["mean_rate"] = own("By/s", 44.6e9, 4);
    report["traffic"]["rails"][1]["transmitted"] = own("By", 60e12, 2);
    report["traffic"]["rails"][1]["of_mean"] = json!(0.8);
    report["traffic"]["straggler"] = json!({"host": "gpu-02", "device": "mlx5_1", "rail": "1", "by": "pausing",
        "text": "paused its switch for 22.0 % of the time"});
    report["traffic"]["hosts"][0]["paused"] = own("1", 0.12, 2);
    report["congestion"]["paused"] = own("1", 0.06, 4);
    report["health"]["retransmits"] = own("{count}", 9.0, 4);
    report["incidents"] = json!([{"kind": "pfc_storm", "role": "victim"}, {"kind": "pfc_storm", "role": "victim"}]);
    report
}

fn compared(a: &Value, b: &Value) -> Comparison {
    let [a, b] = [a, b].map(|report| serde_json::from_value::<Report>(report.clone()).unwrap());
    Comparison::of(&a, &b)
}

#[test]
fn loss_comes_first_and_noise_is_alike() {
    let expected = "\
4712 lost at least 7.6 % more of its time to the network: 8.0 % to 14.0 %, 4711 at most 0.4 %.
4712 ran 12.0 % longer than 4711 (1h7m12s against 1h) and sent as many bytes.
Worse in 4712: rate of a port, port time paused, rate of a port of rail 0, rate of a port of rail 1.

                                         4711                      4712                      CHANGE      SECOND IS
name                                     train                     train
hosts                                    2                         2
start                                    1970-01-01T00:00:00.000Z  1970-01-01T00:00:00.000Z
run time                                 1h                        1h7m12s
lost, at least                           0 s                       5m23s
lost, at most                            14.4 s                    9m24s
lost, at most, share of its time         0.4 %                     14.0 %                    35.0 times  worse
bytes sent                               180 TB                    180 TB                    equal       alike
rate of a port                           100 Gb/s                  89.2 Gb/s                 -10.8 %     worse
port time paused                         0.1 %                     6.0 %                     60.0 times  worse
port time pausing the switch             0 %                       0 %                       equal       alike
congestion notifications of a port       100/h                     89.3/h                    -10.7 %     alike
retransmitted packets of a port          0.75/h                    2.01/h                    +167.9 %    alike
expired retransmission timers of a port  0/h                       0/h                       equal       alike
link errors of a port                    0/h                       0/h                       equal       alike
packets dropped by a port                0/h                       0/h                       equal       alike
TCP, share of all bytes                  1.0 %                     1.0 %                     equal       alike
rate of a port of rail 0                 100 Gb/s                  89.3 Gb/s                 -10.7 %     worse
rate of a port of rail 1                 100 Gb/s                  59.5 Gb/s                 -40.5 %     worse
slowest rail                             none, all carry as much   1, 80.0 % of the mean
stands out                               none                      gpu-02 mlx5_1
host paused most                         gpu-02, 0.2 %             gpu-01, 12.0 %
incidents as victim                      none                      2 pfc_storm
incidents as culprit                     none                      none
likely cause                             none                      slow receiver

Cause, 4711: Nothing that was measured held the job back.
Cause, 4712: Most likely a receiver of the job itself: gpu-02 mlx5_1.
Stands out, 4712: gpu-02 paused its switch for 22.0 % of the time
";
    let text = compared(&calm("4711"), &held_back("4712")).text();
    assert_eq!(text, expected, "\n{text}");
    let back = compared(&held_back("4712"), &calm("4711"));
    assert_eq!(
        back.sentences[0],
        "4711 lost at least 7.6 % less of its time to the network: at most 0.4 %, 4712 8.0 % to 14.0 %."
    );
}

#[test]
fn overlapping_bounds_are_not_certain() {
    let mut b = held_back("4712");
    b["summary"]["cost"]["at_least"] = own("s", 0.0, 4);
    let sentence = &compared(&calm("4711"), &b).sentences[0];
    assert!(
        sentence.starts_with("4712 may have lost more") && sentence.ends_with("so this is not certain."),
        "{sentence}"
    );
    let neither = &compared(&calm("4711"), &calm("4712")).sentences;
    assert_eq!(neither[0], "The network cost neither of them 1.0 % of its time.");
    assert_eq!(neither[1], "Nothing else that was measured in both differs beyond noise.");
}

#[test]
fn what_was_not_measured_is_not_compared() {
    let mut b = held_back("4712");
    b["summary"]["cost"]["at_most_share"] = figure("1", &[]);
    b["congestion"]["paused"] = json!({"unit": "1", "parts": [{"grade": "exclusive", "value": null, "of": 4}]});
    let comparison = compared(&calm("4711"), &b);
    assert_eq!(comparison.sentences[0], "Lost time is not compared: it was not measured in 4712.");
    let paused = comparison.quantities.iter().find(|row| row.key == "paused").unwrap();
    assert_eq!((paused.a, paused.b, paused.change, paused.verdict), (Some(0.001), None, None, Verdict::NotCompared));
    assert!(comparison.quantities.iter().all(|row| row.key != "credit_waits"), "measured in neither");
}

#[test]
fn jobs_of_unequal_size_are_compared_by_port() {
    let mut b = calm("4712");
    b["job"]["hosts"] = json!(4);
    b["job"]["end_ns"] = Value::Null;
    b["traffic"]["transmitted"] = own("By", 270e12, 6);
    b["traffic"]["mean_rate"] = own("By/s", 75e9, 6);
    b["quality"]["measured"] = json!(3);
    let comparison = compared(&calm("4711"), &b);
    assert_eq!(
        comparison.notes,
        [
            "4711 has 2 hosts and 4712 has 4 hosts: run times and bytes are not compared; rates and events are those of one port.",
            "4712 is still running; its numbers are those of the first 1h.",
            "1 of the 4 hosts of 4712 were not measured.",
        ]
    );
    let verdict = |key: &str| comparison.quantities.iter().find(|row| row.key == key).unwrap().verdict;
    assert_eq!((verdict("bytes_sent"), verdict("port_rate")), (Verdict::NotCompared, Verdict::Alike));
    assert!(comparison.sentences.iter().all(|s| !s.contains("ran ")), "{:?}", comparison.sentences);
}

#[test]
fn grades_are_not_mixed() {
    let mut b = held_back("4711");
    b["job"]["run"] = json!(2);
    b["traffic"]["mean_rate"] = figure("By/s", &[("exclusive", 25e9, 2), ("shared", 40e9, 2)]);
    b["summary"]["cost"]["at_most_share"] = figure("1", &[("shared", 0.2, 4)]);
    let comparison = compared(&calm("4711"), &b);
    assert_eq!(comparison.b.name, "4711 (run 2)");
    assert_eq!(
        comparison.sentences[0],
        "Lost time is not compared: only one of them shared its ports with other jobs."
    );
    let rates = comparison.quantities.iter().filter(|row| row.key == "port_rate");
    let rates: Vec<_> = rates.map(|row| (row.grade.unwrap().text(), row.a, row.b, row.verdict)).collect();
    let expected =
        [("exclusive", Some(12.5e9), Some(12.5e9), Verdict::Alike), ("shared", None, Some(20e9), Verdict::NotCompared)];
    assert_eq!(rates, expected);
    assert!(comparison.notes.iter().any(|note| note.contains("same grade")), "{:?}", comparison.notes);
    assert!(comparison.text().contains("\nrate of a port (shared)"));
}

#[test]
fn names_of_jobs_cannot_act_on_a_terminal() {
    let mut a = calm("47\u{1b}[2J11");
    a["job"]["name"] = json!("\u{9b}31m");
    let text = compared(&a, &calm("4712")).text();
    assert!(!text.contains(['\u{1b}', '\u{9b}']), "{text:?}");
}

#[test]
fn json_has_all_numbers() {
    let json = serde_json::to_value(compared(&calm("4711"), &held_back("4712"))).unwrap();
    let row = json["quantities"].as_array().unwrap().iter().find(|row| row["key"] == "bytes_sent").unwrap();
    assert_eq!(
        row,
        &json!({"key": "bytes_sent", "name": "bytes sent", "unit": "By", "grade": "exclusive", "a": 180e12, "b": 180e12,
            "change": 0.0, "verdict": "alike"})
    );
    assert_eq!((&json["a"]["id"], &json["b"]["run"]), (&json!("4711"), &json!(1)));
    assert_eq!(
        json["places"][1],
        json!({"key": "stands_out", "name": "stands out", "a": "none", "b": "gpu-02 mlx5_1"})
    );
}

#[test]
fn collectives_that_both_runs_have_are_compared() {
    let with = |bandwidth: f64, waits_for: &str| {
        let mut report = calm("4711");
        let operation = |name: &str, bandwidth: Value| {
            json!({"operation": name, "size": "32MiB", "executions": 100.0, "mean_seconds": 0.004, "share": 0.5,
                "bandwidth": bandwidth, "wait_seconds": null})
        };
        report["collectives"] = json!({
            "operations": [operation("AllReduce", json!(bandwidth)), operation("AllGather", json!(null))],
            "conclusion": {"waits_for": waits_for, "agree": true, "text": ""}});
        report
    };
    let (mut a, mut b) = (with(40e9, "nothing"), with(20e9, "one_peer"));
    b["job"]["id"] = json!("4712");
    a["collectives"]["operations"][1]["operation"] = json!("Broadcast");
    let parse = |report: Value| serde_json::from_value::<Report>(report).unwrap();
    let (a, b) = (parse(a), parse(b));
    let rows = quantities::rows(&a, &b);
    let row = rows.iter().find(|row| row.key == "bus_bandwidth:AllReduce from 32MiB").unwrap();
    assert_eq!((row.change, row.verdict), (Some(-0.5), Verdict::Worse));
    assert!(!rows.iter().any(|row| row.key.contains("Broadcast") || row.key.contains("AllGather")), "in one run only");
    let facts = facts::last(&a, &b);
    let waited = facts.iter().find(|fact| fact.key == "ranks_waited_for").unwrap();
    assert_eq!((waited.a.as_str(), waited.b.as_str()), ("nothing", "one peer"));
    let old = parse(calm("4711"));
    assert!(
        facts::last(&old, &old).iter().all(|fact| fact.key != "ranks_waited_for"),
        "a report of an older collector"
    );
}
