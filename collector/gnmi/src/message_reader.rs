//! Reads messages of a stream without a connection: replays of recordings store what [`crate::serve`] would have stored.

use std::sync::Arc;

use fabriclens_core::telemetry::Telemetry;
use fabriclens_model::{LayoutInterner, RowGroup};

use crate::counters::SwitchCounters;
use crate::leaf::Receiver;
use crate::malformed::MalformedMessage;
use crate::notification;
use crate::outbox::Outbox;
use crate::output::Output;
use crate::path_budget::PathBudget;
use crate::stream_receiver::receiver;
use crate::subscriptions::Stream;
use crate::target::Observer as _;

/// A stream of one switch whose messages come from the caller.
pub struct MessageReader {
    stream: &'static Stream,
    receiver: Box<dyn Receiver>,
    outbox: Arc<Outbox>,
    counters: Arc<SwitchCounters>,
    layouts: LayoutInterner,
}

impl MessageReader {
    /// A stream of the switch with this name.
    pub fn new(switch: &str, stream: &'static Stream, telemetry: &Telemetry) -> Self {
        let counters = Arc::new(SwitchCounters::new(switch, telemetry));
        let (outbox, paths) = (Arc::<Outbox>::default(), PathBudget::new(usize::MAX));
        let output = Output { switch: switch.into(), outbox: outbox.clone(), counters: counters.clone(), paths };
        let receiver = receiver(stream, output);
        Self { stream, receiver, outbox, counters, layouts: LayoutInterner::default() }
    }

    /// Rows for the store from an encoded `SubscribeResponse` that arrived at `now_ms` (Unix ms).
    ///
    /// # Errors
    /// [`MalformedMessage`] if it is no such message.
    pub fn read(&mut self, message: &[u8], now_ms: i64) -> Result<Vec<RowGroup>, MalformedMessage> {
        let outcome = notification::read(message, self.stream.dialect, now_ms, &mut *self.receiver)
            .map_err(|error| MalformedMessage::new(self.counters.switch(), error))?;
        self.counters.message(self.stream, message.len(), outcome.leaves, outcome.unread);
        Ok(self.outbox.take().into_iter().map(|row| row.into_group(&mut self.layouts)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::proto::{Notification, Response, SubscribeResponse, TypedValue, Update, Value};
    use crate::subscriptions::streams;
    use fabriclens_config::GnmiKind;
    use prost::Message as _;

    #[test]
    fn a_message_becomes_rows_of_the_catalog() {
        let telemetry = Telemetry::new().unwrap();
        let stream = streams(GnmiKind::Cumulus).iter().find(|stream| stream.name == "interfaces").unwrap();
        let mut reader = MessageReader::new("leaf1", stream, &telemetry);
        let update = Update {
            path: Some(parse("/interfaces/interface[name=swp1]/state/counters/in-octets")),
            val: Some(TypedValue { value: Some(Value::Uint(7)) }),
            duplicates: 0,
        };
        let sent = Notification { timestamp: 5_000_000_000, update: vec![update], ..Notification::default() };
        let message = SubscribeResponse { response: Some(Response::Update(sent)) }.encode_to_vec();
        let rows = reader.read(&message, 5100).unwrap();
        assert_eq!((rows.len(), &*rows[0].times, &*rows[0].values), (1, &[5000][..], &[7.0][..]));
        let series = r#"fabric_port_io_bytes_total{direction="receive", host="leaf1", port="swp1"}"#;
        assert_eq!(rows[0].series[0].to_string(), series);
        assert!(reader.read(&message, 5200).unwrap()[0].series.id() == rows[0].series.id(), "the list is kept");
        let error = reader.read(&[0x0a, 0xff], 5200).unwrap_err().to_string();
        assert!(error.starts_with("switch \"leaf1\" sends a message that is no gNMI SubscribeResponse"), "{error}");
    }
}
