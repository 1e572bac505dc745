//! One pass over all sources, for `once` and `doctor`: one thread per device, none waited for beyond the deadline.

use super::{Settings, SourceStatus, spawn};
use crate::device::{Runner, Tick};
use crate::health;
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_host::discover::discover;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_samplers::target::SamplingTarget;
use fabriclens_wire::Section;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

/// Takes one full and slow sample of everything, without rates. A device that does not answer within
/// `settings.deadline` is stalled and gives no sections.
pub fn once(roots: Arc<Roots>, settings: &Settings) -> (Vec<Section>, Vec<SourceStatus>) {
    let clock = Arc::new(Clock::new());
    let host: Arc<str> = settings.host.as_str().into();
    let inventory = discover(&roots, &settings.exclude_devices, None);
    settings.rails.update(&inventory);
    settings.gpu_affinity.update(&inventory, &settings.rails);
    let jobs = settings.jobs();
    let own = SamplingTarget::host(&roots, &host, &settings.destinations).with_microburst(&settings.microburst);
    let mut groups = vec![vec![own]];
    groups.extend(inventory.devices.iter().map(|d| SamplingTarget::of_device(&roots, &host, d)));
    groups.extend(inventory.netdevs.iter().map(|n| vec![SamplingTarget::of_netdev(&roots, &host, n)]));
    groups.extend(SamplingTarget::of_gpus(&roots, &host, &inventory.gpus).into_iter().map(|target| vec![target]));
    let (done, results) = sync_channel(groups.len());
    let mut shared = Vec::new();
    for (index, group) in groups.into_iter().enumerate() {
        let passthrough: Arc<[String]> = settings.passthrough.clone().into();
        let runners: Vec<Runner> = group
            .into_iter()
            .map(|target| {
                let mut target = target.with_jobs(&jobs).with_rails(&settings.rails);
                target = target.with_gpu_affinity(&settings.gpu_affinity);
                target.passthrough = Arc::clone(&passthrough);
                Runner::new(target, settings, Arc::clone(&clock))
            })
            .collect();
        shared.push(runners.iter().map(Runner::shared).collect::<Vec<_>>());
        let done = done.clone();
        let body = move || {
            let mut sections = Vec::new();
            for mut runner in runners {
                runner.run(Tick::Slow, &mut |section| sections.push(section));
            }
            let _ = done.send((index, sections));
        };
        if let Err(error) = spawn("once", body) {
            tracing::error!(%error, "cannot start a thread; the device is skipped");
        }
    }
    drop(done);
    let until = Instant::now() + settings.deadline;
    let mut found: Vec<Vec<Section>> = vec![Vec::new(); shared.len()];
    let mut answered = vec![false; shared.len()];
    while let Ok((index, sections)) = results.recv_timeout(until.saturating_duration_since(Instant::now())) {
        found[index] = sections;
        answered[index] = true;
    }
    let mut sections: Vec<Section> = found.into_iter().flatten().collect();
    sections.push(health::host_facts(&roots, &host, &inventory, clock.now()));
    let statuses = shared.iter().zip(answered).flat_map(|(group, answered)| {
        // A device without an answer is stalled, even if its current read began recently.
        let deadline = if answered { settings.deadline } else { std::time::Duration::ZERO };
        group.iter().flat_map(move |shared| shared.statuses(deadline)).collect::<Vec<_>>()
    });
    (sections, statuses.collect())
}
