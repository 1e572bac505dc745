//! Texts with variables: `{user}` is replaced, any other brace stands for itself, so that JSON needs no escaping.

use fabriclens_base::nearest;

/// Longest template, bytes.
const BYTES: usize = 16 << 10;

/// A checked text with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(&'static str),
}

impl Template {
    /// Parses a template whose variables are `known`.
    ///
    /// # Errors
    /// A message that names the unknown variable, or says that the text is too long.
    pub fn parse(text: &str, known: &'static [&'static str]) -> Result<Self, String> {
        if text.len() > BYTES {
            return Err(format!("{} bytes are too many; at most {BYTES}", text.len()));
        }
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            plain.push_str(before);
            let name = after.split_once('}').map(|(name, _)| name).filter(|name| is_name(name));
            let Some(name) = name else {
                plain.push('{');
                rest = after;
                continue;
            };
            let Some(variable) = known.iter().find(|variable| **variable == name) else {
                let hint = nearest(name, known.iter().copied()).map(|near| format!("did you mean {{{near}}}? "));
                let all = known.iter().map(|known| format!("{{{known}}}")).collect::<Vec<_>>().join(" ");
                return Err(format!("unknown variable {{{name}}}; {}there are {all}", hint.unwrap_or_default()));
            };
            parts.extend([Part::Text(std::mem::take(&mut plain)), Part::Variable(variable)]);
            rest = &after[name.len() + 1..];
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        Ok(Self { parts })
    }

    /// The text with all variables replaced; `value` also escapes them for the place where the text goes.
    pub fn render(&self, value: impl Fn(&'static str) -> String) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Variable(name) => value(name),
        };
        self.parts.iter().map(part).collect()
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["user", "url"];

    #[test]
    fn variables_are_replaced_and_other_braces_stay() {
        let template = Template::parse("{\"text\": \"{user}: {url}\", \"a\": {}, \"b\": {1}}{", KNOWN).unwrap();
        let text = template.render(|name| format!("<{name}>"));
        assert_eq!(text, "{\"text\": \"<user>: <url>\", \"a\": {}, \"b\": {1}}{");
        // A value is not a template.
        assert_eq!(Template::parse("{user}", KNOWN).unwrap().render(|_| "{url}".to_owned()), "{url}");
    }

    #[test]
    fn unknown_variables_are_named() {
        let error = |text: &str| Template::parse(text, KNOWN).unwrap_err();
        assert_eq!(error("{usr}"), "unknown variable {usr}; did you mean {user}? there are {user} {url}");
        assert!(error(&"x".repeat(BYTES + 1)).contains("at most 16384"));
    }
}
