//! Small gRPC methods beside the receipt of samples: an agent asks or reports in one message. They share how a request is read
//! and who may speak for which host.

use std::time::Duration;

use axum::extract::Request;
use bytes::Bytes;
use fabriclens_core::byte_quota::{Full, Lease};
use fabriclens_server::auth::Caller;
use fabriclens_server::body::{self, BodyError};
use prost::Message;
use tonic::Status;

use super::grpc_frame;

/// Time that a client has to send a request.
const TIME: Duration = Duration::from_secs(5);

/// Why a body was not read.
enum Unread {
    Body(BodyError),
    Full,
}

impl From<BodyError> for Unread {
    fn from(error: BodyError) -> Self {
        Self::Body(error)
    }
}

impl From<Full> for Unread {
    fn from(Full: Full) -> Self {
        Self::Full
    }
}

/// Reads a request of at most `most` bytes, which count in `lease` if there is one.
///
/// # Errors
/// The status that names what is wrong.
pub(crate) async fn read<T: Message + Default>(
    request: Request,
    most: usize,
    mut lease: Option<&mut Lease>,
) -> Result<T, Status> {
    let (parts, body) = request.into_parts();
    let read = body::read(&parts.headers, body, most, |bytes| match &mut lease {
        Some(lease) => lease.add(bytes).map_err(Unread::from),
        None => Ok(()),
    });
    let read = tokio::time::timeout(TIME, read).await;
    let read = read.map_err(|_| Status::deadline_exceeded(format!("no request within {TIME:?}")))?;
    parse(read.map_err(|unread| match unread {
        Unread::Body(error @ BodyError::TooLarge { .. }) => Status::resource_exhausted(error.to_string()),
        Unread::Body(error) => invalid(&error),
        Unread::Full => {
            Status::resource_exhausted("the reports that are being read fill their memory; try again later")
        }
    })?)
}

/// Reads a request from the body of its call.
pub(crate) fn parse<T: Message + Default>(bytes: Bytes) -> Result<T, Status> {
    let (compressed, message) = grpc_frame::message(bytes).map_err(|e| invalid(&e))?;
    if compressed {
        return Err(Status::unimplemented("compression is not supported for this method; send the message as it is"));
    }
    T::decode(message).map_err(|e| invalid(&e))
}

/// A request that is wrong however often it is sent.
pub(crate) fn invalid(error: &dyn std::fmt::Display) -> Status {
    Status::invalid_argument(error.to_string())
}

/// Refuses a caller that is bound to other hosts; `what` says what it may not do.
///
/// # Errors
/// `PERMISSION_DENIED`.
pub(crate) fn allow(caller: &Caller, host: &str, what: &str) -> Result<(), Status> {
    if caller.hosts.has(host) {
        return Ok(());
    }
    let (name, host) = (caller.log_name(), host.escape_debug().to_string());
    let text = format!("{name} may not {what} as host {host:?}; let the token or certificate name that host");
    Err(Status::permission_denied(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_reader_lease::AskRequest;

    #[test]
    fn malformed_requests_are_refused() {
        let request = AskRequest { host: "h".to_owned(), agent: 1, switches: vec![1], reading: true };
        let framed = |flag: u8, message: &[u8]| {
            let length = (message.len() as u32).to_be_bytes();
            parse::<AskRequest>([&[flag][..], &length, message].concat().into())
        };
        assert_eq!(framed(0, &request.encode_to_vec()).unwrap(), request);
        assert_eq!(framed(1, &[]).unwrap_err().code(), tonic::Code::Unimplemented);
        assert_eq!(framed(0, &[0xff; 3]).unwrap_err().code(), tonic::Code::InvalidArgument);
        assert_eq!(parse::<AskRequest>(Bytes::new()).unwrap_err().code(), tonic::Code::InvalidArgument);
    }
}
