//! Cost of the metadata database: jobs of 1 KB each, every one durable when its call returns.
//!
//! `cargo run --release -p fabriclens-store --example metadata -- DIR JOBS`

use fabriclens_store::{MetadataBatch, Options, Store};
use std::path::Path;
use std::time::{Duration, Instant};

/// Jobs that are written one by one.
const SINGLE: usize = 1000;

fn open(dir: &Path) -> Result<(Store, Duration), Box<dyn std::error::Error>> {
    let began = Instant::now();
    let store = Store::open(dir, Options { background: false, ..Options::default() })?;
    Ok((store, began.elapsed()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |n: usize| std::env::args().nth(n).ok_or("usage: metadata DIR JOBS");
    let (dir, count): (String, usize) = (argument(1)?, argument(2)?.parse()?);
    let (dir, value) = (Path::new(&dir), [b'x'; 1000]);
    let (store, empty) = open(dir)?;
    let table = store.table("jobs");
    let mut batch = MetadataBatch::default();
    (SINGLE..count).for_each(|n| batch.put(&table, n.to_be_bytes(), value));
    let began = Instant::now();
    table.commit(&batch)?;
    println!("{} entries in one batch: {:?}", count.saturating_sub(SINGLE), began.elapsed());
    let mut times = Vec::new();
    for n in 0..SINGLE.min(count) {
        let began = Instant::now();
        table.put(n.to_be_bytes(), value)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    println!(
        "one entry: median {:?}, slowest of a hundred {:?}",
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );
    drop(table);
    drop(store);
    println!("open: {:?} empty, {:?} with {count} entries", empty, open(dir)?.1);
    for name in ["meta.redb", "meta.copy.redb"] {
        println!("{name}: {} KiB", dir.join(name).metadata()?.len() / 1024);
    }
    Ok(())
}
