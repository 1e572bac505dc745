//! `systemctl` and `journalctl`. Where a page has a machine of its own, services really start and stop, by what stands in
//! their units; beside the demo's fleet only the command lines are read, since its collector has the ports.

use super::take;
use crate::steps::{command, must, root};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Set where services are the page's own.
pub const OWN: &str = "FABRICLENS_DOCS_SERVICES";
/// Where units are looked for; at last where they come from.
const UNITS: &[&str] = &["/etc/systemd/system", "/lib/systemd/system"];
/// How long a service may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn systemctl(args: &[&str]) -> Result<()> {
    let mut words = args.to_vec();
    let signal = take(&mut words, "-s").unwrap_or("TERM");
    let now = words.contains(&"--now");
    words.retain(|w| *w != "--now");
    let (verb, names) = words.split_first().context("what is systemctl to do?")?;
    ensure!(!names.is_empty(), "with which unit?");
    for name in names {
        let unit = Unit::read(name)?;
        if std::env::var_os(OWN).is_none() {
            known(verb)?;
            continue;
        }
        match *verb {
            "start" => unit.start()?,
            "stop" => unit.stop()?,
            "restart" => unit.stop().and_then(|()| unit.start())?,
            "enable" if now => unit.start()?,
            "disable" if now => unit.stop()?,
            "kill" => unit.signal(signal)?,
            "status" => ensure!(!unit.running()?.is_empty(), "{name} does not run"),
            other => known(other)?,
        }
    }
    Ok(())
}

fn known(verb: &str) -> Result<()> {
    ensure!(
        ["start", "stop", "restart", "enable", "disable", "kill", "status"].contains(&verb),
        "units here know no {verb}"
    );
    Ok(())
}

/// There is no journal: that there is such a unit is all.
pub fn journalctl(args: &[&str]) -> Result<()> {
    let mut args = args.to_vec();
    Unit::read(take(&mut args, "-u").context("of which unit?")?).map(drop)
}

struct Unit {
    name: String,
    text: String,
}

impl Unit {
    fn read(name: &str) -> Result<Self> {
        let file = format!("{name}.service");
        let from = root().join("deploy/systemd");
        let mut dirs = UNITS.iter().map(PathBuf::from).chain([from]);
        let path = dirs.find_map(|d| Some(d.join(&file)).filter(|p| p.exists()));
        let path = path.with_context(|| format!("no unit is called {name}"))?;
        Ok(Self { name: name.to_owned(), text: fs::read_to_string(path)? })
    }

    /// What stands behind a key, each time.
    fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
        let of = move |line: &'a str| Some(line.strip_prefix(key)?.strip_prefix('=')?.split(' ').collect());
        self.text.lines().filter_map(of)
    }

    fn start(&self) -> Result<()> {
        for name in self.all("StateDirectory").flatten() {
            // As systemd does for users that exist only meanwhile.
            let (private, link) = (format!("/var/lib/private/{name}"), format!("/var/lib/{name}"));
            fs::create_dir_all(&private)?;
            if !Path::new(&link).exists() {
                symlink(&private, &link)?;
            }
        }
        for name in self.all("RuntimeDirectory").flatten() {
            fs::create_dir_all(format!("/run/{name}"))?;
        }
        for line in self.all("ExecStartPre") {
            must(command(line[0], &line[1..]))?;
        }
        let line = self.all("ExecStart").next().context("nothing is started")?;
        let log = fs::File::create(format!("/mnt/{}.log", self.name))?;
        let mut service = command("setsid", &line);
        service.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        Ok(())
    }

    /// Its processes, whoever started them: program and command are the unit's.
    fn running(&self) -> Result<Vec<String>> {
        let line = self.all("ExecStart").next().context("nothing is started")?;
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let pid = entry?.file_name().to_string_lossy().into_owned();
            let said = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = said.split('\0');
            let program = words.next().unwrap_or_default().rsplit('/').next();
            if program == line[0].rsplit('/').next() && words.next() == line.get(1).copied() {
                found.push(pid);
            }
        }
        Ok(found)
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let running = self.running()?;
        ensure!(!running.is_empty(), "{} does not run", self.name);
        running.iter().try_for_each(|pid| must(command("kill", &["-s", signal, pid])))
    }

    fn stop(&self) -> Result<()> {
        let begin = Instant::now();
        if !self.running()?.is_empty() {
            self.signal("TERM")?;
        }
        while !self.running()?.is_empty() {
            if begin.elapsed() > PATIENCE {
                bail!("{} does not end", self.name);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}
