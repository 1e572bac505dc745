//! What people write: queries, names, patterns, bodies of jobs, configuration.

use super::file;
use super::files;

pub(crate) fn lines() -> Vec<Vec<u8>> {
    let line = r#"{"metric":{"__name__":"a","job":"x"},"values":[1,2.5,"NaN",null,+Inf],"timestamps":[1,2,3,4,5]}"#;
    vec![line.into(), format!("{line}\n\n{}\n", line.replace("+Inf", "\"-Inf\"")).into()]
}

/// Patterns that are short and become large, and ordinary ones.
pub(crate) fn names() -> Vec<Vec<u8>> {
    let all = [
        "__name__\0fabric_port_up\0host\0gpu-01",
        "__name__\0up 1 1\nup{host=\"other\"}\0host\0evil",
        "__name__\0http.requests\0code.class\0a\"b\\c\nd\0é\0\u{9b}2J",
        "+1",
        "__name__\0on\0by\0x",
        "=1+1\0-2\0@x\0\t\r\u{202e}\u{2028}",
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

pub(crate) fn job_bodies() -> Vec<Vec<u8>> {
    let all = [
        r#"{"id": 4711, "user": "ann", "hosts": ["gpu-01", "gpu-02"], "labels": {"partition": "h100"}, "start": 1.5}"#,
        r#"{"id": "4711_3", "cluster": "west", "hosts": "gpu[01-04,07],rack[1-2]n[1-3]", "aliases": [4714, "x"]}"#,
        r#"{"id": "x", "hosts": "x[1-65536]", "start": "2026-01-31T12:00:00Z", "end": 2e9}"#,
        r#"{"name": "a", "hosts": "a[1-256]b[1-256],c[1-65536]"}"#,
        r#"{"hosts": {"gpu-01": {"devices": ["mlx5_0"], "pids": [17]}}}"#,
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

pub(crate) fn patterns() -> Vec<Vec<u8>> {
    let all = [
        "gpu-.*",
        "(gpu-01|10\\.0\\.0\\.1)",
        r"\pL{150}x",
        r"((((a{100}){100}){100}){100})",
        r"(?i)[\x{0}-\x{10FFFF}][[:^alpha:]]",
        r"(?x: a # b
            (?P<n>[^\pL]+) )*?",
        ".{0,1000}",
        r"(?:a*)*(?-u:\w)\bé|",
        "(.*)-([0-9]+)",
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Queries of the PromQL scripts and of the dashboard comparison.
pub(crate) fn promql() -> Vec<Vec<u8>> {
    let scripts = |folder| files(folder).into_iter().filter_map(|text| String::from_utf8(text).ok());
    let query =
        |line: &str| line.split_once(": ").filter(|(head, _)| head.starts_with(['a', 'o'])).map(|(_, q)| q.into());
    // `eval instant at TIME QUERY`, `eval range from START to END step STEP QUERY`
    let evaluated = |line: &str| {
        let times = if line.starts_with("eval instant ") { 4 } else { 8 };
        line.strip_prefix("eval ").and_then(|_| line.splitn(times + 1, ' ').nth(times)).map(|q| q.as_bytes().to_vec())
    };
    let own = scripts("tests/promql").flat_map(|text| text.lines().filter_map(query).collect::<Vec<_>>());
    own.chain(scripts("tests/promqltest").flat_map(|text| text.lines().filter_map(evaluated).collect::<Vec<_>>()))
        .collect()
}

pub(crate) fn agent_config() -> Vec<Vec<u8>> {
    file("deploy/config/agent.toml").into_iter().flat_map(both).collect()
}

pub(crate) fn config() -> Vec<Vec<u8>> {
    file("deploy/config/collector.toml").into_iter().flat_map(both).collect()
}

/// A file with commented keys, and the same with all keys active.
fn both(text: Vec<u8>) -> [Vec<u8>; 2] {
    let lines = String::from_utf8_lossy(&text).into_owned();
    let keys = lines.lines().map(|l| l.trim_start_matches(['#', ' '])).filter(|l| l.contains(['=', '[']));
    [text, keys.collect::<Vec<_>>().join("\n").into()]
}
