//! Which receiver stores the values of a stream.

use fabriclens_foreign::sources::{gnmi_openconfig, gnmi_sonic};

use crate::events::Events;
use crate::leaf::{Dialect, Receiver};
use crate::neighbors::Neighbors;
use crate::output::Output;
use crate::series::Series;
use crate::subscriptions::Stream;

/// The receiver of a stream of one switch.
pub(crate) fn receiver(stream: &Stream, output: Output) -> Box<dyn Receiver> {
    match (stream.name, stream.dialect) {
        ("events", _) => Box::new(Events::new(output)),
        ("lldp", _) => Box::new(Neighbors::new(output)),
        (_, Dialect::SonicTable) => Box::new(Series::new(output, &gnmi_sonic::SOURCE)),
        (_, Dialect::OpenConfig) => Box::new(Series::new(output, &gnmi_openconfig::SOURCE)),
    }
}
