//! Judges what is said of a fleet's ordinary life (`life.json`): each incident belongs to a fault, is true of an ordinary
//! event of which that kind is fair, or is false.

use super::ground_truth::{Truth, name, read};
use super::place::{HostsOf, Place};
use super::score::{Incident, NOTHING, Tally, is_right};
use anyhow::Result;
use serde_json::Value;
use std::path::Path;

/// How long before its begin and after its end an incident may belong to an event, seconds.
const NEAR_S: [f64; 2] = [5.0, 20.0];

/// An ordinary event.
struct Event {
    time_ns: [i64; 2],
    place: Place,
    fair: Vec<String>,
}

/// Adds the incidents of a recording to a tally; describes them.
///
/// # Errors
/// When `life.json` or `jobs.json` cannot be read.
pub fn add(tally: &mut Tally, dir: &Path, truth: &Truth, incidents: &[Incident], port_seconds: f64) -> Result<String> {
    let (life, jobs): (Value, Value) = (read(&dir.join("life.json"))?, read(&dir.join("jobs.json"))?);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let hosts = |job: &Value| (name(&job["id"]), list(&job["hosts"]).iter().map(name).collect());
    let hosts_of: HostsOf = list(&jobs["jobs"]).iter().map(hosts).collect();
    let near = |begin_s: f64, end_s: f64| [begin_s - NEAR_S[0], end_s + NEAR_S[1]].map(|s| (s * 1e9) as i64);
    let event = |event: &Value| Event {
        time_ns: near(event["start_s"].as_f64().unwrap_or(0.0), event["end_s"].as_f64().unwrap_or(f64::MAX)),
        place: Place::of(truth, &event["element"], &hosts_of),
        fair: list(&event["fair"]).iter().map(name).collect(),
    };
    let events: Vec<Event> = list(&life["events"]).iter().map(event).collect();
    tally.count(truth, port_seconds);
    let mut lines = Vec::new();
    for incident in incidents {
        let place = place(truth, incident, &hosts_of);
        let of_fault = |fault: &&super::ground_truth::Fault| {
            let [begin, end] = fault.time_ns.map(|ns| ns as f64 / 1e9);
            let element = Place::of(truth, &fault.element, &hosts_of);
            incident.overlaps(near(begin, end)) && place.meets(&element)
        };
        let fair = |event: &Event| {
            event.fair.contains(&incident.kind) && incident.overlaps(event.time_ns) && place.meets(&event.place)
        };
        if let Some(fault) = truth.faults.iter().find(of_fault) {
            let right = is_right(&fault.kind, &incident.kind) && truth.is_root(fault, &incident.root);
            tally.confidence.push((incident.confidence, right));
        } else if events.iter().any(fair) {
            tally.fair += 1;
            tally.confidence.push((incident.confidence, true));
        } else {
            tally.add_false(incident);
            lines.push(format!("FALSE {} {} at {} s", incident.kind, incident.root, incident.start_ns / 1_000_000_000));
        }
    }
    for fault in &truth.faults {
        let [begin, end] = fault.time_ns.map(|ns| ns as f64 / 1e9);
        let found = incidents.iter().filter(|i| i.overlaps(near(begin, end)));
        let found = found.filter(|i| is_right(&fault.kind, &i.kind));
        let found = found.filter(|i| {
            truth.is_root(fault, &i.root)
                || Place::of(truth, &i.root, &hosts_of).meets(&Place::of(truth, &fault.element, &hosts_of))
        });
        let found = found.count() > 0;
        tally.scored += 1;
        tally.right.iter_mut().for_each(|right| *right += usize::from(found));
        tally.note(&fault.kind, if found { &fault.kind } else { NOTHING });
        lines.push(format!("{}{}", if found { "" } else { "MISSED " }, fault.kind));
    }
    Ok(lines.join("; "))
}

/// Where an incident is: its location, the jobs it names, and the ports that it keeps from sending.
fn place(truth: &Truth, incident: &Incident, hosts_of: &HostsOf) -> Place {
    let mut place = Place::of(truth, &incident.root, hosts_of);
    incident.victim_ports.iter().for_each(|port| place.add(truth, port, hosts_of));
    incident.culprit_jobs.iter().chain(&incident.victim_jobs).for_each(|job| place.add_job(job, hosts_of));
    place
}
