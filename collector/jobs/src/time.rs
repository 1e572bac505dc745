//! Times as schedulers print them.

/// Nanoseconds of a second.
pub(crate) const SECOND: i64 = 1_000_000_000;

/// Unix nanoseconds of `2026-01-31T12:00:00`, with a fraction and `Z` or an offset if there are; without, it is UTC.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once('T')?;
    let numbers =
        |part: &str, by| part.split(by).map(|n| n.parse().ok().filter(|n| *n >= 0)).collect::<Option<Vec<i64>>>();
    let at = rest.find(['Z', '+', '-', '.']).unwrap_or(rest.len());
    let (clock, mut rest) = rest.split_at(at);
    let (&[year, month, day], &[hour, minute, second]) = (&*numbers(date, '-')?, &*numbers(clock, ':')?) else {
        return None;
    };
    if !(1970..=2200).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
        nanos = format!("{:0<9}", &fraction[..digits]).get(..9)?.parse().ok()?;
        rest = &fraction[digits..];
    }
    let offset = match rest.chars().next() {
        None | Some('Z') => 0,
        Some(sign) => {
            let &[hours, minutes] = &*numbers(rest.get(1..)?, ':')? else { return None };
            (hours * 3600 + minutes * 60) * if sign == '-' { -1 } else { 1 }
        }
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    seconds.checked_mul(SECOND)?.checked_add(nanos)
}

/// Days since 1970 of a date; years begin in March here, so that the odd day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_forms() {
        let of = |text: &str| parse(text).map(|ns| (ns / SECOND, ns % SECOND));
        assert_eq!(of("1970-01-01T00:00:00"), Some((0, 0)));
        assert_eq!(of("2024-02-29T23:59:59Z"), Some((1_709_251_199, 0)));
        assert_eq!(of("2026-11-20T10:00:01.25+02:00"), Some((1_795_161_601, 250_000_000)));
        assert_eq!(of("2026-03-01T00:00:00-00:30"), Some((1_772_325_000, 0)));
        for none in
            ["Unknown", "N/A", "", "2026-13-01T00:00:00Z", "2026-01-01", "T", "2026-01-01T00:00", "-1-1-1T0:0:0"]
        {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
