//! The switch for tests, asked by a client that is not ours.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use fabriclens_gnmi_target::{Rules, Switch};
use serde_json::{Value, json};

/// A client and the lines that it prints.
struct Client(Child, std::io::Lines<BufReader<std::process::ChildStdout>>);

impl Client {
    fn start(switch: &Switch, arguments: [&str; 7]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/subscribe.py");
        let address = switch.address.to_string();
        let mut command = Command::new("python3");
        let mut child = command
            .args([script, &address])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self(child, lines)
    }

    /// Reads until a line has this.
    fn until(&mut self, what: &str) -> Value {
        let mut seen = Vec::new();
        for line in self.1.by_ref() {
            let line = line.unwrap();
            if line.contains(what) {
                return serde_json::from_str(&line).unwrap();
            }
            seen.push(line);
        }
        panic!("no {what}: {seen:?}");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
#[ignore = "needs: pygnmi"]
fn sonic_answers_an_independent_client() {
    let switch = Switch::start(None, Rules::sonic().with_login("admin", "secret"), None).unwrap();
    let octets = json!({ "Ethernet0": { "SAI_PORT_STAT_IF_IN_OCTETS": "7" } });
    switch.values.set("COUNTERS_DB/COUNTERS/Ethernet*", octets.clone());
    let path = "COUNTERS/Ethernet*";
    let ask = |target, seconds, password| {
        Client::start(&switch, [target, path, "sample", seconds, "admin", password, "json_ietf"])
    };
    let mut client = ask("COUNTERS_DB", "1", "secret");
    assert_eq!(client.until("version")["version"], "0.7.0");
    let update = client.until("SAI_PORT_STAT_IF_IN_OCTETS");
    assert_eq!(update["update"]["update"][0]["val"], octets);
    // The client waits for the end of the initial values before it tells them.
    client.until("SAI_PORT_STAT_IF_IN_OCTETS");
    let error = ask("", "0.5", "secret").until("error")["error"].to_string();
    assert!(error.contains("cannot be less than 1000000000"), "{error}");
    let error = ask("", "1", "wrong").until("error")["error"].to_string();
    assert!(error.contains("Invalid Username or Password"), "{error}");
    let mut client =
        Client::start(&switch, ["EVENTS", "all[heartbeat=5]", "on_change", "0", "admin", "secret", "json_ietf"]);
    client.until("heartbeat");
    switch.values.event(&json!({ "sonic-events-swss:if-state": { "ifname": "Ethernet0", "status": "down" } }));
    let event = client.until("if-state");
    assert_eq!(event["update"]["update"][0]["val"]["sonic-events-swss:if-state"]["status"], "down");
}

#[test]
#[ignore = "needs: pygnmi"]
fn cumulus_answers_an_independent_client() {
    let switch = Switch::start(None, Rules::cumulus(), None).unwrap();
    let path = "/interfaces/interface[name=swp1]/state/counters/in-octets";
    switch.values.set(path, json!(7));
    let asked = "/interfaces/interface[name=*]/state/counters";
    let mut client = Client::start(&switch, ["", asked, "sample", "5", "", "", "json"]);
    let update = client.until("in-octets");
    assert_eq!(update["update"]["update"][0]["val"], 7);
    let error = Client::start(&switch, ["", asked, "sample", "1", "", "", "json"]).until("error")["error"].to_string();
    assert!(error.contains("cannot be less than 5000000000"), "{error}");
}
