//! Judges the recordings of a set again and again with other thresholds.

use super::ground_truth::Truth;
use super::score::{Answer, Tally};
use super::sets::{Judge, Set};
use super::{ask, degrade, modes};
use anyhow::{Context, Result, anyhow, ensure};
use std::path::{Path, PathBuf};

/// Page that lists all thresholds; a test of the detectors keeps it current.
const PAGE: &str = "docs/verdicts.md";

/// A threshold and its default.
pub struct Number {
    /// Name, as `--threshold` takes it.
    pub name: String,
    /// Default.
    pub default: f64,
}

impl Number {
    /// The first threshold of each detector, which decides whether it looks any further.
    ///
    /// # Errors
    /// When the page that lists them cannot be read, or lists none.
    pub fn main() -> Result<Vec<Self>> {
        let page = std::fs::read_to_string(crate::steps::root().join(PAGE)).with_context(|| format!("read {PAGE}"))?;
        let mut found: Vec<Self> = Vec::new();
        for line in page.lines() {
            let mut cells = line.trim_start_matches("| `").split(" | ");
            let (Some(name), Some(Ok(default))) = (cells.next(), cells.next().map(str::parse)) else { continue };
            let Some((name, detector)) = name.strip_suffix('`').and_then(|n| Some((n, n.split_once('.')?.0))) else {
                continue;
            };
            if !found.iter().any(|number| number.name.split('.').next() == Some(detector)) {
                found.push(Self { name: name.to_owned(), default });
            }
        }
        ensure!(!found.is_empty(), "{PAGE} lists no numbers; is its table still there?");
        Ok(found)
    }

    /// Flags of a back-test with this threshold multiplied.
    pub fn times(&self, factor: f64) -> [String; 2] {
        ["--threshold".to_owned(), format!("{}={}", self.name, self.default * factor)]
    }
}

/// Recordings of a set, read completely, each copied without its truth.
pub struct Trials<'a> {
    program: &'a Path,
    set: &'a Set,
    work: &'a Path,
    runs: Vec<Run>,
}

/// What was said of a recording with some thresholds.
#[derive(Clone)]
pub struct Judged {
    /// Its score.
    pub tally: Tally,
    /// Thresholds that were read; `None` if unknown.
    read: Option<Vec<String>>,
}

impl Judged {
    /// Whether another value of a threshold may change it.
    fn depends_on(&self, number: &Number) -> bool {
        self.read.as_ref().is_none_or(|read| read.contains(&number.name))
    }
}

/// A recording.
pub struct Run {
    dir: PathBuf,
    copy: PathBuf,
    truth: Truth,
    port_seconds: f64,
}

impl<'a> Trials<'a> {
    /// Copies the recordings to `work`, which is removed at the end.
    ///
    /// # Errors
    /// When a recording cannot be read or copied.
    pub fn new(program: &'a Path, set: &'a Set, dirs: &[PathBuf], work: &'a Path) -> Result<Self> {
        let run = |(at, dir): (usize, &PathBuf)| {
            let (truth, copy) = (Truth::read(dir, set.stretch())?, work.join(at.to_string()));
            let port_seconds = degrade::prepare(dir, &copy, &modes::ALL_PORTS, &truth)?.port_seconds;
            Ok(Run { dir: dir.clone(), copy, truth, port_seconds })
        };
        Ok(Self { program, set, work, runs: dirs.iter().enumerate().map(run).collect::<Result<_>>()? })
    }

    /// All recordings.
    pub fn all(&self) -> Vec<&Run> {
        self.runs.iter().collect()
    }

    /// Every other recording, from the first or the second on.
    pub fn half(&self, from: usize) -> Vec<&Run> {
        self.runs.iter().skip(from).step_by(2).collect()
    }

    /// Judges each of some recordings with these flags, on all cores.
    ///
    /// # Errors
    /// When a back-test fails.
    pub fn judge(&self, runs: &[&Run], flags: &[String]) -> Result<Vec<Judged>> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let part = runs.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let one = |part: &[&Run]| part.iter().map(|run| self.one(run, flags)).collect::<Result<Vec<_>>>();
            let parts: Vec<_> = runs.chunks(part).map(|part| scope.spawn(move || one(part))).collect();
            let mut all = Vec::new();
            for part in parts {
                all.extend(part.join().map_err(|_| anyhow!("a thread that judges has panicked"))??);
            }
            Ok(all)
        })
    }

    /// The same with one more threshold, of recordings whose results without it are known: only those that read it are judged.
    ///
    /// # Errors
    /// When a back-test fails.
    pub fn judge_with(
        &self,
        runs: &[&Run],
        known: &[Judged],
        (number, factor): (&Number, f64),
        flags: &[String],
    ) -> Result<Vec<Judged>> {
        let depends: Vec<usize> = (0..runs.len()).filter(|at| known[*at].depends_on(number)).collect();
        let again: Vec<&Run> = depends.iter().map(|at| runs[*at]).collect();
        let mut all = known.to_vec();
        for (at, judged) in depends.iter().zip(self.judge(&again, &[flags, &number.times(factor)].concat())?) {
            all[*at] = judged;
        }
        Ok(all)
    }

    fn one(&self, run: &Run, flags: &[String]) -> Result<Judged> {
        let mut tally = Tally::default();
        let answer: Answer = serde_json::from_value(ask(self.program, self.set, &run.copy, flags)?)?;
        match self.set.judge {
            Judge::Faults => _ = tally.add(&run.truth, &answer.incidents, 1, run.port_seconds),
            Judge::Life => _ = super::life::add(&mut tally, &run.dir, &run.truth, &answer.incidents, run.port_seconds)?,
        }
        Ok(Judged { tally, read: answer.thresholds_read })
    }
}

impl Drop for Trials<'_> {
    fn drop(&mut self) {
        std::fs::remove_dir_all(self.work).ok();
    }
}
