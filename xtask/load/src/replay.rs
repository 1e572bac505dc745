//! Recorded or simulated ports as series, from all directories with a `ports.csv.gz` at the same time.
//!
//! The recordings have a row per millisecond. They are stretched to a row per second, cumulative columns too, so that rates
//! stay the same.

use anyhow::{Context as _, Result, bail, ensure};
use flate2::read::GzDecoder;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;

/// Milliseconds of a recording become seconds.
const STRETCH: f64 = 1000.0;
/// Columns that identify a port.
const KEYS: [&str; 3] = ["tick_ns", "node", "port"];
/// Gauges, which are not scaled.
const GAUGES: [&str; 5] = ["q_bytes", "q_max_bytes", "sw_shared_bytes", "sw_shared_max_bytes", "speed_gbps"];

/// A part of the recordings.
#[derive(Default)]
pub struct Recorded {
    folders: Vec<Folder>,
}

/// One recording.
struct Folder {
    name: String,
    columns: Vec<String>,
    /// Node and port, in row order.
    ports: Vec<(String, String)>,
    /// Values by tick, port and column.
    ticks: Vec<Vec<f64>>,
}

impl Recorded {
    /// All recordings below `dir`, in `parts` parts of about the same size.
    ///
    /// # Errors
    /// When there is none, or one cannot be read.
    pub fn read(dir: &Path, parts: usize) -> Result<Vec<Self>> {
        let list = fs::read_dir(dir).with_context(|| format!("list recordings in {}", dir.display()))?;
        let mut paths: Vec<_> = list.filter_map(|e| Some(e.ok()?.path().join("ports.csv.gz"))).collect();
        paths.retain(|p| p.is_file());
        paths.sort();
        ensure!(!paths.is_empty(), "{} has no directory with a ports.csv.gz", dir.display());
        let mut out: Vec<Self> = (0..parts).map(|_| Self::default()).collect();
        for (i, path) in paths.iter().enumerate() {
            out[i % parts].folders.push(folder(path).with_context(|| format!("read {}", path.display()))?);
        }
        Ok(out)
    }

    /// Number of ticks that all recordings have.
    pub fn ticks(&self) -> usize {
        self.folders.iter().map(|f| f.ticks.len()).min().unwrap_or(0)
    }

    /// Labels of all series.
    pub fn series(&self) -> impl Iterator<Item = Vec<(String, String)>> {
        self.folders.iter().flat_map(|f| {
            f.ports.iter().flat_map(move |(node, port)| {
                f.columns.iter().map(move |column| {
                    let name = format!("fabric_recorded_{column}");
                    let pairs = [
                        ("__name__", name.as_str()),
                        ("device", "mlx5_0"),
                        ("host", node),
                        ("port", port),
                        ("run", &f.name),
                    ];
                    pairs.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec()
                })
            })
        })
    }

    /// Values of all series at a tick.
    pub fn values(&self, tick: usize) -> impl Iterator<Item = f64> {
        self.folders.iter().filter_map(move |f| f.ticks.get(tick)).flatten().copied()
    }
}

fn folder(path: &Path) -> Result<Folder> {
    let mut lines = BufReader::new(GzDecoder::new(File::open(path)?)).lines();
    let head = lines.next().context("it is empty")??;
    let head: Vec<&str> = head.split(',').collect();
    ensure!(head.starts_with(&KEYS), "its columns do not begin with {KEYS:?}");
    let name = path.parent().and_then(|p| p.file_name()).map(|n| n.to_string_lossy().into_owned());
    let columns: Vec<String> = head[KEYS.len()..].iter().map(|c| (*c).to_owned()).collect();
    let scales: Vec<f64> = columns.iter().map(|c| if GAUGES.contains(&c.as_str()) { 1.0 } else { STRETCH }).collect();
    let mut out = Folder { name: name.unwrap_or_default(), columns, ports: Vec::new(), ticks: Vec::new() };
    let mut last = String::new();
    for line in lines {
        let line = line?;
        let mut fields = line.split(',');
        let [Some(tick), Some(node), Some(port)] = [fields.next(), fields.next(), fields.next()] else {
            bail!("a line is too short: {line}");
        };
        if tick != last {
            last = tick.to_owned();
            out.ticks.push(Vec::new());
        }
        if out.ticks.len() == 1 {
            out.ports.push((node.to_owned(), port.to_owned()));
        }
        let row = out.ticks.last_mut().context("no tick")?;
        for (field, scale) in fields.zip(&scales) {
            row.push(field.parse::<f64>().with_context(|| format!("{field:?} is no number"))? * scale);
        }
    }
    let width = out.ports.len() * out.columns.len();
    ensure!(out.ticks.iter().all(|t| t.len() == width), "its ticks differ in length");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn write(dir: &Path, name: &str, text: &str) {
        let dir = dir.join(name);
        fs::create_dir_all(&dir).unwrap();
        let file = File::create(dir.join("ports.csv.gz")).unwrap();
        let mut gz = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        gz.write_all(text.as_bytes()).unwrap();
        gz.finish().unwrap();
    }

    #[test]
    fn counters_are_stretched_gauges_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let text = "tick_ns,node,port,tx_bytes,q_bytes\n1,0,1,10,5\n1,7,2,20,6\n2,0,1,11,7\n2,7,2,22,8\n";
        write(dir.path(), "a", text);
        write(dir.path(), "b", text);
        let parts = Recorded::read(dir.path(), 2).unwrap();
        assert_eq!(parts.iter().map(Recorded::ticks).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(parts[1].values(1).collect::<Vec<_>>(), [11_000.0, 7.0, 22_000.0, 8.0]);
        let series: Vec<_> = parts[1].series().collect();
        assert_eq!(series.len(), 4);
        let words = |i: usize| series[i].iter().map(|p| p.1.as_str()).collect::<Vec<_>>();
        assert_eq!(words(3), ["fabric_recorded_q_bytes", "mlx5_0", "7", "2", "b"]);
    }

    #[test]
    fn bad_recordings_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let why = |dir: &Path| format!("{:#}", Recorded::read(dir, 1).err().unwrap());
        assert!(why(dir.path()).contains("has no directory"), "{}", why(dir.path()));
        write(dir.path(), "a", "tick_ns,node,port,tx_bytes\n1,0,1,ten\n");
        assert!(why(dir.path()).contains("\"ten\" is no number"), "{}", why(dir.path()));
        write(dir.path(), "a", "tick_ns,node,port,tx_bytes\n1,0,1,1\n2,0,1\n");
        assert!(why(dir.path()).contains("differ in length"), "{}", why(dir.path()));
    }
}
