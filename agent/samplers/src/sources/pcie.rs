//! PCIe path of a device: speed and width against their maximum, up the bridge chain, and AER counts.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::discover::bridges;
use fabriclens_agent_host::sysfile::maybe;
use fabriclens_catalog::{CounterSource, metrics::pcie};
use fabriclens_wire::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "pcie",
    source: CounterSource::Pci,
    period: Period::Slow,
    default: true,
    needs: "",
    applies: |target| target.port.is_none() && (target.device.is_some() || target.netdev.is_some()),
    open,
};

/// AER files; the lines of each are `NAME count`.
const AER: &[&str] = &["aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"];
/// Single-number files in the directory of the root port.
const ROOT: &[&str] =
    &["aer_rootport_total_err_cor", "aer_rootport_total_err_nonfatal", "aer_rootport_total_err_fatal"];

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let of_device = target.device.as_ref().and_then(|d| d.pci_dir.clone());
    let dir = of_device.or_else(|| target.netdev.as_ref().and_then(|n| n.pci_dir.clone()));
    let dir = dir.filter(|d| d.exists()).ok_or_else(|| SampleError::Absent("no PCI function below".into()))?;
    let mut opened = Pcie { bridges: bridges(&dir), dir, pairs: Vec::new() };
    let mut batch = Batch::default();
    opened.sample(&[], &mut batch)?;
    if batch.is_empty() {
        return Err(SampleError::Absent(format!("{}: tells neither speed nor errors", opened.dir.display())));
    }
    Ok(Box::new(opened))
}

struct Pcie {
    dir: PathBuf,
    /// Bridges from the root port down.
    bridges: Vec<PathBuf>,
    pairs: Vec<(Arc<str>, u64)>,
}

/// Speed and width of one end of a link; `None` if the kernel says "Unknown", 0 or 255 (virtual functions, guests).
#[derive(Debug, Clone, Copy, PartialEq)]
struct End {
    transfers: f64,
    lanes: u64,
}

impl Sampler for Pcie {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        if !self.dir.exists() {
            return Err(SampleError::Gone(format!("{}: PCI function is gone", self.dir.display())));
        }
        let (now, best) = (End::read(&self.dir, "current"), End::read(&self.dir, "max"));
        if let Some(end) = now {
            out.fact(&pcie::PCIE_SPEED, &[], Value::Float(end.transfers));
            out.fact(&pcie::PCIE_WIDTH, &[], Value::Int(end.lanes));
        }
        if let Some(end) = best {
            out.fact(&pcie::PCIE_SPEED_MAX, &[], Value::Float(end.transfers));
            out.fact(&pcie::PCIE_WIDTH_MAX, &[], Value::Int(end.lanes));
        }
        self.path(now, best, out);
        self.errors();
        out.set_pairs(&self.pairs);
        Ok(())
    }
}

impl Pcie {
    fn path(&self, now: Option<End>, best: Option<End>, out: &mut Batch) {
        let above: Vec<(&PathBuf, End, Option<End>)> = self
            .bridges
            .iter()
            .filter_map(|dir| Some((dir, End::read(dir, "current")?, End::read(dir, "max"))))
            .collect();
        let narrowest = |ends: &mut dyn Iterator<Item = End>| ends.map(|e| e.bytes()).min_by(f64::total_cmp);
        if let Some(rate) = narrowest(&mut now.into_iter().chain(above.iter().map(|(_, now, _)| *now))) {
            out.fact(&pcie::PCIE_RATE, &[], Value::Float(rate));
        }
        if let Some(rate) = narrowest(&mut best.into_iter().chain(above.iter().filter_map(|(.., best)| *best))) {
            out.fact(&pcie::PCIE_RATE_MAX, &[], Value::Float(rate));
        }
        let worst = above.iter().min_by(|a, b| a.1.bytes().total_cmp(&b.1.bytes()));
        if let Some((dir, now, best)) = worst {
            let address = dir.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
            let labels = [("bridge", &*address)];
            out.fact(&pcie::PCIE_BRIDGE_SPEED, &labels, Value::Float(now.transfers));
            out.fact(&pcie::PCIE_BRIDGE_WIDTH, &labels, Value::Int(now.lanes));
            out.fact_if(&pcie::PCIE_BRIDGE_SPEED_MAX, &labels, best.map(|b| Value::Float(b.transfers)));
            out.fact_if(&pcie::PCIE_BRIDGE_WIDTH_MAX, &labels, best.map(|b| Value::Int(b.lanes)));
        }
    }

    fn errors(&mut self) {
        self.pairs.clear();
        for file in AER {
            for line in maybe(&self.dir.join(file)).unwrap_or_default().lines() {
                let Some((name, count)) = line.trim().rsplit_once(' ') else { continue };
                if let Ok(count) = count.parse() {
                    self.pairs.push((format!("{file}/{}", name.trim()).into(), count));
                }
            }
        }
        let root = self.bridges.first();
        for file in ROOT {
            if let Some(count) = root.and_then(|dir| maybe(&dir.join(file))?.parse().ok()) {
                self.pairs.push(((*file).into(), count));
            }
        }
    }
}

impl End {
    fn read(dir: &Path, which: &str) -> Option<Self> {
        let speed = maybe(&dir.join(format!("{which}_link_speed")))?;
        let lanes = maybe(&dir.join(format!("{which}_link_width")))?.parse().ok()?;
        let (number, unit) = speed.split_once(' ')?;
        let giga: f64 = number.parse().ok()?;
        let sound = unit.starts_with("GT/s") && giga > 0.0 && (1..=64).contains(&lanes);
        sound.then_some(Self { transfers: giga * 1e9, lanes })
    }

    /// Bytes per second after line coding: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, 242 of 256 bytes above.
    fn bytes(self) -> f64 {
        let coding = match self.transfers {
            t if t <= 5e9 => 0.8,
            t if t <= 32e9 => 128.0 / 130.0,
            _ => 242.0 / 256.0,
        };
        self.transfers * self.lanes as f64 * coding / 8.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_ends_are_absent() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        for (speed, width, sound) in [
            ("32.0 GT/s PCIe", "16", true),
            ("Unknown", "16", false),
            ("16.0 GT/s PCIe", "255", false),
            ("8.0 GT/s PCIe", "0", false),
        ] {
            write("current_link_speed", speed);
            write("current_link_width", width);
            assert_eq!(End::read(dir.path(), "current").is_some(), sound, "{speed} x{width}");
        }
        assert!((End { transfers: 32e9, lanes: 16 }.bytes() - 63.0e9).abs() < 0.1e9);
    }
}
