//! The agent beside node_exporter: the same tree of 8 HCAs, one full sample a second each, in the same seconds.
//!
//! The tree is plain files, so kernel and firmware cost nothing for either; what is left is the programs' own cost.
//! node_exporter's ethtool collector asks the kernel by ioctl and finds none of the tree's netdevs: it adds no series.

use super::process::Process;
use crate::setup;
use crate::sim::fabric::Fabric;
use crate::sim::tree::HostTree;
use crate::steps::{cargo, must, root};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Options of `bench agent`.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds to measure
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

struct Figure {
    name: &'static str,
    counters_per_sample: usize,
    cpu_per_sample_us: f64,
    rss: u64,
    syscalls_per_sample: Option<f64>,
}

/// Builds, measures, prints ratios.
pub fn run(args: Args) -> Result<()> {
    if !setup::ensure(&setup::NODE_EXPORTER)? {
        bail!("no rival to measure against");
    }
    let strace = setup::ensure(&setup::STRACE)?;
    println!("building the agent (release: LTO takes minutes)");
    must(cargo(&["build", "--release", "--locked", "-p", "fabriclens-agent"]))?;
    let agent = root().join("target/release/fabriclens-agent");
    let dir = root().join("target/bench-agent");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    let dir = dir.canonicalize()?;
    let mut tree = HostTree::create(&dir, 0)?;
    let mut fabric = Fabric::new();
    fabric.step(0.1);
    tree.write(&fabric.nics)?;

    let address = |port: u16| format!("127.0.0.1:{port}");
    let run = |extra: &[(&str, &str)], port: u16| -> Result<(PathBuf, Vec<String>)> {
        let config = dir.join(format!("agent-{port}.toml"));
        std::fs::write(&config, extra.iter().map(|(k, v)| format!("{k} = {v}\n")).collect::<String>())?;
        let text = |p: &Path| p.display().to_string();
        Ok((
            agent.clone(),
            vec![
                "run".into(),
                "--root".into(),
                text(&dir),
                "--http".into(),
                address(port),
                "--config".into(),
                text(&config),
            ],
        ))
    };
    let rival: Vec<String> = [
        format!("--path.sysfs={}", dir.join("sys").display()),
        format!("--path.procfs={}", dir.join("proc").display()),
        format!("--web.listen-address={}", address(17412)),
        "--web.disable-exporter-metrics".into(),
        "--collector.disable-defaults".into(),
        "--collector.infiniband".into(),
        "--collector.netclass".into(),
        "--collector.ethtool".into(),
    ]
    .into();
    let (program, full) = run(&[("fast_interval", "\"off\"")], 17411)?;
    let (_, fast) = run(&[], 17413)?;
    let contenders: [(&'static str, &Path, &[String], u16, bool); 3] = [
        ("fabriclens-agent, 1 s", &program, &full, 17411, false),
        ("fabriclens-agent, 1 s + 100 ms", &program, &fast, 17413, false),
        ("node_exporter, scraped each 1 s", Path::new("/usr/bin/prometheus-node-exporter"), &rival, 17412, true),
    ];
    let mut figures = Vec::new();
    for (name, program, args_of, port, scraped) in contenders {
        println!("measuring {name} for {} s", args.seconds);
        figures.push(measure(name, program, args_of, port, scraped, Duration::from_secs(args.seconds), strace)?);
    }
    print(&figures);
    let size = std::fs::metadata(&agent)?.len();
    println!("\nbinary of the agent, unstripped: {:.1} MB", size as f64 / 1e6);
    let stripped = dir.join("stripped");
    if std::process::Command::new("strip").arg(&agent).arg("-o").arg(&stripped).status().is_ok_and(|s| s.success()) {
        println!("binary of the agent, stripped:   {:.1} MB", std::fs::metadata(stripped)?.len() as f64 / 1e6);
    }
    Ok(())
}

fn measure(
    name: &'static str,
    program: &Path,
    args: &[String],
    port: u16,
    scraped: bool,
    time: Duration,
    strace: bool,
) -> Result<Figure> {
    let process = Process::start(program, args)?;
    let url = format!("http://127.0.0.1:{port}/metrics");
    wait_for(&url)?;
    std::thread::sleep(Duration::from_secs(2)); // first sample binds names and opens files
    let counters = fabric_series(&scrape(&url)?);
    let (cpu, begin) = (process.cpu_ns()?, Instant::now());
    let mut samples = 0_u32;
    while begin.elapsed() < time {
        samples += 1;
        if scraped {
            scrape(&url)?;
        }
        std::thread::sleep((begin + Duration::from_secs(u64::from(samples))).saturating_duration_since(Instant::now()));
    }
    let cpu_us = (process.cpu_ns()? - cpu) as f64 / 1e3;
    let rss = process.rss()?;
    let syscalls_per_sample = if strace { count_syscalls(&process, &url, scraped)? } else { None };
    Ok(Figure {
        name,
        counters_per_sample: counters,
        cpu_per_sample_us: cpu_us / f64::from(samples),
        rss,
        syscalls_per_sample,
    })
}

/// Counts system calls over some samples, after the measurement: tracing slows the process down.
fn count_syscalls(process: &Process, url: &str, scraped: bool) -> Result<Option<f64>> {
    const SAMPLES: u64 = 5;
    let child = std::process::Command::new("timeout")
        .args(["-s", "INT", &SAMPLES.to_string(), "strace", "-f", "-c", "-S", "calls", "-p", &process.id().to_string()])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()?;
    if scraped {
        for _ in 0..SAMPLES {
            std::thread::sleep(Duration::from_millis(900));
            scrape(url)?;
        }
    }
    let text = String::from_utf8_lossy(&child.wait_with_output()?.stderr).into_owned();
    let total = text
        .lines()
        .rfind(|l| l.trim_end().ends_with("total"))
        .and_then(|l| l.split_whitespace().nth(3)?.parse::<f64>().ok());
    Ok(total.map(|t| t / SAMPLES as f64))
}

fn scrape(url: &str) -> Result<String> {
    Ok(ureq::get(url).call().with_context(|| format!("scrape {url}"))?.body_mut().read_to_string()?)
}

fn wait_for(url: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while scrape(url).is_err() {
        if Instant::now() > deadline {
            bail!("{url} does not answer");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Series read from the host; a program's series about itself do not count.
fn fabric_series(text: &str) -> usize {
    text.lines()
        .filter(|l| !l.starts_with('#') && !l.starts_with("fabriclens_") && !l.starts_with("node_scrape_"))
        .count()
}

fn print(figures: &[Figure]) {
    println!(
        "\n{:<34} {:>8} {:>12} {:>12} {:>9} {:>14}",
        "", "series", "CPU/sample", "CPU/series", "RSS", "calls/sample"
    );
    for f in figures {
        let calls = f.syscalls_per_sample.map_or("-".into(), |c| format!("{c:.0}"));
        let per = f.cpu_per_sample_us / f.counters_per_sample.max(1) as f64;
        println!(
            "{:<34} {:>8} {:>9.0} µs {:>9.2} µs {:>6.1} MB {calls:>14}",
            f.name,
            f.counters_per_sample,
            f.cpu_per_sample_us,
            per,
            f.rss as f64 / 1e6
        );
    }
    if let [ours, .., rival] = figures {
        let per = |f: &Figure| f.cpu_per_sample_us / f.counters_per_sample.max(1) as f64;
        let ratios: BTreeMap<_, _> = [
            ("CPU per series", per(ours) / per(rival)),
            ("CPU per sample", ours.cpu_per_sample_us / rival.cpu_per_sample_us),
            ("RSS", ours.rss as f64 / rival.rss as f64),
        ]
        .into();
        ratios.iter().for_each(|(what, ratio)| println!("{what}: {ratio:.3} of {}", rival.name));
    }
}
