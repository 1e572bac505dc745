//! The gRPC status of what is refused.

use fabriclens_server::body::BodyError;
use fabriclens_server::retry;
use tonic::{Code, Status};

use super::IngestError;

/// The status that tells a sender whether to try again, and when.
pub(crate) fn status_of(e: &IngestError) -> Status {
    match (e, e.after()) {
        (_, Some(after)) => retry::later(Code::Unavailable, &e.to_string(), after),
        // Without a retry delay: the sender must split the request, not repeat it.
        (IngestError::Body(BodyError::TooLarge { .. }), None) => Status::resource_exhausted(e.to_string()),
        // Retrying would fail again.
        (IngestError::Malformed(_) | IngestError::Body(_), None) => Status::invalid_argument(e.to_string()),
        (_, None) => Status::internal(e.to_string()),
    }
}
