//! How far more cores help appends: threads write what agents send, 480 samples an append and 16 appends a commit. Prints
//! samples per second, and the share of the time in which one append held the lock of the log: its inverse is how many
//! times as many samples the log can take.
//!
//! `cargo run --release -p fabriclens-store --example threads -- [HOSTS [ROWS [THREADS]]]`

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/random.rs"]
mod random;

use fabriclens_base::Sender;
use fabriclens_model::Layout;
use fabriclens_store::{AppendError, RowGroup, Store, Written};
use fleet::{GROUPS, PORTS, START};
use random::Random;
use std::ops::Range;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The collector's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Requests that a batch of the collector commits together.
const APPENDS_PER_COMMIT: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |n: usize, default: usize| std::env::args().nth(n).map_or(Ok(default), |a| a.parse());
    let (hosts, rows, most) = (argument(1, 2000)?, argument(2, 30)?, argument(3, 2)?);
    let series = hosts * PORTS * GROUPS.iter().sum::<usize>();
    for threads in 1..=most {
        let dir = tempfile::tempdir()?;
        let store = Store::open(dir.path(), fleet::options())?;
        let layouts = fleet::layouts(hosts);
        // All series are known before the clock runs.
        write_rows(&store, &layouts, 0..1, &Barrier::new(1))?;
        let before = store.stats();
        let shares: Vec<&[Layout]> = layouts.chunks(layouts.len().div_ceil(threads)).collect();
        let barrier = Barrier::new(threads);
        let took = std::thread::scope(|scope| {
            let (store, barrier) = (&store, &barrier);
            let run = |share| scope.spawn(move || write_rows(store, share, 1..rows + 1, barrier));
            let all: Vec<_> = shares.into_iter().map(run).collect();
            all.into_iter().map(|thread| thread.join().unwrap_or(Ok(Duration::ZERO))).collect::<Result<Vec<_>, _>>()
        })?;
        let took = took.into_iter().max().unwrap_or_default().as_secs_f64();
        let stats = store.stats();
        let rate = (rows * series) as f64 / took;
        let times = [stats.append_held - before.append_held, stats.append_waited - before.append_waited];
        let [held, waited] = times.map(|time| 100.0 * time.as_secs_f64() / took);
        println!("{threads} threads: {:.2} M samples/s, lock held {held:.0} %, waited {waited:.0} %", rate / 1e6);
    }
    Ok(())
}

/// Writes these rows of the series; the time that the store took.
fn write_rows(
    store: &Store,
    layouts: &[Layout],
    rows: Range<usize>,
    barrier: &Barrier,
) -> Result<Duration, AppendError> {
    let mut random = Random(0x5eed);
    let mut values: Vec<Vec<f64>> = layouts.iter().map(|layout| vec![1.0; layout.len()]).collect();
    let mut sum = Duration::ZERO;
    for row in rows {
        for value in values.iter_mut().flatten().step_by(3) {
            *value += (4000 + random.below(8192)) as f64;
        }
        let time = START + 1000 * row as i64;
        let group = |(series, values): (&Layout, &Vec<f64>)| RowGroup {
            series: series.clone(),
            times: vec![time],
            values: values.clone(),
        };
        let groups: Vec<RowGroup> = layouts.iter().zip(&values).map(group).collect();
        barrier.wait();
        let began = Instant::now();
        let requests: Vec<&[RowGroup]> = groups.chunks(PORTS * GROUPS.len()).collect();
        for batch in requests.chunks(APPENDS_PER_COMMIT) {
            let written: Vec<Written> =
                batch.iter().map(|request| store.write(request, Sender::Bound)).collect::<Result<_, _>>()?;
            written.into_iter().try_for_each(|written| store.commit(written).map(drop))?;
        }
        sum += began.elapsed();
    }
    Ok(sum)
}
