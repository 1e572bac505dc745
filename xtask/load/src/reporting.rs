//! Runs the tasks of a load, and prints reports meanwhile.

use anyhow::Result;
use std::time::Duration;
use tokio::task::JoinSet;

/// Waits until all tasks have ended; calls `print` every so many seconds, and at the end.
///
/// # Errors
/// The first error of a task.
pub async fn report_until_done(mut tasks: JoinSet<Result<()>>, every_s: u64, print: impl Fn()) -> Result<()> {
    let mut every = tokio::time::interval(Duration::from_secs(every_s.max(1)));
    every.tick().await;
    loop {
        tokio::select! {
            _ = every.tick() => print(),
            done = tasks.join_next() => match done {
                Some(done) => done??,
                None => break,
            },
        }
    }
    print();
    Ok(())
}
