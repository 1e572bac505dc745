//! Memory of the head by part, as a fleet fills it: hosts with 8 ports of 60 series in 4 row groups each, a third of the
//! values moving. Prints bytes per series by the head's own account and by the kernel's, while it fills, and the longest
//! append while it becomes a block.
//!
//! `cargo run --profile demo -p fabriclens-store --example memory -- [HOSTS [ROWS [INTERVAL_MS [ROWS_OF_A_CHUNK]]]]`

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/random.rs"]
mod random;

use fabriclens_base::Sender;
use fabriclens_model::{Labels, Layout};
use fabriclens_store::{AppendError, HeadMemory, Options, RowGroup, Store};
use fleet::{GROUPS, PORTS, START};
use random::Random;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The collector's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Hosts of one append.
const HOSTS_PER_REQUEST: usize = 4;
/// Waits for the locks of the head that are counted.
const LONG: Duration = Duration::from_millis(50);

/// A field of `/proc/self/status`, bytes.
fn status(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().nth(1)?.parse::<usize>().ok()).unwrap_or(0) * 1024
}

/// Lets the kernel measure the peak of resident memory anew.
fn reset_peak() {
    // Without this permission the peak is that of the whole run.
    _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

struct Fleet {
    layouts: Vec<Layout>,
    values: Vec<f64>,
    random: Random,
    interval: i64,
    rows: i64,
    /// Longest append, and CPU of all.
    longest: Duration,
    spent: Duration,
}

impl Fleet {
    /// Appends a row of every layout.
    fn tick(&mut self, store: &Store) -> Result<(), Box<dyn std::error::Error>> {
        let time = START + self.rows * self.interval;
        self.rows += 1;
        let mut at = 0;
        for request in self.layouts.chunks(HOSTS_PER_REQUEST * PORTS * GROUPS.len()) {
            let mut groups = Vec::with_capacity(request.len());
            for (n, series) in request.iter().enumerate() {
                let values = &mut self.values[at..at + series.len()];
                for (column, value) in values.iter_mut().enumerate() {
                    if (n + column) % 3 == 0 {
                        *value += (4000 + self.random.below(8192)) as f64;
                    }
                }
                // Ports are not read at exactly the same time.
                let time = time + (n % 7) as i64;
                groups.push(RowGroup { series: series.clone(), times: vec![time], values: values.to_vec() });
                at += series.len();
            }
            let (began, before) = (Instant::now(), cpu());
            store.append(&groups)?;
            self.longest = self.longest.max(began.elapsed());
            self.spent += cpu().saturating_sub(before);
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |n: usize, default: usize| std::env::args().nth(n).map_or(Ok(default), |a| a.parse());
    let (hosts, rows, interval) = (argument(1, 1000)?, argument(2, 40)?, argument(3, 1000)?);
    let dir = tempfile::tempdir()?;
    let options = Options { chunk_rows: argument(4, Options::default().chunk_rows)?, ..fleet::options() };
    let layouts = fleet::layouts(hosts);
    let series: usize = layouts.iter().map(|layout| layout.len()).sum();
    let mut random = Random(0x5eed);
    let values = (0..series).map(|_| random.below(1 << 40) as f64).collect();
    let mut fleet = Fleet {
        layouts,
        values,
        random,
        interval: interval as i64,
        rows: 0,
        longest: Duration::ZERO,
        spent: Duration::ZERO,
    };
    let store = Arc::new(Store::open(dir.path(), options.clone())?);
    // What the senders' decoders hold is counted with the head: it shares the labels.
    let values = 8 * series;
    println!("{series} series in {} layouts, a row each {interval} ms", fleet.layouts.len());
    println!("bytes per series: rows labels index layouts open late sealed log   sum   resident");
    for row in 1..=rows {
        fleet.tick(&store)?;
        if row.is_power_of_two() || row % 20 == 0 || row == rows {
            print_account(row, &store.head_memory(), status("VmRSS").saturating_sub(values), series);
        }
    }
    let samples = (rows * series) as f64;
    println!(
        "append   {:.1} ns of CPU per sample, longest {:?}",
        fleet.spent.as_nanos() as f64 / samples,
        fleet.longest
    );
    println!("log      {:.2} bytes per sample", store.stats().wal_bytes as f64 / samples);
    flush(&store, &mut fleet, series)?;
    let stats = store.stats();
    println!("disk     {:.3} bytes per sample", stats.block_bytes as f64 / stats.block_samples as f64);
    for _ in 0..rows {
        fleet.tick(&store)?;
    }
    replay(dir.path(), options, store, series)
}

fn print_account(row: usize, m: &HeadMemory, resident: usize, series: usize) {
    let per = |bytes: usize| bytes as f64 / series as f64;
    let parts = [m.labels, m.series, m.layouts, m.open, m.late, m.sealed, m.log, m.total(), resident].map(per);
    println!("  {row:4} {}", parts.map(|bytes| format!("{bytes:7.1}")).join(" "));
}

/// Writes the head as a block while rows arrive.
fn flush(store: &Arc<Store>, fleet: &mut Fleet, series: usize) -> Result<(), Box<dyn std::error::Error>> {
    // A sender with one series, which waits for nothing but the locks of the head.
    let probe = |time: i64, series: &Layout| RowGroup { series: series.clone(), times: vec![time], values: vec![1.0] };
    let alone = Layout::new([Labels::new([("__name__", "probe")])]);
    store.append(&[probe(START, &alone)])?;
    reset_peak();
    fleet.longest = Duration::ZERO;
    let done = Arc::new(AtomicBool::new(false));
    let flushing = std::thread::spawn({
        let (store, done) = (store.clone(), done.clone());
        move || {
            let (began, before) = (Instant::now(), cpu());
            let result = store.flush();
            done.store(true, Ordering::Release);
            (result, began.elapsed(), cpu().saturating_sub(before))
        }
    });
    let waiting = std::thread::spawn({
        let (store, done) = (store.clone(), done.clone());
        move || {
            let (mut longest, mut long, mut time) = (Duration::ZERO, 0, START);
            while !done.load(Ordering::Acquire) {
                time += 1;
                let group = probe(time, &alone);
                let began = Instant::now();
                _ = store.write(&[group], Sender::Bound)?;
                longest = longest.max(began.elapsed());
                long += usize::from(began.elapsed() > LONG);
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok::<_, AppendError>((longest, long))
        }
    });
    let mut meanwhile = 0;
    let mut next = Instant::now();
    while !done.load(Ordering::Acquire) {
        fleet.tick(store)?;
        meanwhile += 1;
        next += Duration::from_secs(1);
        while !done.load(Ordering::Acquire) && Instant::now() < next {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let (result, took, spent) = flushing.join().map_err(|_| "the flush panicked")?;
    result?;
    let (longest, long) = waiting.join().map_err(|_| "the probe panicked")??;
    println!("locks    longest wait {longest:?}, {long} of more than {LONG:?}");
    println!("flush    {took:?}, {spent:?} of CPU, longest append meanwhile {:?} of {meanwhile} rows", fleet.longest);
    println!("peak     {:.0} bytes per series resident while flushing", status("VmHWM") as f64 / series as f64);
    Ok(())
}

/// Opens the store with the log of the rows since the flush, as after `kill -9`.
fn replay(dir: &Path, options: Options, store: Arc<Store>, series: usize) -> Result<(), Box<dyn std::error::Error>> {
    let log = store.stats().wal_bytes;
    drop(store);
    reset_peak();
    let before = status("VmRSS");
    let began = Instant::now();
    let store = Store::open(dir, options)?;
    println!("replay   {:?} for {} MiB of log", began.elapsed(), log >> 20);
    let per = |bytes: usize| bytes as f64 / series as f64;
    let more = [status("VmHWM"), status("VmRSS"), before + store.head_memory().total()];
    let more = more.map(|bytes| per(bytes.saturating_sub(before)));
    println!("         peak {:.0}, afterwards {:.0}, head {:.0} bytes per series", more[0], more[1], more[2]);
    Ok(())
}
