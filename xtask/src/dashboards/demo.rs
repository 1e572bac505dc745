//! What the demo's store has no answer to, and why: every other question of every panel must have one there.

use super::ask::{self, Place};
use super::panel::Dashboard;
use anyhow::{Result, ensure};

/// Questions that share a reason.
struct Empty {
    why: &'static str,
    /// So on every machine and in every run: an answer would be a mistake of this table.
    always: bool,
    questions: &'static [Place],
}

const EMPTY: &[Empty] = &[
    Empty {
        why: "the fabric is RoCE: no port waits for credits",
        always: true,
        questions: &[
            ("overview", "Wait for credits (InfiniBand)", "{{host}} {{device}}"),
            ("congestion", "Could not send, of line rate", "{{host}} {{device}}"),
            ("congestion", "Could not send, by leaf", "{{switch}}"),
            ("host", "Could not send (InfiniBand)", "{{device}}"),
            ("job", "Worst port waits for credits", "waits"),
            ("job", "Share of rate lost to credits (InfiniBand)", "mean"),
            ("job", "Share of rate lost to credits (InfiniBand)", "worst port"),
        ],
    },
    Empty {
        why: "the simulated NICs do not count it, or have no such part: optics, slots, DCQCN's settings",
        always: true,
        questions: &[
            ("congestion", "Notifications ignored, and congestion control switched off", "ignored"),
            ("congestion", "Notifications ignored, and congestion control switched off", "off for priorities"),
            ("links", "Could not be mended", "{{host}} {{device}}"),
            ("links", "Light received, weakest lane", "{{host}} {{device}}"),
            ("links", "Temperature of modules", "{{host}} {{device}}"),
            ("links", "Slower than slot and adapter can", "of its best"),
            ("links", "Stalled requests to memory", "{{host}} {{device}} {{direction}}"),
            ("links", "PCIe errors", "{{host}} {{device}} {{severity}}"),
            ("host", "Peak of 100 ms, of line rate", "{{device}}"),
            ("host", "Requests to memory stall", "{{device}} {{direction}}"),
            ("host", "Temperature of modules", "{{device}}"),
            ("host", "PFC and congestion control, by priority", "congestion control"),
        ],
    },
    Empty {
        why: "the story has no such fault: no port goes down or trains down, and nothing is dropped",
        always: true,
        questions: &[
            ("congestion", "Packets dropped", "{{host}} {{device}} {{reason}}"),
            ("links", "Ports that were down", "{{host}} {{device}}"),
            ("links", "Flaps", "in 10 minutes"),
            ("links", "Flaps", "in 24 hours"),
            ("links", "Slower than they were", "of its rate"),
            ("links", "Symbol and CRC errors", "{{host}} {{device}} receive"),
        ],
    },
    Empty {
        why: "it compares with what was minutes or a day ago, and the demo has just begun",
        always: false,
        questions: &[
            ("links", "Bit error rate after correction", "over 12 minutes"),
            ("links", "Bit error rate after correction", "over 125 minutes"),
            ("links", "Mended, beside a day ago", "times"),
        ],
    },
    Empty {
        why: "told by probes in the kernel of this host, which a simulated one has not and a container may not have",
        always: false,
        questions: &[
            ("host", "RDMA and kernel path", "TCP"),
            ("job", "TCP", "{{direction}}"),
            ("job", "Round trip of TCP, median", "round trip"),
            ("tcp", "RDMA and TCP, sent", "TCP"),
            ("tcp", "Share of TCP, by host", "{{host}}"),
            ("tcp", "TCP: segments sent again", "{{kind}}"),
            ("tcp", "Closed windows of TCP", "{{direction}}"),
            ("tcp", "Round trip", "median"),
            ("tcp", "Round trip", "99 %"),
            ("tcp", "Round trip by host, median", "{{host}}"),
            ("tcp", "Connections that failed, last half hour", "failed"),
        ],
    },
    Empty {
        why: "nothing is lost, refused or wrong on the way, unless this machine is slow",
        always: false,
        questions: &[
            ("own", "Quiet, or wrong clocks", "since"),
            ("own", "Lost on the way", "{{host}} {{reason}}"),
            ("own", "Lost on the way", "{{host}} refused"),
            ("own", "Waits on agents' disks", "{{host}}"),
            ("own", "Accounts that are off, disks that fail", "accounts"),
            ("own", "Accounts that are off, disks that fail", "spool"),
            ("own", "Counters that cannot be right", "ports"),
            ("own", "Clocks that stepped", "{{host}}"),
            ("own", "Samplers that do not read", "is"),
            ("own", "Refused, by reason", "{{reason}}"),
            ("own", "Told to come back, by reason", "{{rank}} {{reason}}"),
            ("own", "Senders", "told to come back"),
        ],
    },
    Empty {
        why: "it forwards to nobody and tells nobody",
        always: true,
        questions: &[
            ("own", "Forwarded to other engines", "{{queue}}"),
            ("own", "Waits to be forwarded", "{{queue}}"),
            ("own", "Messages about incidents", "{{receiver}} {{outcome}}"),
        ],
    },
];

/// Asks the demo's collector, when its story has been told; an error names each question that is wrongly without an answer.
pub fn held(url: &str, all: &[Dashboard]) -> Result<()> {
    let empty = ask::run(url, all, false)?;
    let wrong = judge(all, &empty);
    ensure!(wrong.is_empty(), "xtask/src/dashboards/demo.rs has it otherwise:\n{}", wrong.join("\n"));
    let asked = ask::places(all).count();
    println!("{} of {asked} questions have an answer in the demo's store; the others:", asked - empty.len());
    for row in EMPTY {
        let none = row.questions.iter().filter(|q| empty.contains(q)).count();
        println!("  {none:>3}  {}", row.why);
    }
    Ok(())
}

fn judge(all: &[Dashboard], empty: &[Place]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (place, _, query) in ask::places(all) {
        let row = EMPTY.iter().find(|row| row.questions.contains(&place));
        match (row, empty.contains(&place)) {
            (None, true) => wrong.push(format!("{place:?} has no answer\n    {}", query.expr)),
            (Some(row), false) if row.always => wrong.push(format!("{place:?} has an answer, though {}", row.why)),
            _ => {}
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboards::all;

    #[test]
    fn every_row_is_a_question_and_none_is_there_twice() {
        let all = all();
        let rows: Vec<&Place> = EMPTY.iter().flat_map(|row| row.questions).collect();
        for row in &rows {
            assert!(ask::places(&all).any(|(place, ..)| place == **row), "no panel asks {row:?}");
            assert_eq!(rows.iter().filter(|r| r == &row).count(), 1, "{row:?}");
        }
        // Each question has a name of its own.
        let mut names: Vec<Place> = ask::places(&all).map(|(place, ..)| place).collect();
        let asked = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), asked);
    }

    #[test]
    fn a_question_without_an_answer_is_told_and_so_is_one_that_has_one() {
        let all = all();
        let usual: Vec<Place> = EMPTY.iter().flat_map(|row| row.questions).copied().collect();
        assert!(judge(&all, &usual).is_empty());
        let more = [&usual[..], &[("overview", "Traffic", "sent")]].concat();
        assert_eq!(judge(&all, &more).len(), 1);
        assert_eq!(judge(&all, &usual[1..]).len(), 1);
    }
}
