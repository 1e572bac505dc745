//! Pause that the adapter itself judged to be too long.

use super::words::*;

metrics! {
    STORM_EVENTS, Counter, Port, "fabric.pause.storm.events", EVENTS, ["direction", "reason"],
        "Times the adapter found continuous pause beyond its own limit (`warning`, `error`, `continuous`, …) or its end (`resume`).";
}
