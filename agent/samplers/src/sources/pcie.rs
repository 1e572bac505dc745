//! PCIe path of a device: speed and width against their maximum, up the bridge chain, and AER counts.

use crate::pcie_link::{End, narrowest};
use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::discover::bridges;
use fabriclens_agent_host::sysfile::maybe;
use fabriclens_catalog::{CounterSource, metrics::pcie};
use fabriclens_wire::Value;
use std::path::PathBuf;
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
        if let Some(rate) = narrowest(now.into_iter().chain(above.iter().map(|(_, now, _)| *now))) {
            out.fact(&pcie::PCIE_RATE, &[], Value::Float(rate));
        }
        if let Some(rate) = narrowest(best.into_iter().chain(above.iter().filter_map(|(.., best)| *best))) {
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
