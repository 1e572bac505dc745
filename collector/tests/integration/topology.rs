//! The topology of a running collector: from files and agents, over the API, over time and over a restart.

use crate::common;
use crate::common::Collector;
use serde_json::{Value, json};

const DISCOVERED: &str = "Switch\t8 \"S-00000000000000a1\"\t\t# \"MF0;leaf1:MQM9700/U1\" enhanced port 0 lid 100 lmc 0\n\
[1]\t\"H-0000000000000010\"[1](11) \t\t# \"h1 HCA-1\" lid 1 4xHDR\n\
[2]\t\"H-0000000000000020\"[1](21) \t\t# \"h2 HCA-1\" lid 2 4xHDR\n";

/// Labels that an agent exports for a port.
fn port<'a>(host: &'a str, guid: &'a str, switch: &'a str) -> Vec<(&'a str, &'a str)> {
    let all = [
        ("__name__", "fabric_port_info"),
        ("device", "mlx5_0"),
        ("host", host),
        ("node_guid", guid),
        ("port", "1"),
        ("switch", switch),
        ("switch_port", if switch.is_empty() { "" } else { "swp7" }),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// Cable of a host in the API's answer.
fn cable(answer: &Value, host: &str) -> Value {
    let links = answer["data"]["links"].as_array().unwrap();
    let of = |l: &&Value| l["a"] == host || l["b"] == host;
    links.iter().find(of).unwrap_or_else(|| panic!("{host}: {answer}")).clone()
}

#[tokio::test]
async fn topology_merges_and_survives_restart() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ibnetdiscover.txt");
    std::fs::write(&file, DISCOVERED).unwrap();
    let files = vec![file.clone(), dir.path().join("gone.json")];
    let c = Collector::over(dir, |config| config.topology = files.clone()).await;
    let began = common::now_ms();
    // Before agents send samples, hosts and ports have the names of the file.
    let (status, answer) = c.json("/api/v1/topology").await;
    assert_eq!(status, 200);
    let expected = json!({"a": "leaf1", "a_port": "1", "b": "h1", "b_port": "HCA-1/1", "rate_gbps": 200.0, "rail": null,
                          "known": "subnet_manager"});
    assert_eq!(cable(&answer, "h1"), expected);
    assert_eq!(answer["data"]["files"][0]["format"], "ibnetdiscover");
    assert!(answer["data"]["files"][1]["error"].as_str().unwrap().contains("gone.json"), "{answer}");

    let now = [(common::now_ms(), 1.0)];
    let sent = vec![
        common::series(&port("h1.example", "0000:0000:0000:0010", ""), &now),
        common::series(&port("h2.example", "0000:0000:0000:0020", "leaf2"), &now),
    ];
    let (status, why) = c.remote_write(sent).await;
    assert_eq!(status, 204, "{why}");
    // The topology is evaluated at start.
    let Collector { running, dir } = c;
    running.stop().await;
    let c = Collector::over(dir, |config| config.topology = files.clone()).await;
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(40);
    let answer = loop {
        let (_, answer) = c.json("/api/v1/topology").await;
        if answer["data"]["contradictions"].as_array().is_some_and(|c| !c.is_empty()) {
            break answer;
        }
        assert!(std::time::Instant::now() < patience, "{answer}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let one = cable(&answer, "h1.example");
    assert_eq!((&one["b_port"], &one["known"]), (&json!("mlx5_0/1"), &json!("subnet_manager")));
    let two = cable(&answer, "h2.example");
    assert_eq!((&two["b"], &two["b_port"], &two["known"]), (&json!("leaf2"), &json!("swp7"), &json!("lldp")));
    let message = answer["data"]["contradictions"][0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("h2.example port mlx5_0/1 is cabled to leaf2 port swp7 (agents (LLDP)), not to leaf1"),
        "{message}"
    );
    let nodes = answer["data"]["nodes"].as_array().unwrap();
    assert!(nodes.contains(&json!({"name": "leaf1", "role": "leaf"})), "{nodes:?}");

    // A version applies from its time on.
    let (_, before) = c.json(&format!("/api/v1/topology?time={}", began / 1000)).await;
    assert_eq!(cable(&before, "h1")["b_port"], "HCA-1/1");
    let (status, answer) = c.json("/api/v1/topology?time=soon").await;
    assert_eq!((status, &answer["errorType"]), (400, &json!("bad_data")));

    // Without agents and files the next process starts with the stored topology.
    let Collector { running, dir } = c;
    running.stop().await;
    std::fs::remove_file(&file).unwrap();
    let c = Collector::over(dir, |_| {}).await;
    let (_, answer) = c.json("/api/v1/topology").await;
    assert_eq!(cable(&answer, "h2.example")["known"], "lldp");
    c.running.stop().await;
}
