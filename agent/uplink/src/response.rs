//! Classifies responses of the collector by the rules of OTLP.

use fabriclens_base::error_chain::root;
use prost::Message;
use std::error::Error;
use std::time::Duration;
use tonic::{Code, Status};

/// Class of a response; it decides what happens to the points of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ResponseClass {
    /// Accepted, except for `rejected` points.
    Accepted { rejected: u64, message: String },
    /// May succeed later; `after` is the delay that the collector asked for.
    Retry { after: Option<Duration>, message: String },
    /// Refused credentials or role; may succeed once they are corrected, and samples wait for that.
    Refused { message: String },
    /// Larger than the receiver accepts; smaller parts may succeed.
    TooLarge(String),
    /// The receiver does not support the compression.
    Compression(String),
    /// Never succeeds.
    Permanent { reason: &'static str, message: String },
}

impl ResponseClass {
    /// Requested delay and message of a response that may succeed later.
    pub(crate) fn later(&self) -> (Option<Duration>, &str) {
        match self {
            Self::Retry { after, message } => (*after, message),
            Self::Refused { message } => (None, message),
            _ => (None, ""),
        }
    }

    /// Value of the label `outcome`.
    pub(crate) fn outcome(&self) -> &'static str {
        match self {
            Self::Accepted { rejected: 0, .. } => "ok",
            Self::Accepted { .. } => "partial",
            Self::Retry { .. } | Self::Refused { .. } => "retry",
            Self::TooLarge(_) | Self::Compression(_) | Self::Permanent { .. } => "refused",
        }
    }
}

/// Classifies a status.
pub(crate) fn of(status: &Status) -> ResponseClass {
    let message = text(status);
    let after = retry_info(status.details());
    let permanent = |reason| ResponseClass::Permanent { reason, message: message.clone() };
    match status.code() {
        // With a retry delay it is a temporary shortage; without one, the request is too large.
        Code::ResourceExhausted | Code::OutOfRange if after.is_none() => ResponseClass::TooLarge(message),
        Code::Unimplemented if message.contains("compress") || message.contains("encoding") => {
            ResponseClass::Compression(message)
        }
        Code::InvalidArgument => permanent("invalid"),
        Code::Unimplemented => permanent("unimplemented"),
        Code::NotFound | Code::AlreadyExists | Code::FailedPrecondition => permanent("refused"),
        Code::Internal if status.source().is_none() => permanent("internal"),
        Code::Unknown if status.source().is_none() => permanent("unknown"),
        Code::Unauthenticated | Code::PermissionDenied if status.source().is_none() => {
            ResponseClass::Refused { message }
        }
        _ => ResponseClass::Retry { after, message },
    }
}

/// An error with its root cause; errors in between repeat both.
pub(crate) fn chain(error: &dyn Error) -> String {
    short(with_root(error.to_string(), error))
}

fn with_root(mut text: String, error: &dyn Error) -> String {
    let root = root(error).to_string();
    if !text.contains(&root) {
        text.push_str(": ");
        text.push_str(&root);
    }
    text
}

/// Cuts a text: a hostile or broken server must not fill the log.
fn short(text: String) -> String {
    if text.len() <= 500 { text } else { text.chars().take(500).collect() }
}

/// Code and message of a refusal; root cause of a connection failure.
pub(crate) fn text(status: &Status) -> String {
    let text = match status.source() {
        Some(_) => status.message().to_owned(),
        None => return short(format!("{:?}: {}", status.code(), status.message())),
    };
    short(with_root(text, status))
}

/// Delay of `google.rpc.RetryInfo` in the details of a status.
fn retry_info(details: &[u8]) -> Option<Duration> {
    let status = RpcStatus::decode(details).ok()?;
    let info = status.details.iter().find(|d| d.type_url.ends_with("/google.rpc.RetryInfo"))?;
    let delay = RetryInfo::decode(info.value.as_slice()).ok()?.delay?;
    Some(Duration::new(u64::try_from(delay.seconds).ok()?, u32::try_from(delay.nanos).ok()?.min(999_999_999)))
}

#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<RpcDetail>,
}

#[derive(Clone, PartialEq, Message)]
struct RpcDetail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<Delay>,
}

#[derive(Clone, PartialEq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_retry(code: Code, seconds: i64) -> Status {
        let value = RetryInfo { delay: Some(Delay { seconds, nanos: 500_000_000 }) }.encode_to_vec();
        let type_url = "type.googleapis.com/google.rpc.RetryInfo".to_owned();
        let details = RpcStatus { details: vec![RpcDetail { type_url, value }] }.encode_to_vec();
        Status::with_details(code, "busy", details.into())
    }

    #[test]
    fn codes_are_classified_as_otlp_says() {
        let later = [Code::Unavailable, Code::DeadlineExceeded, Code::Aborted, Code::Cancelled, Code::DataLoss];
        for code in later {
            assert!(matches!(of(&Status::new(code, "")), ResponseClass::Retry { after: None, .. }), "{code:?}");
        }
        for code in [Code::Unauthenticated, Code::PermissionDenied] {
            assert!(matches!(of(&Status::new(code, "")), ResponseClass::Refused { .. }), "{code:?}");
        }
        for code in [Code::InvalidArgument, Code::Internal] {
            assert!(matches!(of(&Status::new(code, "")), ResponseClass::Permanent { .. }), "{code:?}");
        }
        let asked = Some(Duration::from_millis(2500));
        for code in [Code::Unavailable, Code::ResourceExhausted] {
            assert!(
                matches!(of(&with_retry(code, 2)), ResponseClass::Retry { after, .. } if after == asked),
                "{code:?}"
            );
        }
        assert!(matches!(of(&Status::resource_exhausted("too big")), ResponseClass::TooLarge(_)));
        assert!(matches!(of(&Status::out_of_range("too large")), ResponseClass::TooLarge(_)));
        let unknown = Status::unimplemented("Content is compressed with `zstd` which isn't supported");
        assert!(matches!(of(&unknown), ResponseClass::Compression(_)));
        assert!(matches!(of(&with_retry(Code::Unavailable, -1)), ResponseClass::Retry { after: None, .. }));
    }
}
