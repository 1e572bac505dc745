//! Measures `sled` as a series index: inserts series as the store would and reports time, space and open time. The
//! process aborts without a shutdown; run again with `check` to count what was durable.
//!
//! `cargo run -p fabriclens-store --example sled_index -- DIR SERIES [check]`

use std::time::Instant;

fn key(i: u64) -> String {
    format!("fabric_test_counter_{:02}_total\0host=node{:04}\0device=mlx5_{}\0port=1", i % 60, i / 480, i / 60 % 8)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |n: usize| std::env::args().nth(n).ok_or("usage: sled_index DIR SERIES [check]");
    let (dir, series): (String, u64) = (argument(1)?, argument(2)?.parse()?);
    let began = Instant::now();
    let db = sled::open(&dir)?;
    println!("open     {:?}", began.elapsed());
    if argument(3).is_ok() {
        let found = (0..series).filter(|i| matches!(db.get(key(*i)), Ok(Some(_)))).count();
        println!("found    {found} of {series} in {:?}", began.elapsed());
        return Ok(());
    }
    let began = Instant::now();
    for i in 0..series {
        db.insert(key(i), &i.to_be_bytes())?;
        if i % 10_000 == 9_999 {
            db.flush()?;
        }
    }
    db.flush()?;
    let took = began.elapsed();
    let keys: u64 = (0..series).map(|i| key(i).len() as u64 + 8).sum();
    let disk: u64 = db.size_on_disk()?;
    println!("insert   {took:?}, {:.1} us per series", took.as_secs_f64() * 1e6 / series as f64);
    println!(
        "space    {:.0} bytes per series on disk, {} in the pairs",
        disk as f64 / series as f64,
        keys / series.max(1)
    );
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = status.split(' ').nth(1).and_then(|p| p.parse().ok()).unwrap_or(0);
    println!("memory   {} MiB resident", pages * 4 / 1024);
    // No shutdown: flushed entries must survive it.
    std::process::abort();
}
