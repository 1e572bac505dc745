//! Literals: strings with Go's escapes, numbers, durations.

/// The value of the string literal at the start of `src`, and its length in bytes.
pub(super) fn unquote(src: &str) -> Result<(String, usize), String> {
    let quote = src.chars().next().unwrap_or('"');
    let body = &src[1..];
    if quote == '`' {
        let end = body.find('`').ok_or("unterminated raw string")?;
        return Ok((body[..end].to_owned(), end + 2));
    }
    let mut bytes = Vec::new();
    let mut chars = body.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            c if c == quote => {
                let text = String::from_utf8(bytes).map_err(|_| "string literal is not valid UTF-8")?;
                return Ok((text, i + 2));
            }
            '\n' => break,
            '\\' => {
                let (_, kind) = chars.next().ok_or("escape sequence not terminated")?;
                unescape(kind, quote, &mut chars, &mut bytes)?;
            }
            c => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    Err("unterminated quoted string".into())
}

fn unescape(kind: char, quote: char, chars: &mut std::str::CharIndices<'_>, bytes: &mut Vec<u8>) -> Result<(), String> {
    let simple = match kind {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        c if c == quote => quote as u8,
        _ => 0,
    };
    if simple != 0 {
        bytes.push(simple);
        return Ok(());
    }
    let (digits, radix) = match kind {
        'x' => (2, 16),
        'u' => (4, 16),
        'U' => (8, 16),
        '0'..='7' => (3, 8),
        c => return Err(format!("unknown escape sequence {c:?}")),
    };
    let mut code = if radix == 8 { kind.to_digit(8).unwrap_or(0) } else { 0 };
    for _ in 0..digits - u32::from(radix == 8) {
        let (_, c) = chars.next().ok_or("escape sequence not terminated")?;
        let digit = c.to_digit(radix).ok_or_else(|| format!("illegal character {c:?} in escape sequence"))?;
        code = code.checked_mul(radix).map_or(u32::MAX, |v| v.saturating_add(digit));
    }
    if matches!(kind, 'u' | 'U') {
        let c = char::from_u32(code).ok_or("escape sequence is an invalid Unicode code point")?;
        bytes.extend(c.encode_utf8(&mut [0; 4]).bytes());
    } else {
        bytes.push(u8::try_from(code).map_err(|_| "escape sequence is larger than a byte")?);
    }
    Ok(())
}

/// Parses a number as Prometheus does: decimal with exponent, hexadecimal, or octal if it starts with zero and has
/// only octal digits; underscores may separate digits. `None` if it is not a number.
///
/// # Errors
/// A message if the number is out of range.
pub(super) fn number(text: &str) -> Option<Result<f64, String>> {
    if text.contains('_') {
        return underscores_separate_digits(text).then(|| number(&text.replace('_', "")))?;
    }
    let wrong = |why: &str| Some(Err(format!("error parsing number: strconv.ParseFloat: parsing {text:?}: {why}")));
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        if hex.is_empty() || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        return i64::from_str_radix(hex, 16).map_or_else(|_| wrong("invalid syntax"), |v| Some(Ok(v as f64)));
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let some = !whole.is_empty() || !part.is_empty();
    if !(some && digits(whole) && digits(part) && !exponent.is_empty() && digits(exponent)) {
        return None;
    }
    if let Some(Ok(octal)) = text.strip_prefix('0').filter(|t| digits(t)).map(|t| i64::from_str_radix(t, 8)) {
        return Some(Ok(octal as f64));
    }
    match text.parse::<f64>() {
        Ok(v) if v.is_finite() => Some(Ok(v)),
        _ => wrong("value out of range"),
    }
}

/// Whether each underscore stands between two digits, or between `0x` and a digit.
fn underscores_separate_digits(text: &str) -> bool {
    let (hex, digits) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let digit = |b: u8| if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() };
    let bytes = digits.as_bytes();
    (0..bytes.len()).filter(|at| bytes[*at] == b'_').all(|at| {
        let before = if at == 0 { hex } else { digit(bytes[at - 1]) };
        before && bytes.get(at + 1).is_some_and(|b| digit(*b))
    })
}

const UNITS: [(&str, u64); 7] = [
    ("y", 31_536_000_000),
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Milliseconds of a duration such as `1h30m`: whole numbers, units in descending order, each at most once.
pub(super) fn duration(text: &str) -> Result<u64, String> {
    let invalid = || format!("not a valid duration string: {text:?}");
    let mut units = UNITS.iter();
    let (mut rest, mut total) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (_, scale) = units.find(|(name, _)| *name == &tail[..letters]).ok_or_else(invalid)?;
        let number: u64 = number.parse().map_err(|_| "duration out of range".to_owned())?;
        total = total.saturating_add(number.saturating_mul(*scale));
        rest = &tail[letters..];
    }
    // Maximum of Go's durations.
    if total > i64::MAX as u64 / 1_000_000 { Err("duration out of range".into()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquotes_like_go() {
        let value = |s: &str| unquote(s).map(|(v, _)| v);
        assert_eq!(value(r#""a\t\x41\101\u00e9\"" rest"#).unwrap(), "a\tAAé\"");
        assert_eq!(unquote("`\\d`+").unwrap(), ("\\d".into(), 4));
        assert_eq!(value("'it\\'s'").unwrap(), "it's");
        for bad in [r#""\q""#, "\"open", "\"a\nb\"", r#""\xff""#, r#""\ud800""#, "`open", r#""\""#, r#""\400""#] {
            assert!(value(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_and_durations_are_checked() {
        let good = ["1", "1.", ".5", "0x1F", "017", "089", "0e5", "1E-5", "1.5e+3", "1e-400", "0x7FFFFFFFFFFFFFFF"];
        let want = [1.0, 1.0, 0.5, 31.0, 15.0, 89.0, 0.0, 1e-5, 1500.0, 0.0, 9_223_372_036_854_775_807.0];
        assert_eq!(good.map(number), want.map(|v| Some(Ok(v))));
        let grouped = ["1_000", "0x_1F", "1_0.5_0e1_0", "0_17"].map(number);
        assert_eq!(grouped, [1000.0, 31.0, 1.05e11, 15.0].map(|v| Some(Ok(v))));
        for bad in ["", ".", "1x", "0x", "1e", "1__0", "1_", "1_.5", "1._5", "1e_5", "1.2.3", "5m", "0xg", "1e400x"] {
            assert_eq!(number(bad), None, "{bad}");
        }
        for large in ["1e400", "0xFFFFFFFFFFFFFFFF"] {
            assert!(number(large).unwrap().is_err(), "{large}");
        }
        for good in ["5m", "1h30m", "1y2w3d4h5m6s7ms", "100ms"] {
            assert!(duration(good).is_ok(), "{good}");
        }
        assert_eq!([duration("1y2w3d4h5m6s7ms"), duration("4320000000ms")], [Ok(33_019_506_007), Ok(4_320_000_000)]);
        assert_eq!(duration("0s"), Ok(0));
        for bad in ["5", "5m1h", "5mm", "1.5h", "300y", "1e400", "m", "99999999999s", "5m5", "5é"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
