//! Reports of a stand-in for NVML that the test compiles: generations, drivers that lack functions, GPUs that are lost.
#![allow(clippy::disallowed_methods, reason = "a test may start the compiler")]

use fabriclens_kernel::live::nvml_report_by;
use fabriclens_kernel::nvml::{NvmlReport, RemappedRows};
use fabriclens_kernel::recorded::{RecordedKernel, path, write};
use fabriclens_kernel::{CallError, KernelCalls as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The stand-in of a generation, in a directory that lives as long as the test.
fn library(generation: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("libnvidia-ml.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_nvml/library.rs");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "fake_nvml", "-C", "panic=abort"]);
    let built =
        rustc.args(["--cfg", &format!("generation={generation:?}"), "-o"]).arg(&path).arg(source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    (dir, path)
}

fn report(generation: &str) -> Result<NvmlReport, CallError> {
    let (_dir, path) = library(generation);
    let report = nvml_report_by(&path);
    // The library is loaded already, so this is the same copy.
    // SAFETY: the stand-in has this function, without arguments.
    #[allow(unsafe_code, reason = "asks the stand-in")]
    let open = unsafe {
        let library = libloading::Library::new(&path).unwrap();
        let open: libloading::Symbol<'_, unsafe extern "C" fn() -> i32> = library.get(b"fakeOpen\0").unwrap();
        open()
    };
    assert_eq!(open, 0, "{generation}: NVML is shut down after each report");
    report
}

#[test]
fn hopper_counts_kibibytes_and_three_kinds_of_errors() {
    let report = report("hopper").unwrap();
    assert_eq!(report.driver.as_deref(), Some("570.86.15"));
    let addresses: Vec<&str> = report.gpus.iter().map(|gpu| &*gpu.pci_address).collect();
    assert_eq!(addresses, ["0000:19:00.0", "0000:9b:00.0"]);
    let gpu = &report.gpus[1];
    assert_eq!((gpu.name.as_deref(), gpu.uuid.as_deref()), (Some("NVIDIA H100 80GB HBM3"), Some("GPU-1")));
    let rows = RemappedRows { correctable: 1, uncorrectable: 0, is_pending: false, has_failed: false };
    assert_eq!((gpu.is_lost, gpu.remapped), (false, Some(rows)));
    assert_eq!(gpu.links.len(), 18, "only links that the GPU has");
    let link = &gpu.links[3];
    assert_eq!((link.is_active, link.speed), (true, Some(26_562_000_000)));
    assert_eq!(link.transferred, [Some(10 * 1024), Some(20 * 1024)]);
    let errors: Vec<(&str, u64)> = link.errors.iter().map(|(name, count)| (&**name, *count)).collect();
    assert_eq!(errors, [("crc", 3), ("recovery", 3), ("replay", 3)]);
    assert!(link.bit_error_ratios.is_empty());
    let unwired = &gpu.links[2];
    assert!(!unwired.is_active && unwired.speed.is_none() && unwired.errors.is_empty(), "absent, not zero");
    let domain = gpu.fabric.as_ref().unwrap();
    assert_eq!((domain.clique, domain.state, domain.health), (5, 3, None), "version 2 has no summary");
    assert_eq!(domain.cluster, "ab".repeat(16));
}

#[test]
fn blackwell_counts_bytes_and_bit_errors() {
    let report = report("blackwell").unwrap();
    let gpu = &report.gpus[0];
    let link = &gpu.links[17];
    assert_eq!(link.transferred, [Some(1 << 40); 2]);
    let names: Vec<&str> = link.errors.keys().map(|name| &**name).collect();
    let expected = [
        "buffer_overrun",
        "effective",
        "link_integrity",
        "link_recovery",
        "malformed_packet",
        "receive",
        "recovery_failed",
        "symbol",
        "transmit_discard",
    ];
    assert_eq!(names, expected);
    let ratios: Vec<&str> = link.bit_error_ratios.keys().map(|name| &**name).collect();
    assert_eq!(ratios, ["effective", "raw", "symbol"]);
    assert!((link.bit_error_ratios["raw"] / 5e-15 - 1.0).abs() < 1e-9, "{link:?}");
    let domain = gpu.fabric.as_ref().unwrap();
    assert_eq!(domain.health, Some(2));
    assert_eq!(domain.problems, ["degraded_bandwidth", "no_partition"]);
}

#[test]
fn what_is_not_supported_is_absent() {
    let report = report("pcie_board").unwrap();
    assert_eq!(report.gpus.len(), 2);
    for gpu in &report.gpus {
        assert!(gpu.links.is_empty() && gpu.fabric.is_none() && gpu.remapped.is_none() && !gpu.is_lost, "{gpu:?}");
    }
}

#[test]
fn a_lost_gpu_hides_no_other() {
    let report = report("lost").unwrap();
    let of: Vec<(bool, usize)> = report.gpus.iter().map(|gpu| (gpu.is_lost, gpu.links.len())).collect();
    assert_eq!(of, [(false, 18), (true, 0)]);
    assert_eq!(report.gpus[1].pci_address, "0000:9b:00.0");
}

#[test]
fn old_drivers_report_what_they_have() {
    let by_old = report("old").unwrap();
    assert!(by_old.gpus.iter().all(|gpu| gpu.name.is_some() && gpu.links.is_empty() && gpu.fabric.is_none()));
    for generation in ["ancient", "no_driver"] {
        let error = report(generation).unwrap_err();
        assert!(matches!(error, CallError::Unsupported { .. }), "{generation}: {error}");
    }
    let missing = nvml_report_by(Path::new("/nonexistent/libnvidia-ml.so.1")).unwrap_err();
    assert!(matches!(missing, CallError::Unsupported { .. }), "{missing}");
}

#[test]
fn reports_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let report = report("blackwell").unwrap();
    std::fs::create_dir(dir.path().join("nvml")).unwrap();
    std::fs::write(dir.path().join(path::nvml()), write::nvml(&report)).unwrap();
    let host = RecordedKernel::new(dir.path());
    assert_eq!(host.nvml().unwrap(), report);
    std::fs::write(dir.path().join(path::nvml()), "{\"gpus\": 7}").unwrap();
    assert!(matches!(host.nvml(), Err(CallError::Failed { .. })));
}
