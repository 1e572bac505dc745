//! Probes on the running kernel, with real traffic. They need root and tracefs and say so where they have not got them.
#![allow(clippy::unwrap_used, reason = "a failure is a failed test")]

use fabriclens_agent::batch::{Batch, SampleError};
use fabriclens_agent::roots::Roots;
use fabriclens_agent::samplers::{Sampler, by_name};
use fabriclens_agent::subject::Subject;
use fabriclens_wire::{Histogram, Value};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// One byte there and one back, so often.
const EXCHANGES: u64 = 500;

/// The sampler on this host, or `None` where it cannot be, said loudly. Root on a host with tracefs has no excuse.
fn open(name: &str) -> Option<Box<dyn Sampler>> {
    let roots = Arc::new(Roots::new(None));
    let host = Subject::host(&roots, &Arc::from("h"), &Arc::default());
    match (by_name(name).unwrap().open)(&host) {
        Ok(sampler) => Some(sampler),
        Err(SampleError::Absent(why)) => {
            let root = rustix::process::geteuid().is_root();
            let tracefs = roots.sys().join("kernel/tracing/events").exists();
            assert!(!(root && tracefs), "{name} cannot be had although everything is there: {why}");
            println!("SKIPPED: {name} is not tested on this kernel: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn exchange() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let mut byte = [1];
    for _ in 0..EXCHANGES {
        client.write_all(&byte).unwrap();
        server.read_exact(&mut byte).unwrap();
        server.write_all(&byte).unwrap();
        client.read_exact(&mut byte).unwrap();
    }
}

/// What the sampler tells of connections within this host.
fn local(sampler: &mut dyn Sampler) -> Option<Arc<Histogram>> {
    let mut batch = Batch::default();
    sampler.sample(&[], &mut batch).unwrap();
    batch.facts.into_iter().find_map(|(column, value)| {
        let labels: Vec<String> = column.labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
        match value {
            Value::Histogram(h) if labels == ["destination=local", "netdev=lo"] => Some(h),
            _ => None,
        }
    })
}

#[test]
fn round_trips_of_local_connections_are_counted_by_interface_and_class() {
    let Some(mut sampler) = open("tcp_rtt") else { return };
    let before = local(&mut *sampler).map_or(0, |h| h.count());
    exchange();
    let after = local(&mut *sampler).expect("traffic on lo");
    let seen = after.count() - before;
    // Each exchange is one segment to either side; few are acknowledgements alone. Other programs may talk as well.
    assert!(seen >= 2 * EXCHANGES, "{seen} segments");
    let mean = after.sum / after.count() as f64;
    assert!(mean > 1e-6 && mean < 0.2, "a round trip within the host takes {mean} s");
    let (bound, _) = after.cumulative().find(|(_, n)| *n * 2 >= after.count()).expect("a median");
    assert!(bound < 0.2, "{after:?}");
    assert!(after.bounds.is_sorted_by(|a, b| a < b) && after.counts.len() == after.bounds.len() + 1);

    drop(sampler);
    let mut fresh = open("tcp_rtt").expect("it could be had before");
    let count = local(&mut *fresh).map_or(0, |h| h.count());
    assert!(count < seen, "the probe of before is still attached: {count}");
}

#[test]
fn a_recorded_host_has_no_kernel_to_probe() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir(tree.path().join("sys")).unwrap();
    let roots = Arc::new(Roots::new(Some(tree.path().to_owned())));
    let host = Subject::host(&roots, &Arc::from("h"), &Arc::default());
    let error = (by_name("tcp_rtt").unwrap().open)(&host).map(|_| ()).unwrap_err();
    assert!(matches!(&error, SampleError::Absent(why) if why.contains("recorded host")), "{error:?}");
}
