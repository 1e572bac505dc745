//! Converts foreign values to values of canonical metrics.

/// A value as a source sends it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A number.
    Number(f64),
    /// A number or word as text: JSON of gNMI, values of redis.
    Text(&'a str),
}

/// How a foreign value becomes the value of its canonical metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Conversion {
    /// Multiplied by this factor to the unit of the canonical metric.
    Scale(f64),
    /// A hardware counter that sticks at this number: there it counts nothing any more, which is a gap. Else as it is.
    Saturates(f64),
    /// 1 if the number is this one, 0 otherwise.
    Equals(f64),
    /// A bitmap: 1 if it has this bit and no other, 0 otherwise.
    OnlyBit(u32),
    /// Optical power in dBm, to watts.
    Dbm,
    /// A word, to a number; the comparison ignores case. Other words are a gap.
    Words(&'static [(&'static str, f64)]),
}

impl Conversion {
    /// The canonical value; `None` if the value is no number, not known, or a saturated counter.
    pub fn of(self, value: Value<'_>) -> Option<f64> {
        if let (Self::Words(words), Value::Text(text)) = (self, value) {
            return words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text.trim())).map(|(_, number)| *number);
        }
        let number = match value {
            Value::Number(number) => number,
            Value::Text(text) => number_in(text)?,
        };
        match self {
            Self::Scale(factor) => Some(number * factor),
            Self::Saturates(most) => (number != most).then_some(number),
            Self::Equals(wanted) => Some(f64::from(u8::from(number == wanted))),
            Self::OnlyBit(bit) => Some(f64::from(u8::from(number == f64::from(bit)))),
            // No light is minus infinity, which is no power.
            Self::Dbm => Some(10f64.powf((number - 30.0) / 10.0)),
            Self::Words(_) => Some(number),
        }
        .filter(|converted| converted.is_finite())
    }
}

/// The number in a text: decimal, hexadecimal with `0x`, or with thousands separators. `None` for everything else, such as
/// `N/A`.
fn number_in(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(|number| number as f64);
    }
    let plain = text.replace(',', "");
    plain.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_converted_or_are_gaps() {
        let number = |conversion: Conversion, number| conversion.of(Value::Number(number));
        assert_eq!(number(Conversion::Scale(4.0), 10.0), Some(40.0));
        assert_eq!(number(Conversion::Saturates(4_294_967_295.0), 4_294_967_295.0), None);
        assert_eq!(number(Conversion::Saturates(4_294_967_295.0), 4_294_967_294.0), Some(4_294_967_294.0));
        assert_eq!([1.0, 2.0, 0.0, 3.0].map(|v| number(Conversion::OnlyBit(1), v)), [1.0, 0.0, 0.0, 0.0].map(Some));
        assert_eq!(number(Conversion::Dbm, 0.0), Some(0.001));
        assert_eq!(number(Conversion::Dbm, f64::INFINITY), None);
        let text = |conversion: Conversion, text| conversion.of(Value::Text(text));
        assert_eq!(text(Conversion::Scale(1e-6), " 2500000 "), Some(2.5));
        assert_eq!(text(Conversion::Scale(1.0), "0x10"), Some(16.0));
        assert_eq!(text(Conversion::Scale(1.0), "1,024"), Some(1024.0));
        assert_eq!(["N/A", "", "nan", "inf", "0xzz"].map(|t| text(Conversion::Scale(1.0), t)), [None; 5]);
        const UP: Conversion = Conversion::Words(&[("up", 1.0), ("down", 0.0)]);
        assert_eq!(["UP", "down", "testing"].map(|t| text(UP, t)), [Some(1.0), Some(0.0), None]);
    }
}
