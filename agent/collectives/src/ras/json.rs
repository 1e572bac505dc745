//! Status in JSON, read as it arrives: a job of 10,000 ranks answers with tens of megabytes.
//!
//! The reader takes commas and colons for blanks, because NCCL 2.28 leaves out a comma exactly when ranks are missing.

use super::input::Input;
use super::{Limits, RasError};
use crate::model::{Communicator, CommunicatorId, Process, Rank, RankState, Snapshot};
use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;

/// Longest text that is kept, bytes.
const TEXT: usize = 256;
/// Deepest nesting.
const DEPTH: usize = 32;
/// Most operations of a communicator.
const OPERATIONS: usize = 32;
/// `ncclInProgress`: no error, still under way.
const IN_PROGRESS: u64 = 7;

/// Parses a status.
pub fn snapshot<R: Read>(input: &mut Input<R>, limits: &Limits) -> Result<Snapshot, RasError> {
    let mut parser = Parser { input, limits, names: HashSet::new(), ranks: 0 };
    if parser.blank()? != b'{' {
        return Err(parser.input.refusal().unwrap_or(RasError::Malformed("it does not begin with an object")));
    }
    let (mut found, mut communicators) = (Snapshot::default(), false);
    parser.open(b'{')?;
    while let Some(key) = parser.key()? {
        match &*key {
            "nccl_version" => found.version = parser.text()?.unwrap_or_default(),
            "communicators" => {
                communicators = true;
                parser.communicators(&mut found)?;
            }
            "ras" => found.timeouts = parser.timeouts()?,
            _ => parser.skip()?,
        }
    }
    if communicators { Ok(found) } else { Err(RasError::Malformed("it lists no communicators")) }
}

struct Parser<'a, R> {
    input: &'a mut Input<R>,
    limits: &'a Limits,
    /// Texts that many ranks share: hosts and operations.
    names: HashSet<Arc<str>>,
    /// Ranks kept so far.
    ranks: usize,
}

/// Fields of a rank in the order in which they arrive.
#[derive(Default)]
struct Fields {
    number: Option<u64>,
    host: String,
    pid: Option<u64>,
    cuda: Option<u64>,
    nvml: Option<u64>,
    init: u64,
    asynchronous: u64,
    finalizing: bool,
    aborted: bool,
    unresponsive: bool,
    dead: bool,
}

impl<R: Read> Parser<'_, R> {
    /// Skips blanks, commas and colons; returns the byte after them without taking it.
    fn blank(&mut self) -> Result<u8, RasError> {
        loop {
            match self.input.peek()?.ok_or(RasError::Cut)? {
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' => _ = self.input.next()?,
                other => return Ok(other),
            }
        }
    }

    /// Takes an opening bracket; skips any other value and returns false.
    fn open(&mut self, bracket: u8) -> Result<bool, RasError> {
        if self.blank()? == bracket {
            self.input.next()?;
            return Ok(true);
        }
        self.skip()?;
        Ok(false)
    }

    /// Next key of an object, or `None` after its end.
    fn key(&mut self) -> Result<Option<String>, RasError> {
        match self.blank()? {
            b'}' => {
                self.input.next()?;
                Ok(None)
            }
            b'"' => self.string().map(Some),
            _ => Err(RasError::Malformed("an object has no key where one is expected")),
        }
    }

    /// Whether an array has another item; takes its end.
    fn item(&mut self) -> Result<bool, RasError> {
        match self.blank()? {
            b']' => {
                self.input.next()?;
                Ok(false)
            }
            b'}' => Err(RasError::Malformed("an array ends as an object")),
            _ => Ok(true),
        }
    }

    /// Takes a string; what is beyond the longest text is dropped.
    fn string(&mut self) -> Result<String, RasError> {
        self.input.must()?;
        let mut text = Vec::new();
        loop {
            let byte = match self.input.must()? {
                b'"' => break,
                // Names and addresses need no escapes: the escaped character stands for itself.
                b'\\' => self.input.must()?,
                byte => byte,
            };
            if text.len() < TEXT {
                text.push(byte);
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Takes a text; any other value gives `None`.
    fn text(&mut self) -> Result<Option<String>, RasError> {
        if self.blank()? == b'"' {
            return self.string().map(Some);
        }
        self.skip()?;
        Ok(None)
    }

    /// Takes a word such as `17`, `-1`, `true`.
    fn word(&mut self) -> Result<String, RasError> {
        if matches!(self.blank()?, b'"' | b'{' | b'[') {
            self.skip()?;
            return Ok(String::new());
        }
        let mut word = String::new();
        while let Some(byte) = self.input.peek()? {
            if !(byte.is_ascii_alphanumeric() || b"+-._".contains(&byte)) {
                break;
            }
            self.input.next()?;
            if word.len() < TEXT {
                word.push(char::from(byte));
            }
        }
        if word.is_empty() { Err(RasError::Malformed("a value is missing")) } else { Ok(word) }
    }

    /// Takes a number from 0; any other value gives `None`.
    fn number(&mut self) -> Result<Option<u64>, RasError> {
        Ok(self.word()?.parse().ok())
    }

    fn boolean(&mut self) -> Result<bool, RasError> {
        Ok(self.word()? == "true")
    }

    /// Skips a value with all within it.
    fn skip(&mut self) -> Result<(), RasError> {
        let mut depth = 0_usize;
        loop {
            match self.blank()? {
                b'"' => _ = self.string()?,
                b'{' | b'[' => {
                    self.input.next()?;
                    depth += 1;
                    if depth > DEPTH {
                        return Err(RasError::Malformed("it is nested too deep"));
                    }
                    continue;
                }
                b'}' | b']' if depth > 0 => {
                    self.input.next()?;
                    depth -= 1;
                }
                _ => _ = self.word()?,
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }

    fn timeouts(&mut self) -> Result<u64, RasError> {
        let mut timeouts = 0;
        if self.open(b'{')? {
            while let Some(key) = self.key()? {
                match &*key {
                    "timeouts_count" => timeouts = self.number()?.unwrap_or(0),
                    _ => self.skip()?,
                }
            }
        }
        Ok(timeouts)
    }

    fn communicators(&mut self, found: &mut Snapshot) -> Result<(), RasError> {
        if !self.open(b'[')? {
            return Err(RasError::Malformed("its communicators are no list"));
        }
        while self.item()? {
            let before = self.ranks;
            let full = found.communicators.len() >= self.limits.communicators;
            let Some((communicator, listed)) = self.communicator(full)? else { continue };
            // A part of a communicator would look like missing ranks.
            if full || listed > communicator.ranks.len() {
                self.ranks = before;
                found.communicators_omitted += 1;
                found.ranks_omitted += listed as u64;
            } else {
                found.communicators.push(communicator);
            }
        }
        Ok(())
    }

    /// A communicator, and how many ranks it lists. Ranks beyond the limit, or all if it is `full`, are only counted.
    fn communicator(&mut self, full: bool) -> Result<Option<(Communicator, usize)>, RasError> {
        if !self.open(b'{')? {
            return Ok(None);
        }
        let id = CommunicatorId { hash: 0, secondary: 0 };
        let mut this = Communicator { id, size: 0, operations: Vec::new(), ranks: Vec::new() };
        let (mut listed, mut hash) = (0, None);
        while let Some(key) = self.key()? {
            match &*key {
                "hash" => hash = self.text()?.and_then(|text| hexadecimal(&text)),
                "secondary_hash" => this.id.secondary = self.text()?.map_or(0, |text| fnv(&text)),
                "size" => this.size = self.number()?.and_then(|size| u32::try_from(size).ok()).unwrap_or(0),
                "ranks" | "missing_ranks" => {
                    let missing = key == "missing_ranks";
                    if !self.open(b'[')? {
                        continue;
                    }
                    while self.item()? {
                        listed += 1;
                        let Some(rank) = self.rank(missing, &mut this.operations)? else { continue };
                        if !full && self.ranks < self.limits.ranks {
                            self.ranks += 1;
                            this.ranks.push(rank);
                        }
                    }
                }
                _ => self.skip()?,
            }
        }
        let Some(hash) = hash else { return Err(RasError::Malformed("a communicator has no hash")) };
        this.id.hash = hash;
        Ok(Some((this, listed)))
    }

    fn rank(&mut self, missing: bool, operations: &mut Vec<Arc<str>>) -> Result<Option<Rank>, RasError> {
        if !self.open(b'{')? {
            return Ok(None);
        }
        let (mut f, mut counts) = (Fields::default(), Vec::new());
        while let Some(key) = self.key()? {
            match &*key {
                "rank" => f.number = self.number()?,
                "host" => f.host = self.text()?.unwrap_or_default(),
                "pid" => f.pid = self.number()?,
                "cuda_dev" => f.cuda = self.number()?,
                "nvml_dev" => f.nvml = self.number()?,
                "status" => self.status(&mut f)?,
                "collective_counts" => self.counts(operations, &mut counts)?,
                _ => self.skip()?,
            }
        }
        let narrow = |wide: Option<u64>| wide.and_then(|wide| u32::try_from(wide).ok());
        let host = if f.host == "unknown" { self.name("") } else { self.name(&f.host) };
        let process = Process { host, pid: narrow(f.pid), gpu: narrow(f.nvml.or(f.cuda)) };
        counts.resize(operations.len(), None);
        Ok(Some(Rank { number: narrow(f.number), process, state: f.state(missing), counts: counts.into() }))
    }

    fn status(&mut self, f: &mut Fields) -> Result<(), RasError> {
        if !self.open(b'{')? {
            return Ok(());
        }
        while let Some(key) = self.key()? {
            match &*key {
                "init_state" => f.init = self.number()?.unwrap_or(u64::MAX),
                "async_error" => f.asynchronous = self.number()?.unwrap_or(u64::MAX),
                "finalize_called" | "destroy_flag" => f.finalizing |= self.boolean()?,
                "abort_flag" => f.aborted = self.boolean()?,
                "unresponsive" => f.unresponsive = self.boolean()?,
                "considered_dead" => f.dead = self.boolean()?,
                _ => self.skip()?,
            }
        }
        Ok(())
    }

    fn counts(&mut self, operations: &mut Vec<Arc<str>>, counts: &mut Vec<Option<u64>>) -> Result<(), RasError> {
        if !self.open(b'{')? {
            return Ok(());
        }
        while let Some(key) = self.key()? {
            let count = self.number()?;
            let at = match operations.iter().position(|known| **known == *key) {
                Some(at) => at,
                None if operations.len() < OPERATIONS && is_operation(&key) => {
                    operations.push(self.name(&key));
                    operations.len() - 1
                }
                None => continue,
            };
            if counts.len() <= at {
                counts.resize(at + 1, None);
            }
            counts[at] = count;
        }
        Ok(())
    }
}

impl Fields {
    fn state(&self, missing: bool) -> RankState {
        let failed = |code: u64| code != 0 && code != IN_PROGRESS;
        if self.dead {
            RankState::Dead
        } else if self.unresponsive {
            RankState::Unresponsive
        } else if missing {
            RankState::WithoutCommunicator
        } else if self.aborted {
            RankState::Aborted
        } else if failed(self.init) || failed(self.asynchronous) {
            RankState::Failed
        } else if self.finalizing {
            RankState::Finalizing
        } else if self.init == IN_PROGRESS {
            RankState::Initializing
        } else {
            RankState::Running
        }
    }
}

/// Whether a text may be the name of an operation, which becomes a label.
pub fn is_operation(name: &str) -> bool {
    !name.is_empty() && name.len() <= 32 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Number of `0x1f`, or of `1f`.
pub fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// FNV-1a of a text.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
