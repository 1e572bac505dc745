//! Simulated hosts with steady traffic, and a port with a fault.

use super::faults::{Fault, TRAFFIC};
use crate::sim::layout::host_name;
use crate::sim::layout::{HOSTS, RAILS, index};
use crate::sim::nic::Nic;
use crate::sim::tree::{HostTree, Link};
use anyhow::Result;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Update interval of the counters, and thus the precision of a fault's begin.
const TICK: Duration = Duration::from_millis(20);

/// The hosts, updated by a thread.
pub struct Hosts {
    shared: Arc<Mutex<Shared>>,
    ended: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<()>>,
}

struct Shared {
    trees: Vec<HostTree>,
    nics: Vec<Nic>,
    /// Port, fault and begin.
    broken: Option<((usize, usize), &'static Fault, Instant)>,
    /// Number of entries of [`Fault::link`] that were applied.
    done: usize,
    downs: Vec<u32>,
}

impl Hosts {
    /// Creates the trees below `dir` and starts the updates.
    pub fn create(dir: &Path, hosts: usize) -> Result<Self> {
        let trees = (0..hosts).map(|h| HostTree::create(&dir.join(host_name(h)), h)).collect::<Result<_>>()?;
        let (nics, downs) = (vec![Nic::default(); HOSTS * RAILS], vec![0; HOSTS * RAILS]);
        let shared = Arc::new(Mutex::new(Shared { trees, nics, broken: None, done: 0, downs }));
        let ended = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (shared, ended) = (shared.clone(), ended.clone());
            move || {
                let mut last = Instant::now();
                while !ended.load(Ordering::Relaxed) {
                    std::thread::sleep((last + TICK).saturating_duration_since(Instant::now()));
                    let dt = last.elapsed();
                    last += dt;
                    shared.lock().map_err(|_| anyhow::anyhow!("the measurement panicked"))?.step(dt.as_secs_f64())?;
                }
                Ok(())
            }
        });
        Ok(Self { shared, ended, thread })
    }

    fn lock(&self) -> Result<std::sync::MutexGuard<'_, Shared>> {
        self.shared.lock().map_err(|_| anyhow::anyhow!("the hosts' thread panicked"))
    }

    /// Injects a fault at a port.
    pub fn inject(&self, port: (usize, usize), fault: &'static Fault) -> Result<()> {
        let mut shared = self.lock()?;
        (shared.broken, shared.done) = (Some((port, fault, Instant::now())), 0);
        shared.links()
    }

    /// Removes the fault.
    pub fn repair(&self, port: (usize, usize)) -> Result<()> {
        let mut shared = self.lock()?;
        shared.broken = None;
        shared.trees[port.0].set_link(port.1, Link::Up(400), shared.downs[index(port)])
    }

    /// Stops the updates.
    pub fn stop(self) -> Result<()> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the hosts' thread panicked"))?
    }
}

impl Shared {
    fn step(&mut self, dt: f64) -> Result<()> {
        for nic in &mut self.nics {
            nic.tx_bytes += TRAFFIC * dt;
            nic.rx_bytes += TRAFFIC * dt;
        }
        if let Some((port, fault, _)) = self.broken {
            (fault.counts)(&mut self.nics[index(port)], dt);
        }
        self.links()?;
        let Self { trees, nics, .. } = self;
        trees.iter_mut().try_for_each(|tree| tree.write(nics))
    }

    /// Applies the link states that are due.
    fn links(&mut self) -> Result<()> {
        let Some((port, fault, since)) = self.broken else { return Ok(()) };
        while let Some((_, link)) = fault.link.get(self.done).filter(|(after, _)| since.elapsed() >= *after) {
            let downs = &mut self.downs[index(port)];
            *downs += u32::from(*link == Link::Down);
            self.nics[index(port)].link_downs = f64::from(*downs);
            self.trees[port.0].set_link(port.1, *link, *downs)?;
            self.done += 1;
        }
        Ok(())
    }
}
