//! All configured switches, from start to stop: one thread reads them, so that none takes time from other work.

use std::sync::Arc;

use fabriclens_config::GnmiTarget;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ms;
use fabriclens_forward::Sink;
use futures_util::future::join_all;
use tokio::sync::{oneshot, watch};

use crate::counters::SwitchCounters;
use crate::outbox::Outbox;
use crate::output::Output;
use crate::path_budget::PathBudget;
use crate::reconnect::run;
use crate::stream_receiver::receiver;
use crate::subscriptions::Stream;
use crate::target::{Clock, Target};

struct Host;

impl Clock for Host {
    fn now_ms(&self) -> i64 {
        now_ms()
    }
}

/// Reads all switches and stores what they send, until `stop` becomes true. Their paths may take `memory` bytes, and as much
/// the samples on their way to the store.
pub async fn serve(
    targets: Vec<GnmiTarget>,
    sink: Arc<Sink>,
    telemetry: Telemetry,
    memory: usize,
    stop: watch::Receiver<bool>,
) {
    if targets.is_empty() {
        return;
    }
    let outbox = Arc::new(Outbox::new(memory));
    let writer = outbox.clone().write(sink, telemetry.clone(), stop.clone());
    let (done, ended) = oneshot::channel::<()>();
    let reader = std::thread::Builder::new().name("gnmi".to_owned()).spawn(move || {
        // Dropped when the thread ends, however it does.
        let _done = done;
        read(targets, &outbox, &telemetry, &PathBudget::new(memory), &stop);
    });
    if let Err(error) = reader {
        tracing::error!(%error, "cannot start the thread that reads switches by gNMI");
    }
    writer.await;
    // An error is the end of the thread.
    ended.await.unwrap_or_default();
}

fn read(
    targets: Vec<GnmiTarget>,
    outbox: &Arc<Outbox>,
    telemetry: &Telemetry,
    paths: &PathBudget,
    stop: &watch::Receiver<bool>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "cannot read switches by gNMI"),
    };
    tracing::info!(switches = targets.len(), "reading switches by gNMI");
    let all = targets.into_iter().map(|config| {
        let counters = Arc::new(SwitchCounters::new(&config.name, telemetry));
        let (switch, outbox) = (config.name.as_str().into(), outbox.clone());
        let output = Output { switch, outbox, counters: counters.clone(), paths: paths.of_target() };
        let target = Target { config: Arc::new(config), observer: counters, clock: Arc::new(Host) };
        let receiver = move |stream: &'static Stream| receiver(stream, output.clone());
        run(target, receiver, stop.clone())
    });
    runtime.block_on(async {
        // Spawned, so that only those that have something to do are polled.
        join_all(all.map(tokio::spawn)).await;
    });
}
