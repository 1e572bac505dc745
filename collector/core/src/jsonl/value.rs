//! Values of samples in JSON lines. As in VictoriaMetrics, a staleness marker is `null` and infinities are strings. The ordinary NaN
//! is `"NaN"`; any other is written with its 64 bits in hexadecimal, `"NaN(7ff8000000000000)"`. So an import restores exactly what was
//! exported.

use std::fmt::Write as _;

use fabriclens_model::{is_stale, stale};
use serde::de::{self, Deserializer, Visitor};

use crate::json_text::push_value;

/// Bits of the ordinary NaN of Prometheus, written as `"NaN"`.
const NORMAL_NAN: u64 = 0x7ff8_0000_0000_0001;

/// Appends a value.
pub(super) fn push_sample(out: &mut String, value: f64) {
    match value {
        v if is_stale(v) => out.push_str("null"),
        v if v.to_bits() == NORMAL_NAN => out.push_str("\"NaN\""),
        v if v.is_nan() => _ = write!(out, "\"NaN({:x})\"", v.to_bits()),
        f64::INFINITY => out.push_str("\"Infinity\""),
        f64::NEG_INFINITY => out.push_str("\"-Infinity\""),
        v => push_value(out, v),
    }
}

/// A number, `null` for a staleness marker, or a string for values that JSON cannot express.
pub(super) struct Value(pub(super) f64);

impl<'de> de::Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Any)
    }
}

struct Any;

impl Visitor<'_> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number, null, \"NaN\", \"Infinity\" or \"-Infinity\"")
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Value(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value(v as f64))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value(v as f64))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value(stale()))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        let bits = |hex: &str| u64::from_str_radix(hex, 16).ok().map(f64::from_bits).filter(|v| v.is_nan());
        let value = match text {
            "Infinity" | "+Inf" | "Inf" => Some(f64::INFINITY),
            "-Infinity" | "-Inf" => Some(f64::NEG_INFINITY),
            "NaN" => Some(f64::from_bits(NORMAL_NAN)),
            other => other.strip_prefix("NaN(").and_then(|t| t.strip_suffix(')')).and_then(bits),
        };
        value.map(Value).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}
