//! Helpers of the registry's tests.

use std::time::{Duration, Instant};

/// Opens a database that may have been closed a moment ago: its own thread gives the lock back when it has ended.
pub fn database(path: &std::path::Path) -> sled::Db {
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        match sled::open(path) {
            Ok(database) => return database,
            Err(sled::Error::Io(_)) if Instant::now() < patience => std::thread::sleep(Duration::from_millis(10)),
            Err(e) => panic!("{e}"),
        }
    }
}
