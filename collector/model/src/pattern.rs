//! The only place that compiles regular expressions. A short text can become gigabytes (`\pL{1000}{1000}`), so a
//! pattern is bounded before it is built, and charged to the budget of its query before its memory is allocated.

use crate::literals::Literals;
use crate::{Budget, ReadError, Unlimited};
use regex_automata::meta::{BuildError, Builder, Config, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::captures::Captures;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest pattern, bytes; those of dashboards have a few hundred.
pub const MAX_PATTERN: usize = 32 << 10;
/// Longest list of plain values (`a|b|c`), bytes: dashboards' variables may hold every host of a fleet.
pub const MAX_LITERALS: usize = 1 << 20;
/// Largest compiled pattern, bytes; 500 alternatives with a wildcard each take 700 KiB.
pub const MAX_COMPILED: usize = 1 << 20;
/// Most patterns of one request.
pub const MAX_PATTERNS: usize = 500;
/// Most groups of a pattern of `label_replace`.
pub const MAX_GROUPS: usize = 64;
/// Most Unicode classes of a pattern: each has up to 20 KiB until the pattern is compiled. Where case is ignored, up
/// to 6 ms as well.
const MAX_CLASSES: [usize; 2] = [1000, 100];

/// Sizes that are tried in turn, so that small patterns are charged little.
const SIZES: [usize; 3] = [16 << 10, 128 << 10, MAX_COMPILED];
/// Bytes needed only while compiling: tables of UTF-8, the syntax tree of a byte of text, a Unicode class.
const SCRATCH: usize = 512 << 10;
const SCRATCH_OF_BYTE: usize = 512;
const SCRATCH_OF_CLASS: usize = 24 << 10;
/// Characters of a pattern that error messages show.
const SHOWN: usize = 200;

/// A pattern that matches whole values.
#[derive(Clone, Debug)]
pub struct Pattern(Arc<Kind>);

#[derive(Debug)]
enum Kind {
    Literals(Literals),
    Regex(Regex),
}

impl Pattern {
    /// Whether the whole value matches.
    pub fn matches(&self, value: &str) -> bool {
        match &*self.0 {
            Kind::Literals(literals) => literals.contain(value),
            Kind::Regex(regex) => regex.is_match(value),
        }
    }

    /// Bytes of memory that it takes, without those of searches.
    pub fn memory(&self) -> usize {
        match &*self.0 {
            Kind::Literals(literals) => literals.memory(),
            Kind::Regex(regex) => regex.memory_usage(),
        }
    }
}

/// A pattern with groups, for replacements.
#[derive(Clone, Debug)]
pub struct GroupPattern(Regex);

impl GroupPattern {
    /// Matches a whole value.
    pub fn find<'v>(&self, value: &'v str) -> Option<Groups<'v>> {
        let mut groups = self.0.create_captures();
        self.0.captures(value, &mut groups);
        groups.is_match().then_some(Groups { groups, value })
    }
}

/// The groups of a value that matches a [`GroupPattern`].
#[derive(Debug)]
pub struct Groups<'v> {
    groups: Captures,
    value: &'v str,
}

impl Groups<'_> {
    /// Expands `$1` and `${name}` in a replacement.
    pub fn expand(&self, replacement: &str) -> String {
        let mut out = String::new();
        self.groups.interpolate_string_into(self.value, replacement, &mut out);
        out
    }
}

/// Why a pattern was refused. `Display` names the bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Syntax error.
    #[error("invalid regular expression {0:?}")]
    Invalid(String),
    /// Longer than [`MAX_PATTERN`], or than [`MAX_LITERALS`] for plain values.
    #[error(
        "a regular expression of {0} bytes is longer than {MAX_PATTERN} bytes; lists of plain values (a|b|c) may have {MAX_LITERALS}"
    )]
    Long(usize),
    /// Larger than [`MAX_COMPILED`].
    #[error(
        "the regular expression {0:?} is too complex (compiled, more than {MAX_COMPILED} bytes); simplify or split it"
    )]
    Large(String),
    /// Too many Unicode classes.
    #[error("the regular expression {text:?} has more than {most} Unicode classes; simplify or split it")]
    Classes {
        /// Beginning of the pattern.
        text: String,
        /// The limit.
        most: usize,
    },
    /// More than [`MAX_GROUPS`].
    #[error("the regular expression {0:?} has more than {MAX_GROUPS} groups; use (?:…) where no group is needed")]
    Groups(String),
    /// More than [`MAX_PATTERNS`].
    #[error("more than {MAX_PATTERNS} regular expressions; split the query")]
    Many,
    /// The budget is used up, or the query has ended.
    #[error("{0}")]
    Ended(ReadError),
}

/// Compiles the patterns of one request, each once.
#[derive(Debug)]
pub struct Patterns<'a> {
    budget: &'a dyn Budget,
    known: BTreeMap<String, Pattern>,
    compiled: usize,
    /// Bytes charged for compiling.
    scratch: usize,
}

impl Default for Patterns<'_> {
    fn default() -> Self {
        Self::new(&Unlimited)
    }
}

impl<'a> Patterns<'a> {
    /// Compiles within `budget`.
    pub fn new(budget: &'a dyn Budget) -> Self {
        Self { budget, known: BTreeMap::new(), compiled: 0, scratch: 0 }
    }

    /// Compiles a pattern that matches whole values. `.` matches newlines too, as in Prometheus 3.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn compile(&mut self, text: &str) -> Result<Pattern, PatternError> {
        if let Some(known) = self.known.get(text) {
            return Ok(known.clone());
        }
        self.count()?;
        let kind = match self.literals(text)? {
            Some(literals) => Kind::Literals(literals),
            None => Kind::Regex(self.regex(text, WhichCaptures::None, 0)?),
        };
        self.request(text.len())?;
        let pattern = Pattern(Arc::new(kind));
        self.known.insert(text.to_owned(), pattern.clone());
        Ok(pattern)
    }

    /// Compiles a pattern for replacements.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn with_groups(&mut self, text: &str) -> Result<GroupPattern, PatternError> {
        self.count()?;
        let groups = text.bytes().filter(|b| *b == b'(').count() - text.matches("(?:").count();
        if groups > MAX_GROUPS {
            return Err(PatternError::Groups(shown(text)));
        }
        self.regex(text, WhichCaptures::All, groups).map(GroupPattern)
    }

    fn count(&mut self) -> Result<(), PatternError> {
        self.budget.check().map_err(PatternError::Ended)?;
        self.compiled += 1;
        if self.compiled > MAX_PATTERNS { Err(PatternError::Many) } else { Ok(()) }
    }

    fn request(&self, bytes: usize) -> Result<(), PatternError> {
        self.budget.request(bytes).map_err(PatternError::Ended)
    }

    /// Budget of the request.
    pub fn budget(&self) -> &'a dyn Budget {
        self.budget
    }

    fn literals(&self, text: &str) -> Result<Option<Literals>, PatternError> {
        if text.len() > MAX_LITERALS {
            return Err(PatternError::Long(text.len()));
        }
        if !Literals::are(text) {
            return Ok(None);
        }
        self.request(Literals::size(text))?;
        Ok(Some(Literals::new(text)))
    }

    fn regex(&mut self, text: &str, groups: WhichCaptures, count: usize) -> Result<Regex, PatternError> {
        if text.len() > MAX_PATTERN {
            return Err(PatternError::Long(text.len()));
        }
        let (classes, most) = (unicode_classes(text), MAX_CLASSES[usize::from(ignores_case(text))]);
        if classes > most {
            return Err(PatternError::Classes { text: shown(text), most });
        }
        let mut charged = 0;
        for size in SIZES {
            // Two automata and their caches; a thread of execution has the ends of all groups.
            let held = size * (5 + count);
            self.budget.check().map_err(PatternError::Ended)?;
            self.request(held - charged)?;
            charged = held;
            let scratch = SCRATCH + text.len() * SCRATCH_OF_BYTE + classes * SCRATCH_OF_CLASS + 3 * size;
            self.request(scratch.saturating_sub(self.scratch))?;
            self.scratch = self.scratch.max(scratch);
            match build(text, size, groups) {
                Ok(regex) => return Ok(regex),
                Err(e) if e.size_limit().is_some() => {}
                Err(_) => return Err(PatternError::Invalid(shown(text))),
            }
        }
        Err(PatternError::Large(shown(text)))
    }
}

fn build(text: &str, size: usize, groups: WhichCaptures) -> Result<Regex, Box<BuildError>> {
    let config = Config::new()
        .nfa_size_limit(Some(size))
        .hybrid_cache_capacity(size)
        .which_captures(groups)
        .onepass(false)
        .dfa(false);
    Builder::new().configure(config).build(&format!("^(?s:{text})$")).map_err(Box::new)
}

/// Counts, rather too high, what the parser expands to a table of Unicode: `\p{…}`, `\w`, `[^…]`, wide ranges.
fn unicode_classes(text: &str) -> usize {
    let after = text.as_bytes().windows(2).filter(|pair| match pair[0] {
        b'\\' => b"pPwWdDsSxuU".contains(&pair[1]),
        b'[' | b':' => pair[1] == b'^',
        _ => false,
    });
    after.count() + text.chars().filter(|c| !c.is_ascii()).count()
}

/// Whether the pattern may contain a group of flags with `i`.
fn ignores_case(text: &str) -> bool {
    text.split('?').skip(1).any(|rest| {
        let flags = rest.bytes().take_while(|b| b.is_ascii_alphabetic() || *b == b'-').count();
        rest[..flags].contains('i') && rest[flags..].starts_with([':', ')'])
    })
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CancelToken, FixedBudget, TimedBudget};

    fn compile(text: &str) -> Result<Pattern, PatternError> {
        Patterns::default().compile(text)
    }

    #[test]
    fn patterns_are_bounded() {
        for fine in
            ["gpu-.*", r"\pL{5}", &vec!["gpu-0000.*"; 500].join("|"), &"gpu-0000|".repeat(100_000), "(?i)[a-z]+"]
        {
            assert!(compile(fine).is_ok(), "{fine:.40}");
        }
        for (text, error) in [
            ("(", "invalid regular expression \"(\""),
            (&"a.".repeat(MAX_PATTERN), "longer than 32768 bytes"),
            (&"a|".repeat(MAX_LITERALS), "longer than 32768 bytes"),
            (r"\pL{150}x", "too complex"),
            ("((((a{100}){100}){100}){100})", "too complex"),
            (&r"\pL".repeat(1001), "more than 1000 Unicode classes"),
            (&r"(?s-i:[\x{0}-\x{10FFFF}])".repeat(101), "more than 100 Unicode classes"),
            (&"é.".repeat(1001), "more than 1000 Unicode classes"),
        ] {
            let got = compile(text).unwrap_err().to_string();
            assert!(got.contains(error) && got.len() < 500, "{got}");
        }
        let mut patterns = Patterns::default();
        let got = patterns.with_groups(&"(a)".repeat(65)).unwrap_err();
        assert!(got.to_string().contains("more than 64 groups"), "{got}");
        assert!(patterns.with_groups(&"(?:a)".repeat(65)).is_ok());
    }

    #[test]
    fn patterns_of_a_request_are_counted_and_compiled_once() {
        let budget = FixedBudget::new(1 << 30);
        let mut patterns = Patterns::new(&budget);
        let first = patterns.compile("a.*").unwrap();
        for _ in 0..2 * MAX_PATTERNS {
            assert!(Arc::ptr_eq(&patterns.compile("a.*").unwrap().0, &first.0));
        }
        let all: Result<Vec<_>, _> = (0..MAX_PATTERNS).map(|n| patterns.compile(&n.to_string())).collect();
        assert_eq!(all.unwrap_err(), PatternError::Many);
    }

    #[test]
    fn patterns_are_charged_before_they_are_built() {
        let within = |bytes: usize, text: &str| Patterns::new(&FixedBudget::new(bytes)).compile(text).map(|_| ());
        let memory = Err(PatternError::Ended(ReadError::Memory));
        assert_eq!(within(1 << 20, "gpu-.*"), Ok(()));
        assert_eq!(within(1 << 20, r"\pL{5}"), memory);
        assert_eq!(within(1 << 20, &vec!["a"; 50_000].join("|")), Ok(()));
        assert_eq!(within(1 << 20, &vec!["a"; 400_000].join("|")), memory);
        let cancel = CancelToken::default();
        cancel.cancel();
        let budget = TimedBudget { memory: &Unlimited, cancel: &cancel, deadline: None };
        assert!(matches!(Patterns::new(&budget).compile("a"), Err(PatternError::Ended(ReadError::Canceled))));
    }

    #[test]
    fn replacements_expand_groups() {
        let expand =
            |pattern, value, to| Patterns::default().with_groups(pattern).unwrap().find(value).map(|g| g.expand(to));
        assert_eq!(expand("(.*)-(?P<n>[0-9]+)", "gpu-07", "${n}.$1 $3"), Some("07.gpu ".to_owned()));
        assert_eq!(expand("(.*)-x", "gpu-07", "$1"), None);
        assert_eq!(expand("g|gpu(-07)?", "gpu-07", "$1$$"), Some("-07$".to_owned()));
    }
}
