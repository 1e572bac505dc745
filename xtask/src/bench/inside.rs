//! What `bench agent` adds to its tree besides NICs: eight GPUs with NVLinks, and a kernel log that grows.

use crate::sim::layout::RAILS;
use crate::sim::tree::put;
use anyhow::Result;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

/// Configuration of an agent that reads neither.
pub const OFF: &str =
    "[samplers]\ngpu = false\ngpu_affinity = false\ngpudirect = false\nkernel_log = false\nnvml = false\n";
/// NVLinks of a GPU.
const LINKS: usize = 18;
/// Lines a second of the kernel log; one of them names a fault.
const LINES: usize = 100;

/// Adds the GPUs and an empty kernel log below a root.
///
/// # Errors
/// When a file cannot be written.
pub fn add(root: &Path) -> Result<()> {
    for rail in 0..RAILS {
        let gpu = root.join("sys/bus/pci/devices").join(address(rail));
        let files = [
            ("class", "0x030200"),
            ("vendor", "0x10de"),
            ("device", "0x2330"),
            ("numa_node", if rail < RAILS / 2 { "0" } else { "1" }),
            ("current_link_speed", "32.0 GT/s PCIe"),
            ("current_link_width", "16"),
            ("max_link_speed", "32.0 GT/s PCIe"),
            ("max_link_width", "16"),
        ];
        files.iter().try_for_each(|(file, text)| put(&gpu.join(file), text))?;
    }
    fs::create_dir_all(root.join("dev"))?;
    File::create(root.join("dev/kmsg"))?;
    put(&root.join("nvml/report.json"), &nvml().to_string())
}

fn address(rail: usize) -> String {
    format!("0000:{:02x}:00.0", 0x12 + 0x11 * rail)
}

/// A report of NVIDIA's driver, as recorded hosts have it.
fn nvml() -> Value {
    let link = |link| {
        json!({
            "link": link, "is_active": true, "speed": 25_000_000_000_u64, "transferred": [link * 1_000_000, link * 1_000_001],
            "errors": { "replay": 0, "recovery": 0, "crc": link % 2 },
        })
    };
    let gpu = |rail| {
        json!({
            "pci_address": address(rail), "name": "NVIDIA H100 80GB HBM3", "uuid": format!("GPU-{rail}"),
            "links": (0..LINKS).map(link).collect::<Vec<_>>(),
            "remapped": { "correctable": 0, "uncorrectable": 0, "is_pending": false, "has_failed": false },
        })
    };
    json!({ "driver": "550.54.15", "gpus": (0..RAILS).map(gpu).collect::<Vec<_>>() })
}

/// Appends what a second brings to the kernel log.
///
/// # Errors
/// When it cannot be written.
pub fn log(root: &Path) -> Result<()> {
    let mut log = File::options().append(true).open(root.join("dev/kmsg"))?;
    let first = log.metadata()?.len();
    let mut text = String::new();
    for line in 0..LINES as u64 {
        let said = match line {
            0 => "mlx5_core 0000:11:00.0: cmd_work_handler: temporary: 0x1 timed out",
            _ => "audit: type=1400 apparmor=\"ALLOWED\" operation=\"open\" profile=\"x\" name=\"/y\"",
        };
        // Numbers and times need only grow.
        text += &format!("6,{},{},-;{said}\n", first + line, (first + line) * 100);
    }
    log.write_all(text.as_bytes())?;
    Ok(())
}
