//! The directory lock while other threads of the process start programs. In a process of its own, because every fork
//! copies descriptors.
#![allow(clippy::unwrap_used, reason = "a panic is the failure message of a test")]

use fabriclens_store::{Options, Store};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn dropped_store_can_be_reopened_at_once() {
    let (dir, done) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // Between fork and exec each child has a copy of every descriptor.
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    Command::new("true").status().unwrap();
                }
            });
        }
        let opened = (0..25).find_map(|n| {
            let options = Options { background: false, ..Options::default() };
            Store::open(dir.path(), options).err().map(|e| (n, e.to_string()))
        });
        done.store(true, Ordering::Relaxed);
        assert_eq!(opened, None);
    });
}
