//! Client of NCCL's RAS service, on by default in each process of a job (NCCL 2.24 and later), on TCP port 28028 of loopback.
//!
//! The exchange is in lines: `CLIENT PROTOCOL n` is answered by `SERVER PROTOCOL n`, `TIMEOUT s` and `SET FORMAT json` by `OK`,
//! and `STATUS` by the whole state of the job, after which the service closes. The service asks all processes of the job for
//! it, so a status is asked rarely. JSON exists from NCCL 2.28; older versions answer as text.
//!
//! The service has no authentication and also takes commands that change the job (`CONTROL`). This client cannot send them:
//! the module `exchange` holds all that it sends.

mod error;
mod exchange;
mod input;
mod json;
mod limits;
mod text;

pub use error::RasError;
pub use exchange::{ask, ask_stream};
pub(crate) use json::{hexadecimal, is_operation};
pub use limits::Limits;

use crate::model::Snapshot;
use std::io::Read;

/// Port of the service unless `NCCL_RAS_ADDR` names another.
pub const PORT: u16 = 28028;

/// Parses a status in JSON.
///
/// Commas are not needed: NCCL 2.28 leaves one out exactly when ranks are missing.
///
/// # Errors
/// [`RasError`] if the answer is cut, too large, or no status.
pub fn parse_json(answer: impl Read, limits: &Limits) -> Result<Snapshot, RasError> {
    json::snapshot(&mut input::Input::new(answer, limits.bytes), limits)
}

/// Parses a status in text form, verbose or not.
///
/// # Errors
/// [`RasError`] if the answer is cut, too large, or no status.
pub fn parse_text(answer: impl Read, limits: &Limits) -> Result<Snapshot, RasError> {
    text::snapshot(&mut input::Input::new(answer, limits.bytes), limits)
}
