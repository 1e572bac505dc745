//! Jobs of a made-up fleet: who sends to whom, and what a job does when.

use super::fabric::{Fabric, RATE};
use super::life::Life;
use crate::random::Random;
use serde_json::json;

/// What a job does instead of its training.
#[derive(Clone, Copy, PartialEq)]
pub enum Activity {
    /// Reads its data or its last checkpoint from storage.
    Load,
    /// Writes to storage; trains on if `true`.
    Checkpoint(bool),
    /// Hardly communicates, on the first rail only if `true`.
    Evaluate(bool),
    /// Waits for its input, or restarts.
    Stand,
    /// One rank computes slowly: all wait longer between exchanges.
    Straggle,
}

/// What moves data from storage or to it.
const STORES: [&str; 2] = ["restart_load", "checkpoint"];

/// A stretch of time in seconds.
struct Period {
    activity: Activity,
    from_s: usize,
    to_s: usize,
}

/// One connection's way, and its part of what a NIC sends.
pub struct Flow {
    pub rail: usize,
    pub path: Vec<usize>,
    pub part: f64,
}

/// A job.
pub struct Job {
    pub id: String,
    pub hosts: Vec<usize>,
    pub from_s: usize,
    pub to_s: usize,
    /// Whether the scheduler tells of it.
    pub listed: bool,
    pub all_to_all: bool,
    pub flows: Vec<Flow>,
    pub writes: Vec<Flow>,
    pub reads: Vec<Flow>,
    /// Share of the time in which all-to-all exchanges wait for credits in any case (InfiniBand).
    pub waits: f64,
    periods: Vec<Period>,
    /// Share of the link rate while it communicates.
    rate: f64,
    compute_s: f64,
    communicate_s: f64,
    communicates: bool,
    /// Seconds to the end of the present stretch.
    left_s: f64,
}

impl Job {
    /// A job on these hosts, and what happens to it.
    pub fn new(
        fabric: &Fabric,
        id: String,
        hosts: Vec<usize>,
        time_s: [usize; 2],
        storage: &[usize],
        random: &mut Random,
        life: &mut Life,
    ) -> Self {
        let all_to_all = hosts.len() > 2 && random.happens(0.35);
        let pairs: Vec<[usize; 2]> = if all_to_all {
            hosts.iter().flat_map(|a| hosts.iter().filter(move |b| *b != a).map(move |b| [*a, *b])).collect()
        } else {
            (0..hosts.len()).map(|at| [hosts[at], hosts[(at + 1) % hosts.len()]]).collect()
        };
        let part = if all_to_all { 1.0 / (hosts.len() - 1) as f64 } else { 1.0 };
        let mut flow = |[from, to]: [usize; 2], rail: usize, part: f64| {
            let hash = if life.infiniband { to } else { random.next() as usize >> 8 };
            Flow { rail, path: fabric.path(from, to, rail, hash), part }
        };
        let flows = pairs
            .iter()
            .flat_map(|pair| (0..fabric.rails).map(|rail| (*pair, rail)))
            .map(|(pair, rail)| flow(pair, rail, part))
            .collect();
        let place = |at: usize| storage[at % storage.len()];
        let writes = hosts.iter().enumerate().map(|(at, host)| flow([*host, place(at)], 0, 1.0)).collect();
        let reads = hosts.iter().enumerate().map(|(at, host)| flow([place(at), *host], 0, 1.0)).collect();
        let fast = random.happens(0.6);
        let compute_s = if fast { random.between_by_ratio(0.05, 2.0) } else { random.between_by_ratio(4.0, 40.0) };
        let mut job = Self {
            periods: Vec::new(),
            rate: random.between(0.3, 0.9),
            communicate_s: compute_s * random.between(0.2, 0.9),
            compute_s,
            waits: if all_to_all { random.between(0.01, 0.1) } else { random.between(0.0, 0.02) },
            listed: random.happens(0.95),
            communicates: false,
            left_s: compute_s,
            id,
            hosts,
            from_s: time_s[0],
            to_s: time_s[1],
            all_to_all,
            flows,
            writes,
            reads,
        };
        job.plan(storage, random, life);
        job
    }

    /// Chooses what it does when, and tells it.
    fn plan(&mut self, storage: &[usize], random: &mut Random, life: &mut Life) {
        let mut seconds = |least: f64, most: f64| random.between(least, most) as usize;
        let element = json!({ "type": "job", "job": self.id });
        let mut tell = |kind: &str, from_s: usize, to_s: usize| {
            life.tell(kind, element.clone(), from_s, to_s);
            // A job of which the scheduler does not tell is seen at the storage that it uses.
            for host in storage.iter().filter(|_| STORES.contains(&kind)) {
                life.tell(kind, json!({ "type": "host", "node": format!("n{host:03}") }), from_s, to_s);
            }
        };
        tell("job_start", self.from_s, self.from_s);
        tell("job_end", self.to_s, self.to_s);
        let mut at = self.from_s;
        let mut add = |activity, kinds: &[&str], length: usize, at: &mut usize| {
            let to_s = (*at + length).min(self.to_s);
            kinds.iter().for_each(|kind| tell(kind, *at, to_s));
            self.periods.push(Period { activity, from_s: *at, to_s });
            *at = to_s;
        };
        add(Activity::Load, &["restart_load"], seconds(8.0, 30.0), &mut at);
        loop {
            at += seconds(60.0, 400.0);
            if at >= self.to_s {
                break;
            }
            match seconds(0.0, 20.0) {
                0..7 => add(Activity::Checkpoint(true), &["checkpoint"], seconds(8.0, 30.0), &mut at),
                7..10 => add(Activity::Checkpoint(false), &["checkpoint"], seconds(8.0, 30.0), &mut at),
                10..12 => add(Activity::Evaluate(false), &["evaluation"], seconds(20.0, 150.0), &mut at),
                12..14 => add(Activity::Evaluate(true), &["evaluation"], seconds(20.0, 150.0), &mut at),
                14..17 => add(Activity::Stand, &["data_stall"], seconds(5.0, 60.0), &mut at),
                17..19 => add(Activity::Straggle, &["app_straggler"], seconds(30.0, 150.0), &mut at),
                _ => {
                    add(Activity::Stand, &["job_crash_restart"], seconds(20.0, 90.0), &mut at);
                    add(Activity::Load, &["restart_load"], seconds(8.0, 30.0), &mut at);
                }
            }
        }
    }

    /// What it does in a second, if that is not its training alone.
    pub fn activity(&self, second: usize) -> Option<Activity> {
        self.periods.iter().find(|p| (p.from_s..p.to_s).contains(&second)).map(|p| p.activity)
    }

    /// Whether it runs in a second.
    pub fn runs(&self, second: usize) -> bool {
        (self.from_s..self.to_s).contains(&second)
    }

    /// Bytes that each of its NICs would send in a second, on the first rail and on the others. `speed` is the share of
    /// it that the network granted in the last second.
    pub fn wants(&mut self, second: usize, speed: f64, random: &mut Random) -> [f64; 2] {
        let activity = self.activity(second);
        let busy = self.run_for_a_second(speed, activity == Some(Activity::Straggle), random);
        let bytes = busy * self.rate * RATE * random.between(0.98, 1.02);
        match activity {
            Some(Activity::Load | Activity::Stand | Activity::Checkpoint(false)) => [0.0, 0.0],
            Some(Activity::Evaluate(true)) => [0.05 * bytes, 0.0],
            Some(Activity::Evaluate(false)) => [0.03 * bytes, 0.03 * bytes],
            Some(Activity::Checkpoint(true) | Activity::Straggle) | None => [bytes, bytes],
        }
    }

    /// Goes on for a second; gives the share of it in which the job communicates.
    fn run_for_a_second(&mut self, speed: f64, straggles: bool, random: &mut Random) -> f64 {
        let (mut rest, mut busy) = (1.0_f64, 0.0);
        while rest > 1e-6 {
            let pace = if self.communicates {
                speed.max(0.05)
            } else if straggles {
                0.5
            } else {
                1.0
            };
            let step = rest.min(self.left_s / pace);
            busy += if self.communicates { step } else { 0.0 };
            rest -= step;
            self.left_s -= step * pace;
            if self.left_s <= 1e-9 {
                self.communicates = !self.communicates;
                let length = if self.communicates { self.communicate_s } else { self.compute_s };
                self.left_s = length * random.between(0.95, 1.05);
            }
        }
        busy
    }
}
