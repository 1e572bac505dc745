//! Pause storms detected by the adapter itself.

use super::units::*;

metrics! {
    STORM_EVENTS, Counter, Port, "fabric.pause.storm.events", EVENTS, ["direction", "reason"],
        "Times the adapter detected continuous pause beyond its own limit (`warning`, `error`, `continuous`, …) or the end of it (`resume`).";
}
