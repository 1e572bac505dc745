//! Sampling engine: one thread per device, one for the host, one for congestion samples and one that watches for device
//! changes; by configuration one that reads the InfiniBand subnet, one that asks jobs for their collectives, one that traces paths, and
//! some that probe ports. Sections go into the ring for the uplinks and into the latest snapshot for `/metrics`.

mod collectives;
mod congestion;
mod core;
mod ib_fabric;
mod lanes;
mod once;
mod prober;
mod settings;
mod source_status;
#[cfg(test)]
mod tests;
mod thread_health;
mod tracer;
mod watch;
mod worker;

pub use once::once;
pub use settings::Settings;
pub use source_status::{Outcome, SourceStatus};
pub(crate) use thread_health::words;

use crate::budget::Throttle;
use crate::sandbox::Sandbox;
use core::Core;
use fabriclens_agent_host::inventory::Inventory;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_samplers::microburst::Microburst;
use fabriclens_agent_uplink::TroubledJobs;
use fabriclens_agent_uplink::ring::Reader;
use fabriclens_wire::Section;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Reason why the engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A thread cannot be started.
    #[error("starting the thread {name}; raise the limit of tasks of this service")]
    Thread {
        /// Thread name.
        name: String,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
}

/// Running sampling engine.
#[derive(Debug)]
pub struct Engine {
    core: Arc<Core>,
    watch: Option<std::thread::JoinHandle<()>>,
    host: Option<std::thread::JoinHandle<()>>,
    ib_fabric: Option<std::thread::JoinHandle<()>>,
    collectives: [Option<std::thread::JoinHandle<()>>; 3],
    tracer: Option<std::thread::JoinHandle<()>>,
    prober: Option<std::thread::JoinHandle<()>>,
}

impl Engine {
    /// Discovers devices and starts all threads.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(roots: Arc<Roots>, settings: Settings) -> Result<Self, StartError> {
        let core = Arc::new(Core::new(roots, settings));
        let watch = guarded(&core, "watch", "the search for devices", watch::run)?;
        let host = guarded(&core, "host", "the host's own sources", worker::host)?;
        let reader = core.settings.ib_fabric.clone().map(|config| {
            guarded(&core, "ib-fabric", "the reader of the InfiniBand subnet", move |core| {
                ib_fabric::run(core, &config)
            })
        });
        let configured = core.settings.collectives.clone();
        // The processes of a recording are not this host's; directories of files are those that the configuration names.
        let asked = configured.clone().filter(|_| !core.roots.is_recorded());
        let followed = configured.filter(|config| config.inspector).map(|config| {
            guarded(&core, "inspector", "the reader of Inspector files", move |core| collectives::files(core, &config))
        });
        let counted = asked.clone().filter(|config| config.mpi).map(|config| {
            guarded(&core, "mpi", "the reader of MPI counters", move |core| collectives::mpi(core, &config))
        });
        let asked = asked.map(|config| {
            guarded(&core, "collectives", "the reader of collectives", move |core| collectives::services(core, &config))
        });
        let traces =
            core.settings.probing.clone().filter(|probing| probing.trace).zip(core.settings.probe_plans.clone());
        let tracer = traces.map(|(probing, plans)| {
            guarded(&core, "tracer", "the tracer of paths", move |core| tracer::run(core, &probing, &plans))
        });
        let probes = core.settings.probing.clone().filter(|probing| probing.rdma || probing.tcp);
        let prober = probes.zip(core.settings.probe_plans.clone()).map(|(probing, plans)| {
            guarded(&core, "prober", "the prober of ports", move |core| prober::run(core, &probing, &plans))
        });
        let (ib_fabric, tracer, prober) = (reader.transpose()?, tracer.transpose()?, prober.transpose()?);
        let collectives = [asked.transpose()?, followed.transpose()?, counted.transpose()?];
        Ok(Self { watch: Some(watch), host: Some(host), ib_fabric, collectives, tracer, prober, core })
    }

    /// Reader `number` of the ring: sections in the order in which they were read.
    pub fn reader(&self, number: usize) -> Reader<Section> {
        self.core.ring.reader(number)
    }

    /// Jobs that incidents touch, as collectors say.
    pub fn troubled_jobs(&self) -> &Arc<TroubledJobs> {
        &self.core.troubled_jobs
    }

    /// Number of sections in the ring, and of sections that it dropped because it was full.
    pub fn ring(&self) -> (usize, u64) {
        (self.core.ring.len(), self.core.ring.dropped())
    }

    /// Latest section of each source that still gives data.
    pub fn snapshot(&self) -> Vec<Section> {
        self.core.snapshot()
    }

    /// Status of each source.
    pub fn sources(&self) -> Vec<SourceStatus> {
        let deadline = self.core.settings.deadline;
        self.core.shared.lock().iter().flat_map(|shared| shared.statuses(deadline)).collect()
    }

    /// Watched interfaces and their microburst recordings.
    pub fn microburst(&self) -> &Microburst {
        &self.core.settings.microburst
    }

    /// Throttle of the sampling rate.
    pub fn throttle(&self) -> &Throttle {
        &self.core.throttle
    }

    /// Problems of the engine's own threads, as sentences.
    pub fn troubles(&self) -> Vec<String> {
        self.core.thread_health.list(Instant::now())
    }

    /// Sandbox of its threads.
    pub fn sandbox(&self) -> &Sandbox {
        &self.core.settings.sandbox
    }

    /// Devices found by the last discovery.
    pub fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.core.inventory.lock())
    }

    /// Stops all threads and waits at most `deadline` for them to end.
    pub fn shutdown(mut self, deadline: Duration) {
        let until = Instant::now() + deadline;
        self.core.stop();
        let threads = [&mut self.watch, &mut self.host, &mut self.ib_fabric, &mut self.tracer, &mut self.prober];
        for thread in threads.into_iter().chain(&mut self.collectives).filter_map(Option::take) {
            while !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
        // Device threads end on their own; the last slow sample saved the state of a thread that is stuck.
        while !self.core.shared.lock().iter().all(|s| s.ended.load(Ordering::Relaxed)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.core.save();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.core.stop();
    }
}

/// Stack size of engine threads; small, because a host has one thread per device.
const STACK: usize = 512 * 1024;

/// Starts an engine thread whose panic is logged and shown in `/healthz`.
fn guarded(
    core: &Arc<Core>,
    name: &str,
    what: &str,
    body: impl FnOnce(&Arc<Core>) + Send + 'static,
) -> Result<std::thread::JoinHandle<()>, StartError> {
    let (core, what) = (Arc::clone(core), what.to_owned());
    spawn(name, move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&core))) {
            let why = words(&*panic);
            tracing::error!(thread = what, why, "engine thread panicked; please report this bug");
            core.thread_health
                .set(&what, format!("its thread panicked ({why}); restart the agent, and report this bug"));
        }
    })
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>, StartError> {
    std::thread::Builder::new()
        .name(name.into())
        .stack_size(STACK)
        .spawn(body)
        .map_err(|source| StartError::Thread { name: name.into(), source })
}
