//! Keeps all streams of a target open.

use std::time::Duration;

use fabriclens_core::endpoint::jitter;
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::connection::SharedConnection;
use crate::leaf::Receiver;
use crate::pace::ByteBudget;
use crate::session::{self, SessionError};
use crate::subscriptions::{Stream, streams};
use crate::target::Target;

/// Wait before the first and before later attempts to connect.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// A stream that lived this long starts again at the first wait.
const STABLE: Duration = Duration::from_secs(60);

/// Reads a target until `stop` becomes true. `receiver` makes the receiver of each stream.
pub async fn run(
    target: Target,
    receiver: impl Fn(&'static Stream) -> Box<dyn Receiver>,
    mut stop: watch::Receiver<bool>,
) {
    let shared = (SharedConnection::default(), ByteBudget::new());
    let all = streams(target.config.kind).iter().map(|stream| keep(stream, &target, &shared, receiver(stream)));
    tokio::select! {
        _ = join_all(all) => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// Opens a stream again whenever it ends.
async fn keep(
    stream: &Stream,
    target: &Target,
    (connections, budget): &(SharedConnection, ByteBudget),
    mut receiver: Box<dyn Receiver>,
) {
    let mut wait = FIRST;
    let mut told = String::new();
    // Targets of one collector do not start at the same moment.
    sleep(jitter(FIRST)).await;
    loop {
        let began = Instant::now();
        let error = match connections.get(&target.config) {
            Ok((number, connection)) => {
                let error = session::run(stream, target, &connection, budget, &mut *receiver).await;
                if !matches!(error, SessionError::Refused(_)) {
                    connections.discard(number);
                }
                error
            }
            Err(error) => error.into(),
        };
        target.observer.failed(stream, error.reason());
        if began.elapsed() > STABLE {
            wait = FIRST;
        }
        log(stream, target, &error, &mut told);
        sleep(jitter(wait)).await;
        wait = (2 * wait).min(LONGEST);
    }
}

/// Logs an error unless it is the one before.
fn log(stream: &Stream, target: &Target, error: &SessionError, told: &mut String) {
    let (switch, stream, text) = (&target.config.name, stream.name, error.to_string());
    if *told == text {
        return;
    }
    match error {
        SessionError::Ended => tracing::info!(switch, stream, "the switch ended a gNMI stream; reconnecting"),
        _ => tracing::warn!(switch, stream, error = text, "cannot read a switch by gNMI; retrying"),
    }
    *told = text;
}
