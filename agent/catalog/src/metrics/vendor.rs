//! Raw vendor counters that the configuration selects by name.

use super::units::*;

metrics! {
    VENDOR_COUNTER, Gauge, Port, "fabric.vendor.counter", None, ["name", "source"],
        "A vendor's counter exactly as read, if `passthrough` selects it: no unit, no widening, no reset handling.";
}
