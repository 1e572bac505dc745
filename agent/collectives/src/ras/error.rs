//! Reasons for which an exchange gives no snapshot.

use std::io;

/// Reason for which there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum RasError {
    /// Nothing accepts connections any more.
    #[error("the connection is refused; the job may have ended")]
    Refused(#[source] io::Error),
    /// The service did not answer the first line: its process may be stopped.
    #[error("the service accepts the connection and does not answer; its process may be stopped")]
    Silent,
    /// The port belongs to another service.
    #[error("the port belongs to another service, which answered {0:?}")]
    Foreign(String),
    /// The answer took too long.
    #[error("the answer was not complete in time; a large job needs a longer timeout")]
    Slow,
    /// The answer ended in the middle.
    #[error("the answer ends in the middle; the process that answered may have ended")]
    Cut,
    /// The answer is longer than the limit.
    #[error("the answer is longer than {0} bytes")]
    TooLarge(u64),
    /// The service refused the question.
    #[error("the service refused the question: {0:?}")]
    Denied(String),
    /// The answer is no status.
    #[error("the answer is no status of NCCL: {0}")]
    Malformed(&'static str),
    /// The connection failed otherwise.
    #[error("the connection failed")]
    Failed(#[source] io::Error),
}

impl RasError {
    /// Value of the label `reason`.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Silent => "silent",
            Self::Foreign(_) => "foreign_service",
            Self::Slow => "slow",
            Self::Cut => "cut",
            Self::TooLarge(_) => "too_large",
            Self::Denied(_) => "denied",
            Self::Malformed(_) => "malformed",
            Self::Failed(_) => "failed",
        }
    }
}

impl From<io::Error> for RasError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Slow,
            io::ErrorKind::ConnectionRefused => Self::Refused(error),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => Self::Cut,
            _ => Self::Failed(error),
        }
    }
}
