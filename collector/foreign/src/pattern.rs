//! Foreign names: whole, with one number in the middle (`{}`), or all that begin alike (`*` at the end).

/// The number in `name` at the place of `{}` in `pattern`, as text; `""` if the pattern has none. `None` if the name does
/// not fit.
pub fn fit<'a>(pattern: &str, name: &'a str) -> Option<&'a str> {
    if let Some(before) = pattern.strip_suffix('*') {
        return name.starts_with(before).then_some("");
    }
    let Some((before, after)) = pattern.split_once("{}") else {
        return (pattern == name).then_some("");
    };
    let number = name.strip_prefix(before)?.strip_suffix(after)?;
    (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_whole() {
        assert_eq!(fit("a_b", "a_b"), Some(""));
        assert_eq!(fit("PFC_{}_RX_PKTS", "PFC_3_RX_PKTS"), Some("3"));
        assert_eq!((fit("lldp_*", "lldp_age"), fit("lldp_*", "lld")), (Some(""), None));
        assert_eq!(fit("LANE_{}", "LANE_15"), Some("15"));
        for no in ["PFC__RX_PKTS", "PFC_x_RX_PKTS", "PFC_3_RX_PKTS_X", "PFC_3_TX_PKTS", "PFC_"] {
            assert_eq!(fit("PFC_{}_RX_PKTS", no), None, "{no}");
        }
    }
}
