//! A message that cannot be decoded.

use fabriclens_wire::decode::DecodeError;

/// A message of a switch is none of gNMI; `Display` names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "switch {switch:?} sends a message that is no gNMI SubscribeResponse: {why}; check kind and address of this switch in gnmi.targets, or update its software"
)]
pub struct MalformedMessage {
    switch: String,
    why: &'static str,
}

impl MalformedMessage {
    /// Of the switch with this name. The error's own words are those of an OTLP request, which shares the reader.
    pub(crate) fn new(switch: &str, DecodeError::Malformed(why): DecodeError) -> Self {
        Self { switch: switch.to_owned(), why }
    }
}
