//! Retry delays in answers: `google.rpc.RetryInfo` over gRPC, `Retry-After` over HTTP.

use std::time::Duration;

use prost::Message;
use tonic::{Code, Status};

/// `google.rpc.Status`: the error body of OTLP/HTTP, and the wrapper of details in a gRPC status.
#[derive(Clone, PartialEq, Message)]
pub struct RpcStatus {
    #[prost(int32, tag = "1")]
    /// gRPC status code.
    pub code: i32,
    #[prost(string, tag = "2")]
    /// Message for people.
    pub message: String,
    #[prost(message, repeated, tag = "3")]
    /// Holds a `google.rpc.RetryInfo` if the sender may retry.
    pub details: Vec<Any>,
}

/// `google.protobuf.Any`
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.RetryInfo`
#[derive(Clone, PartialEq, Eq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<Delay>,
}

/// `google.protobuf.Duration`
#[derive(Clone, PartialEq, Eq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

impl RpcStatus {
    /// Creates a status; with `after`, the sender may retry after that time.
    pub fn new(code: Code, message: &str, after: Option<Duration>) -> Self {
        let details = after.map(|after| {
            let nanos = i32::try_from(after.subsec_nanos()).unwrap_or(0);
            let delay = Delay { seconds: i64::try_from(after.as_secs()).unwrap_or(i64::MAX), nanos };
            let value = RetryInfo { delay: Some(delay) }.encode_to_vec();
            Any { type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(), value }
        });
        Self { code: code as i32, message: message.to_owned(), details: details.into_iter().collect() }
    }
}

/// Creates a gRPC refusal with a retry delay, after which every OTLP sender retries.
pub fn later(code: Code, message: &str, after: Duration) -> Status {
    let details = RpcStatus::new(code, message, Some(after)).encode_to_vec();
    Status::with_details(code, message, details.into())
}

/// Formats the value of `Retry-After`: whole seconds, rounded up, at least 1.
pub fn seconds(after: Duration) -> String {
    after.as_millis().div_ceil(1000).max(1).to_string()
}
