//! The threads that read collectives of jobs, if configured: one asks services, one follows files, which may be on a file system that
//! hangs, and one reads counters of MPI operations.

use super::core::Core;
use crate::collectives::{Collectives, Enter, IN_TROUBLE, InspectorReader, MpiReader, Reader};
use crate::sandbox::Role;
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_host::capabilities;
use fabriclens_wire::{Column, Resource, Section};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Longest wait for the first list of jobs.
const FIRST: Duration = Duration::from_secs(5);
/// Interval at which a thread sees that the engine stops.
const TURN: Duration = Duration::from_millis(200);

/// Asks services until the engine stops.
pub(super) fn services(core: &Arc<Core>, config: &Collectives) {
    restrict(core);
    let sandbox = core.settings.sandbox.clone();
    let enter: Enter = Arc::new(move || {
        capabilities::none();
        sandbox.enter(Role::Question);
    });
    let (proc, jobs, troubled) =
        (core.roots.proc().to_owned(), Arc::clone(&core.jobs), Arc::clone(&core.troubled_jobs));
    let mut reader = Reader::new(config.clone(), proc, jobs, troubled, enter);
    let period = |now| if core.troubled_jobs.is_any(now) { IN_TROUBLE.min(config.period) } else { config.period };
    each_period(core, &period, 0, &mut |now, out| reader.look(now, &|| core.is_stopping(), out));
}

/// Follows files until the engine stops.
pub(super) fn files(core: &Arc<Core>, config: &Collectives) {
    restrict(core);
    let mut reader = InspectorReader::new(core.roots.proc().to_owned(), config, Arc::clone(&core.jobs));
    let wall = || UNIX_EPOCH + Duration::from_nanos(core.clock.now());
    each_period(core, &|_| config.period, 1, &mut |_, out| reader.look(wall(), out));
}

/// Reads counters of MPI operations until the engine stops.
pub(super) fn mpi(core: &Arc<Core>, config: &Collectives) {
    restrict(core);
    let mut reader = MpiReader::new(core.roots.proc().to_owned(), config, Arc::clone(&core.jobs));
    // Processes of jobs have the time of the same clock in their files.
    let monotonic = || Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default().as_nanos();
    let look = &mut |_, out: &mut Batch| reader.look(u64::try_from(monotonic()).unwrap_or(u64::MAX), out);
    each_period(core, &|_| config.period, 2, look);
}

fn restrict(core: &Core) {
    capabilities::of_job_reader();
    core.settings.sandbox.enter(Role::Jobs { processes: capabilities::may_look() });
}

/// Sends what `look` writes each period, which may change, and ends its series with the engine. `slot` is the place of its latest
/// section.
fn each_period(
    core: &Core,
    period: &dyn Fn(Instant) -> Duration,
    slot: usize,
    look: &mut dyn FnMut(Instant, &mut Batch),
) {
    let resource = Arc::new(Resource { host: Arc::clone(&core.host), device: None, port: None });
    let (mut batch, start) = (Batch::default(), core.clock.now());
    let mut had: Arc<[Column]> = Arc::from([]);
    core.jobs.wait(FIRST);
    let (mut last, mut earliest): (Option<Instant>, _) = (None, Instant::now() + core.phase);
    while !core.is_stopping() {
        let now = Instant::now();
        let due = last.map_or(earliest, |last| earliest.max(last + period(now)));
        if now < due {
            std::thread::sleep(TURN.min(due - now));
            continue;
        }
        batch.begin();
        look(now, &mut batch);
        let section = batch.section(Arc::clone(&resource), start, core.clock.now());
        let ended: Vec<Column> = had.iter().filter(|column| !section.columns.contains(column)).cloned().collect();
        had = Arc::clone(&section.columns);
        end(core, &resource, ended, section.end_ns);
        core.collectives.lock()[slot] = Some(section.clone());
        core.ring.push(section);
        // A round that takes longer than the period is followed by the next one without overlap.
        (last, earliest) = (Some(now), Instant::now() + period(now) / 4);
    }
    end(core, &resource, had, core.clock.now());
    core.collectives.lock()[slot] = None;
}

/// Ends series, if there are any.
fn end(core: &Core, resource: &Arc<Resource>, ended: impl Into<Arc<[Column]>>, at_ns: u64) {
    let ended = ended.into();
    if !ended.is_empty() {
        core.ring.push(Section::ended(resource, ended, at_ns));
    }
}
