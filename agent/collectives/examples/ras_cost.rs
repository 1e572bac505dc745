//! What a question to NCCL's RAS service costs the thread that asks, by the number of ranks that the job has. Sockets and parsing are
//! those of the agent; the service is a stand-in in this process.
//!
//! `cargo run --release -p fabriclens-agent-collectives --example ras_cost`

use fabriclens_agent_collectives::progress::Progress;
use fabriclens_agent_collectives::ras::{Limits, ask};
use fabriclens_testing::ras::{Behavior, RasRank, RasServer, status_json};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::time::{Duration, Instant};

/// The agent's default.
const PERIOD: Duration = Duration::from_secs(30);
const QUESTIONS: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    println!("| ranks | bytes of an answer | CPU of a question | each {} s |\n|---|---|---|---|", PERIOD.as_secs());
    for ranks in [8, 128, 1024, 10_000] {
        let rank = |number: u32| RasRank {
            host: format!("10.{}.{}.1", number / 2048, number / 8 % 256),
            pid: 100 + number % 8,
            gpu: number % 8,
            launched: Some(1000),
            dead: false,
        };
        let status = status_json("2.30.4", 0xabc, &(0..ranks).map(rank).collect::<Vec<_>>());
        let bytes = status.len();
        let service = RasServer::start(Behavior::Json(status));
        let (mut progress, mut now) = (Progress::new(PERIOD), Instant::now());
        let before = cpu()?;
        for _ in 0..QUESTIONS {
            let snapshot = ask(service.address(), &Limits::default())?;
            progress.observe(&snapshot, now);
            now += PERIOD;
        }
        let each = (cpu()? - before) / QUESTIONS;
        let share = 100.0 * each.as_secs_f64() / PERIOD.as_secs_f64();
        println!("| {ranks} | {bytes} | {:.2} ms | {share:.4} % of a core |", each.as_secs_f64() * 1e3);
    }
    Ok(())
}

/// Processor time of this thread.
fn cpu() -> Result<Duration, Box<dyn Error>> {
    Ok(Duration::try_from(clock_gettime(ClockId::ThreadCPUTime))?)
}
