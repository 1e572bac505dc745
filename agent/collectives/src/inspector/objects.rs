//! Splits a growing file into JSON objects, one a line or over several lines.
//!
//! An object begins with a brace at the begin of a line. What a crash has cut off ends where the next object begins, so one cut
//! line loses itself only.

/// Longest object that is parsed, bytes: verbose records list each channel.
const LONGEST: usize = 256 << 10;

/// Objects of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// Whole objects, in order.
    pub objects: Vec<&'a [u8]>,
    /// Bytes that need not be read again; an object that is not complete begins after them.
    pub consumed: usize,
    /// Objects that were cut off, or too long.
    pub lost: u64,
}

/// Splits bytes that begin at the begin of a line.
pub fn split(bytes: &[u8]) -> Split<'_> {
    let mut split = Split { objects: Vec::new(), consumed: 0, lost: 0 };
    let (mut begin, mut depth, mut text, mut escaped, mut line_begin) = (None, 0_u32, false, false, true);
    for (at, byte) in bytes.iter().copied().enumerate() {
        let starts = line_begin && byte == b'{';
        line_begin = byte == b'\n';
        if starts && begin.is_some() {
            split.lost += 1;
        }
        if starts {
            (begin, depth, text, escaped) = (Some(at), 1, false, false);
            continue;
        }
        let Some(from) = begin else {
            if byte == b'\n' {
                split.consumed = at + 1;
            }
            continue;
        };
        match byte {
            _ if escaped => escaped = false,
            b'\\' if text => escaped = true,
            b'"' => text = !text,
            // A line cannot end within a text: the rest of the text is missing.
            b'\n' if text => {
                begin = None;
                split.lost += 1;
                split.consumed = at + 1;
            }
            b'{' if !text => depth += 1,
            b'}' if !text => {
                depth -= 1;
                if depth == 0 {
                    begin = None;
                    split.consumed = at + 1;
                    split.objects.push(&bytes[from..=at]);
                }
            }
            _ => {}
        }
        if begin.is_some() && at - from > LONGEST {
            begin = None;
            split.lost += 1;
            split.consumed = at + 1;
        }
    }
    // Objects that were replaced by the next one need not be read again.
    split.consumed = begin.unwrap_or(split.consumed).max(split.consumed);
    split
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(text: &str) -> (Vec<String>, usize, u64) {
        let split = split(text.as_bytes());
        let objects = split.objects.iter().map(|o| String::from_utf8_lossy(o).into_owned()).collect();
        (objects, split.consumed, split.lost)
    }

    #[test]
    fn lines_and_objects_over_several_lines_are_split() {
        let text = "{\"a\": 1}\n{\n  \"b\": {\"c\": \"}{\\\"\"}\n}\n";
        let (all, consumed, lost) = objects(text);
        assert_eq!(all, ["{\"a\": 1}", "{\n  \"b\": {\"c\": \"}{\\\"\"}\n}"]);
        assert_eq!((consumed, lost), (text.len(), 0));
    }

    #[test]
    fn an_object_that_is_not_complete_is_read_again() {
        assert_eq!(objects("{\"a\": 1}\n{\"b\": "), (vec!["{\"a\": 1}".into()], 9, 0));
        assert_eq!(objects("rest of a line}\n{\"a\""), (vec![], 16, 0));
    }

    #[test]
    fn a_cut_line_loses_itself_only() {
        assert_eq!(objects("{\"a\": {\"b\n{\"c\": 1}\n"), (vec!["{\"c\": 1}".into()], 19, 1), "within a text");
        assert_eq!(objects("{\"a\": {\n{\"c\": 1}\n"), (vec!["{\"c\": 1}".into()], 17, 1), "within an object");
        let long = format!("{{\"a\": \"{}\"}}\n{{\"c\": 1}}\n", "x".repeat(LONGEST));
        assert_eq!(objects(&long).0, ["{\"c\": 1}"]);
    }
}
