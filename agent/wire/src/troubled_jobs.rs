//! Names of jobs that open incidents touch, as a header of the collector's answers to samples: agents ask the communication
//! libraries of these jobs more often.

/// The header.
pub const HEADER: &str = "fabriclens-troubled-jobs";
/// Most names in a header, and the longest name, bytes. Further ones are left out: encoded they take 6 KiB at most, and clients of
/// HTTP/2 refuse an answer with more than 16 KiB of headers.
const NAMES: usize = 32;
const NAME: usize = 64;

/// The value of the header: names separated by commas, in which all but letters, digits and `-._~` is percent-encoded. `None`
/// without a name.
pub fn encode<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let fits = |name: &&str| !name.is_empty() && name.len() <= NAME;
    let all: Vec<String> = names.into_iter().filter(fits).take(NAMES).map(encode_name).collect();
    (!all.is_empty()).then(|| all.join(","))
}

fn encode_name(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// The names in a value of the header. What is no name is left out.
pub fn decode(value: &str) -> Vec<String> {
    value.split(',').take(NAMES).filter_map(decode_name).collect()
}

fn decode_name(encoded: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(encoded.len().min(NAME));
    let mut rest = encoded.trim().bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let [high, low] = [rest.next()?, rest.next()?].map(|digit| char::from(digit).to_digit(16));
                u8::try_from(high? << 4 | low?).ok()?
            }
            byte => byte,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok().filter(|name| (1..=NAME).contains(&name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_odd_ones_are_left_out() {
        let names = ["4711", "a/b c,d%é\u{1b}", "pod-1.x"];
        let value = encode(names).unwrap();
        assert!(value.bytes().all(|byte| byte.is_ascii_graphic()), "{value}");
        assert_eq!(decode(&value), names);
        let long = "x".repeat(NAME + 1);
        assert_eq!((encode([]), encode(["", &long])), (None, None));
        assert_eq!(decode(&format!("%4,%zz,%ff, 7 ,,{long},8")), ["7", "8"]);
        let many: Vec<String> = (0..NAMES + 9).map(|n| n.to_string()).collect();
        assert_eq!(decode(&encode(many.iter().map(String::as_str)).unwrap()).len(), NAMES);
        let largest = "\u{e9}".repeat(NAME / 2);
        assert!(encode([&*largest; NAMES]).unwrap().len() < 8 << 10);
    }
}
