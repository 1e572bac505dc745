//! Resources of a scenario: an image, a folder, a deadline, and the programs under test.

use super::Scenario;
use crate::lab::config::Config;
use crate::lab::image::{self, Image, cpio::Archive};
use crate::lab::switch::Switch;
use crate::lab::vm::Vm;
use anyhow::{Context, Result, ensure};
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Built programs. Every scenario needs the guest's, scenarios with an agent need the others.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// `fabriclens-guest`, static.
    pub guest: PathBuf,
    /// `fabriclens-agent` as hosts with rdma-core run it.
    pub agent: PathBuf,
    /// `fabriclens-agent`, static.
    pub agent_static: PathBuf,
    /// `fabriclens`.
    pub collector: PathBuf,
    /// `tests/lab/prober`, which probes without a collector.
    pub prober: PathBuf,
}

/// A guest image with the programs in it.
#[derive(Debug)]
pub struct Prepared {
    image: Image,
    initrd: PathBuf,
    programs: Programs,
}

/// Resources of one scenario.
#[derive(Debug)]
pub struct Lab {
    image: Image,
    initrd: PathBuf,
    /// Programs under test.
    pub programs: Programs,
    scenario: &'static str,
    folder: PathBuf,
    end: Instant,
    kept: Cell<bool>,
}

impl Lab {
    /// Builds the image and the module, unless they are cached.
    ///
    /// # Errors
    /// When the image or the fake HCA cannot be built.
    pub fn prepare(cache: &Path, programs: &Programs) -> Result<Prepared> {
        fs::create_dir_all(cache).with_context(|| format!("making {}", cache.display()))?;
        // Absolute, because make and the packages' programs run in other folders.
        let cache = &fs::canonicalize(cache).with_context(|| format!("finding {}", cache.display()))?;
        let image = image::build(cache)?;
        let module = image::fakehca::build(&image)?;
        let initrd = cache.join("initrd.cpio");
        let mut bytes = fs::read(&image.base)?;
        let mut archive = Archive::new(&mut bytes);
        archive.file("init", 0o755, &fs::read(&programs.guest).context("reading the guest's first program")?)?;
        archive.file("modules/fakehca.ko", 0o644, &fs::read(module)?)?;
        archive.finish()?;
        fs::write(&initrd, bytes)?;
        Ok(Prepared { image, initrd, programs: programs.clone() })
    }

    /// Starts guests in parallel and waits for all of them.
    ///
    /// # Errors
    /// When one does not come up in time.
    pub fn boot(&self, configs: &[Config]) -> Result<Vec<Vm>> {
        let start = Instant::now();
        let mut guests = configs
            .iter()
            .map(|config| Vm::spawn(&self.image, &self.initrd, &self.folder, config))
            .collect::<Result<Vec<_>>>()?;
        for guest in &mut guests {
            guest.wait(self.left()?)?;
        }
        let names: Vec<_> = guests.iter().map(|guest| guest.name.as_str()).collect();
        self.say(&format!("{} up after {:.1} s", names.join(" and "), start.elapsed().as_secs_f64()));
        Ok(guests)
    }

    /// Two guests `vm1` (10.77.0.1) and `vm2` with soft-RoCE devices `rxe0`, on ports 0 and 1 of a switch.
    ///
    /// # Errors
    /// When they do not come up or do not reach each other.
    pub fn rxe_pair(&self) -> Result<(Switch, Vm, Vm)> {
        let switch = Switch::new(&self.folder, 2)?;
        let config = |name, number: u8| Config::new(name, number, "rxe").on(switch.socket(usize::from(number) - 1));
        let mut guests = self.boot(&[config("vm1", 1), config("vm2", 2)])?.into_iter();
        let (one, two) = guests.next().zip(guests.next()).context("two guests")?;
        for guest in [&one, &two] {
            guest.sh("rdma link add rxe0 type rxe netdev fab0")?;
        }
        two.sh("ping -c 1 -W 5 10.77.0.1").context("the guests do not reach each other")?;
        Ok((switch, one, two))
    }

    /// Time left before the scenario's deadline.
    ///
    /// # Errors
    /// When the deadline has passed.
    pub fn left(&self) -> Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        ensure!(!left.is_zero(), "the scenario's deadline has passed");
        Ok(left)
    }

    /// Repeats `look` until it returns a value, or until `limit` or the scenario's deadline.
    ///
    /// # Errors
    /// With `what` and the last error of `look`.
    pub fn wait<T>(&self, what: &str, limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let end = Instant::now() + limit.min(self.left()?);
        let mut last = None;
        while Instant::now() < end {
            match look() {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(error) => last = Some(error),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let waited = format!("{what}: not within {limit:?}");
        Err(last.map_or_else(|| anyhow::anyhow!(waited.clone()), |error| error.context(waited.clone())))
    }

    /// Prints a line of progress, with the scenario's name, because another scenario may run at the same time.
    pub fn say(&self, line: &str) {
        println!("{}: {line}", self.scenario);
    }

    /// Folder for sockets, data and logs of this run.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps the folder for inspection.
    pub fn keep(&self) -> &Path {
        self.kept.set(true);
        &self.folder
    }

    /// Removes the folder.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn discard(self) -> Result<()> {
        fs::remove_dir_all(&self.folder).with_context(|| format!("removing {}", self.folder.display()))
    }
}

impl Prepared {
    /// Kernel release of the guests.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.image.release
    }

    /// Resources for one scenario.
    ///
    /// # Errors
    /// When its folder cannot be created.
    pub fn open(&self, scenario: &Scenario) -> Result<Lab> {
        // Short: the path of a unix socket has 108 bytes.
        let folder = tempfile::Builder::new().prefix("fl-").tempdir().context("making a folder")?.keep();
        Ok(Lab {
            image: self.image.clone(),
            initrd: self.initrd.clone(),
            programs: self.programs.clone(),
            scenario: scenario.name,
            folder,
            end: Instant::now() + scenario.limit,
            kept: Cell::new(false),
        })
    }
}
