//! Raw vendor counters that a person asked for by name, beside everything canonical.

use super::words::*;

metrics! {
    VENDOR_COUNTER, Gauge, Port, "fabric.vendor.counter", None, ["name", "source"],
        "A vendor's counter exactly as read, where `passthrough` names it: no unit, no widening, no judgement of resets.";
}
