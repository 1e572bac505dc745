//! One call of `Subscribe`, from its request to its end.

use std::time::Duration;

use fabriclens_base::error_chain::with_new_causes;
use fabriclens_config::GnmiTarget;
use tokio::time::{Instant, timeout};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};

use crate::codec::SubscribeCodec;
use crate::connection::{ConnectError, Connection};
use crate::leaf::Receiver;
use crate::malformed::MalformedMessage;
use crate::notification::{self, shown};
use crate::pace::ByteBudget;
use crate::subscriptions::Stream;
use crate::target::Target;

/// Largest message, bytes. The counters of 512 ports with 120 counters each take 3 MiB of JSON.
const MESSAGE: usize = 8 << 20;
/// Longest wait for the first message, and for the next one of a sampled stream beyond three intervals.
const SILENCE: Duration = Duration::from_secs(30);
const METHOD: PathAndQuery = PathAndQuery::from_static("/gnmi.gNMI/Subscribe");

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// A file is wrong.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The target refused the call; the same call will not succeed.
    #[error("the target refuses it ({:?}): {}", .0.code(), shown(.0.message()))]
    Refused(Status),
    /// The target rejects user, password or certificate.
    #[error("the target rejects the credentials ({:?}): {}; check username, password_file, cert and key", .0.code(), shown(.0.message()))]
    Credentials(Status),
    /// The connection failed.
    #[error("{}", chain(.0))]
    Failed(Status),
    /// Nothing came for too long.
    #[error("no message for {} s", .0.as_secs())]
    Silent(Duration),
    /// A message is none of gNMI.
    #[error(transparent)]
    Malformed(#[from] MalformedMessage),
    /// The target ended the stream.
    #[error("the target ended the stream")]
    Ended,
}

impl SessionError {
    /// Value of the label `reason`.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Connect(_) => "config",
            Self::Refused(_) => "refused",
            Self::Credentials(_) => "credentials",
            Self::Failed(_) => "connection",
            Self::Silent(_) => "silent",
            Self::Malformed(_) => "malformed",
            Self::Ended => "ended",
        }
    }
}

impl From<Status> for SessionError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => Self::Credentials(status),
            Code::InvalidArgument | Code::NotFound | Code::Unimplemented | Code::FailedPrecondition => {
                Self::Refused(status)
            }
            _ => Self::Failed(status),
        }
    }
}

/// Message of a status with its causes, which tonic keeps apart.
fn chain(status: &Status) -> String {
    shown(&with_new_causes(status.message(), status)).into_owned()
}

/// Runs a stream until it fails.
pub(crate) async fn run(
    stream: &Stream,
    target: &Target,
    connection: &Connection,
    budget: &ByteBudget,
    receiver: &mut dyn Receiver,
) -> SessionError {
    match run_until_end(stream, target, connection, budget, receiver).await {
        Ok(()) => SessionError::Ended,
        Err(error) => error,
    }
}

async fn run_until_end(
    stream: &Stream,
    target: &Target,
    connection: &Connection,
    budget: &ByteBudget,
    receiver: &mut dyn Receiver,
) -> Result<(), SessionError> {
    let GnmiTarget { kind, interval, .. } = *target.config;
    let first = Instant::now() + SILENCE;
    let mut client = Grpc::new(connection.channel.clone()).max_decoding_message_size(MESSAGE);
    let silent = |_| SessionError::Silent(SILENCE);
    tokio::time::timeout_at(first, client.ready()).await.map_err(silent)?.map_err(|e| Status::from_error(e.into()))?;
    // The request stream stays open: its end would end the call at some targets.
    let requests = futures_util::StreamExt::chain(
        futures_util::stream::iter([stream.request(kind, interval)]),
        futures_util::stream::pending(),
    );
    let mut request = Request::new(requests);
    connection.identify(request.metadata_mut());
    let call = client.streaming(request, METHOD, SubscribeCodec);
    let mut messages = tokio::time::timeout_at(first, call).await.map_err(silent)??.into_inner();
    let patience = stream.interval(interval).map(|interval| SILENCE + 3 * interval);
    let mut wait = Some(SILENCE);
    loop {
        let message = match wait {
            Some(wait) => timeout(wait, messages.message()).await.map_err(|_| SessionError::Silent(wait))?,
            None => messages.message().await,
        };
        let Some(message) = message? else { return Ok(()) };
        let outcome = notification::read(&message, stream.dialect, target.clock.now_ms(), receiver)
            .map_err(|error| MalformedMessage::new(&target.config.name, error))?;
        target.observer.message(stream, message.len(), outcome.leaves, outcome.unread);
        wait = patience;
        budget.spend(message.len()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_wire::decode::DecodeError;

    #[test]
    fn a_malformed_message_names_gnmi_the_target_and_the_remedy() {
        let error = DecodeError::Malformed("a field is longer than its message");
        let error = SessionError::from(MalformedMessage::new("leaf\u{1b}1", error));
        assert_eq!(
            error.to_string(),
            "switch \"leaf\\u{1b}1\" sends a message that is no gNMI SubscribeResponse: a field is longer than its message; \
             check kind and address of this switch in gnmi.targets, or update its software"
        );
        assert_eq!(error.reason(), "malformed");
    }
}
