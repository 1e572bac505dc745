//! Every class matches how the kernel prints it, recorded lines have a class, and ordinary logs have none.

use super::*;
use fabriclens_catalog::kernel_log::LogSubject;
use fabriclens_testing::recordings;

/// Long after the start of the kernel.
const LATER: u64 = 86_400_000_000;

/// Lines as the kernel prints them, with what is taken from each: class, code, PCI address, name of the device, process.
const LINES: &[(&str, &str)] = &[
    (
        "mlx5_core 0000:41:00.0: poll_health:852:(pid 0): device's health compromised - reached miss count",
        "mlx5_health_lost - 0000:41:00.0 - -",
    ),
    (
        "mlx5_core 0000:41:00.0: poll_health:803:(pid 519): Fatal error 3 detected",
        "mlx5_fatal_error 3 0000:41:00.0 - -",
    ),
    (
        "mlx5_core 0000:41:00.1: health recovery flow aborted, PCI reads still not working",
        "mlx5_fatal_error - 0000:41:00.1 - -",
    ),
    (
        "mlx5_core 0000:41:00.0: print_health_info:458:(pid 0): synd 0x8: unrecoverable hardware error",
        "mlx5_hardware_error 0x8 0000:41:00.0 - -",
    ),
    (
        "mlx5_core 0000:41:00.0: print_health_info:421:(pid 0): synd 0x10: High temperature",
        "nic_overheated - 0000:41:00.0 - -",
    ),
    (
        "mlx5_core 0000:41:00.0: print_health_info:421:(pid 0): synd 0xff: unrecognized error",
        "mlx5_health_report 0xff 0000:41:00.0 - -",
    ),
    ("mlx5_core 0000:41:00.0: print_health_info:421:(pid 0): synd 0x0: unrecognized error", "none"),
    ("mlx5_core 0000:41:00.0: print_health_info:410:(pid 0): assert_var[0] 0x00000073", "none"),
    (
        "mlx5_core 0000:03:00.0: wait_func:964:(pid 112): ENABLE_HCA(0x104) timeout. Will cause a leak of a command resource",
        "mlx5_command_timeout 0x104 0000:03:00.0 - -",
    ),
    (
        "mlx5_core 0000:61:00.0: wait_func_handle_exec_timeout:1104:(pid 141183): cmd[22]: CREATE_DCT(0x710) No done completion",
        "mlx5_command_timeout 0x710 0000:61:00.0 - -",
    ),
    (
        "mlx5_cmd_out_err:838:(pid 1441871): ACCESS_REG(0x805) op_mod(0x1) failed, status bad resource(0x5), syndrome (0x305684), err(-22)",
        "mlx5_access_refused 0x805 - - -",
    ),
    (
        "mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot (27W).",
        "slot_power - 0000:5c:00.0 - -",
    ),
    (
        "mlx5_core 0000:3b:00.0: temp_warn:171:(pid 0): High temperature on sensors with bit set 0 8000000000000001",
        "nic_overheated - 0000:3b:00.0 - -",
    ),
    ("mlx5_core 0000:3b:00.0 ens1f0np0: TX timeout detected", "transmit_timeout - 0000:3b:00.0 ens1f0np0 -"),
    (
        "mlx5_core 0000:3b:00.0 ens1f0np0: NETDEV WATCHDOG: CPU: 3: transmit queue 17 timed out 15360 ms",
        "transmit_timeout - 0000:3b:00.0 ens1f0np0 -",
    ),
    ("NETDEV WATCHDOG: ens1f0np0 (mlx5_core): transmit queue 3 timed out", "transmit_timeout - - ens1f0np0 -"),
    ("mlx5_core 0000:3b:00.0 ens1f0np0: Link down", "link_lost - 0000:3b:00.0 ens1f0np0 -"),
    ("mlx4_en: ens2: Link Down", "link_lost - - ens2 -"),
    ("bnxt_en 0003:02:00.0 enP3p2s0f0np0: NIC Link is Down", "link_lost - 0003:02:00.0 enP3p2s0f0np0 -"),
    (
        "bnxt_en 0003:02:00.0 enP3p2s0f0np0 (unregistering): Error (timeout: 500015) msg {0x0 0x0} len:0",
        "bnxt_firmware_lost - 0003:02:00.0 enP3p2s0f0np0 -",
    ),
    (
        "bnxt_en 0003:02:00.0 enP3p2s0f0np0: Firmware fatal reset event, data1: 0x2, data2: 0x0, min wait 2000 ms, max wait 6000 ms",
        "bnxt_firmware_lost - 0003:02:00.0 enP3p2s0f0np0 -",
    ),
    (
        "bnxt_en 0003:02:00.0 enP3p2s0f0np0: Firmware non-fatal reset event received, max wait time 4000 msec",
        "bnxt_firmware_reset - 0003:02:00.0 enP3p2s0f0np0 -",
    ),
    ("infiniband bnxt_re0: Couldn't change QP1 state to INIT: -110", "bnxt_rdma_failed - - bnxt_re0 -"),
    ("bnxt_en 0003:02:00.0 bnxt_re0: Failed to destroy HW QP", "bnxt_rdma_command - 0003:02:00.0 bnxt_re0 -"),
    ("ionic 0000:24:00.0: FW heartbeat stalled at -1342169688", "ionic_firmware_lost - 0000:24:00.0 - -"),
    (
        "ionic 0000:24:00.0: DEVCMD IONIC_CMD_LIF_RESET (22) timeout after 10 secs",
        "ionic_command_timeout - 0000:24:00.0 - -",
    ),
    (
        "ice 0000:4b:00.0: Malicious Driver Detection event 11 on TX queue 3 PF# 0 VF# 0",
        "intel_adapter_fault - 0000:4b:00.0 - -",
    ),
    (
        "ice 0000:4b:00.0 rocep75s0: abnormal ae_id = 0x102 bool qp=1 qp_id = 12, ae_src=1",
        "irdma_queue_pair_error 0x102 0000:4b:00.0 rocep75s0 -",
    ),
    (
        "efa 0000:00:1d.0 rdmap0s29: Failed to process command CREATE_QP (opcode 1) comp_status 7 err -12",
        "admin_command - 0000:00:1d.0 rdmap0s29 -",
    ),
    (
        "infiniband rdmap0s29: The device didn't send any completion for admin cmd CREATE_QP(1) status 1",
        "admin_queue_stuck - - rdmap0s29 -",
    ),
    ("pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0", "none"),
    (
        "mlx5_core 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
        "pcie_fatal - 0000:3b:00.0 - -",
    ),
    (
        "mlx5_core 0000:3b:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Requester ID)",
        "pcie_uncorrected - 0000:3b:00.0 - -",
    ),
    (
        "mlx5_core 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        "pcie_corrected - 0000:3b:00.0 - -",
    ),
    ("pcieport 0000:3a:00.0: pciehp: Slot(14): Link Down", "pcie_link_lost - 0000:3a:00.0 - -"),
    (
        "nvidia 0000:05:00.0: Unable to change power state from D3cold to D0, device inaccessible",
        "pcie_device_lost - 0000:05:00.0 - -",
    ),
    (
        "mlx5_core 0001:43:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0001:42:01.0 (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)",
        "pcie_bandwidth - 0001:43:00.0 - -",
    ),
    (
        "DMAR: [DMA Write NO_PASID] Request device [3b:00.0] fault addr 0xffff0000 [fault reason 0x05] PTE Write access is not set",
        "iommu_fault - 0000:3b:00.0 - -",
    ),
    (
        "mlx5_core 0000:3b:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0011 address=0xfe000000 flags=0x0020]",
        "iommu_fault - 0000:3b:00.0 - -",
    ),
    (
        "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "gpu_lost 79 0000:05:00.0 - -",
    ),
    ("NVRM: GPU 0000:05:00.0: GPU has fallen off the bus.", "gpu_lost - 0000:05:00.0 - -"),
    (
        "NVRM: The NVIDIA GPU 0000:05:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the bus and is not responding to commands.",
        "gpu_lost - 0000:05:00.0 - -",
    ),
    ("NVRM: system has fallen off the bus and is not responding to commands.", "gpu_lost - - - -"),
    (
        "NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU4 GSP!",
        "gpu_firmware 119 0000:9b:00.0 - -",
    ),
    (
        "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.",
        "gpu_memory_remapped 63 0000:10:1c.0 - -",
    ),
    (
        "NVRM: Xid (PCI:0018:01:00): 145, pid=876767, name=ray::WorkerDict, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2)",
        "nvlink_nonfatal 145 0018:01:00.0 - -",
    ),
    (
        "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6)",
        "nvlink_error 149 0009:01:00.0 - -",
    ),
    (
        "NVRM: Xid (PCI:0000:3b:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6(0x10000, 0x0)",
        "nvlink_error 74 0000:3b:00.0 - -",
    ),
    (
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=17, name=python, Ch 00000008, intr 10000000. MMU Fault",
        "gpu_program 31 0000:3b:00.0 - -",
    ),
    ("NVRM: Xid (PCI:0000:3b:00): 999, something new", "gpu_xid 999 0000:3b:00.0 - -"),
    (
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
        "nvswitch_error 12028 0000:c1:00.0 - -",
    ),
    (
        "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 30 sourcetrack timeout error",
        "nvswitch_fatal 24007 0000:c3:00.0 - -",
    ),
    ("amdgpu 0000:43:00.0: amdgpu: GPU reset begin!", "gpu_reset - 0000:43:00.0 - -"),
    (
        "amdgpu 0000:43:00.0: amdgpu: 1 uncorrectable hardware errors detected in umc block",
        "gpu_memory - 0000:43:00.0 - -",
    ),
    ("Out of memory: Killed process 12345 (python) total-vm:1kB, anon-rss:1kB, UID:1000", "out_of_memory - - - 12345"),
    ("INFO: task a:b:c:77 blocked for more than 120 seconds.", "hung_task - - - 77"),
    ("watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [mlx5_comp3:1234]", "cpu_stuck - - - -"),
    (
        "pt_main_thread[2536443]: segfault at 7f797fe00000 ip 00007f7c7ac69996 sp 00007f7c12fd7c30 error 4 in libnccl.so.2[7f7c7ac00000+d3d3000]",
        "process_crash - - - 2536443",
    ),
    (
        "mlx5_core 0000:01:00.0: mlx5_pcie_event:295: Detected insufficient power on the PCIe slot (27W).",
        "slot_power - 0000:01:00.0 - -",
    ),
    (
        "mlx5_core 0000:01:00.0: probe_one:1700:(pid 7): mlx5_init_one failed with error code -110",
        "mlx5_not_started - 0000:01:00.0 - -",
    ),
    ("infiniband mlx5_0: dump_cqe:272:(pid 0): dump error cqe", "mlx5_error_completion - - mlx5_0 -"),
    ("ib0: transmit timeout: latency 1024 msecs", "transmit_timeout - - ib0 -"),
    ("NVRM: Xid (0000:03:00): 79, GPU has fallen off the bus.", "gpu_lost 79 0000:03:00.0 - -"),
    ("nvidia-nvswitch1 SXid (PCI:0000:06:00.0): 20009, Non-fatal, Link 04", "nvswitch_error 20009 0000:06:00.0 - -"),
    (
        "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=1, emitted seq=3",
        "gpu_reset - - - -",
    ),
    ("mce: CPU17: Core temperature above threshold, cpu clock throttled (total events = 1)", "cpu_throttled - - - -"),
    ("mlx5_core 0000:41:00.0: mlx5_0: Port: 1 Link DOWN", "link_lost - 0000:41:00.0 - -"),
    ("mlx5_core 0000:41:00.0 mlx5_0: Port: 1 Link DOWN", "link_lost - 0000:41:00.0 mlx5_0 -"),
    ("pcieport 0000:3a:00.0: AER: device recovery failed", "pcie_not_recovered - 0000:3a:00.0 - -"),
    ("nvidia 0000:3b:00.0: AER: can't recover (no error_detected callback)", "pcie_not_recovered - 0000:3b:00.0 - -"),
    ("pcieport 0000:3a:00.0: AER: device recovery successful", "none"),
    ("{1}[Hardware Error]: event severity: recoverable", "memory_uncorrected - - - -"),
];

fn text(found: &Found<'_>) -> String {
    let pid = found.pid.map(|pid| pid.to_string());
    let fields = [found.code, found.pci.as_deref(), found.name, pid.as_deref()];
    let fields: Vec<&str> = fields.iter().map(|field| field.unwrap_or("-")).collect();
    format!("{} {}", found.class().name, fields.join(" "))
}

#[test]
fn lines_of_the_kernel_have_their_class() {
    for (line, expected) in LINES {
        assert_eq!(find(line, LATER).as_ref().map_or("none".to_owned(), text), *expected, "{line}");
    }
}

/// A line is made of each text of the table.
#[test]
fn each_text_leads_to_its_class() {
    for class in LOG_CLASSES {
        let code = class.codes.last().map_or(1_000_000, |(_, last)| *last).to_string();
        for text in class.texts {
            let text = text.replace("<code>", &code).replace("<n>", "12").replace("<pid>", "4711");
            let text = text.replace("<pci>", "0000:3b:00.0").replace("<netdev>", "eth0").replace('*', "some text");
            let lines = match class.printer {
                Printer::Driver(drivers) => drivers.iter().map(|driver| line(driver, &text)).collect(),
                Printer::AnyDriver => vec![line("nvme", &text)],
                Printer::Kernel => vec![text],
            };
            for line in lines {
                let found = find(&line, LATER).unwrap_or_else(|| panic!("{}: {line}", class.name));
                assert_eq!(found.class().name, class.name, "{line}");
                assert!(!class.normal_at_boot || find(&line, 1_000_000).is_none(), "{line}");
            }
        }
    }
}

fn line(driver: &str, text: &str) -> String {
    match driver {
        "infiniband" => format!("infiniband dev0: {text}"),
        "mlx4_en" => format!("mlx4_en: eth0: {text}"),
        _ => format!("{driver} 0000:3b:00.0: {text}"),
    }
}

/// A line of `dmesg`, as message and microseconds since boot.
fn of_dmesg(line: &str) -> (&str, u64) {
    let Some((time, message)) = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) else {
        return (line, LATER);
    };
    let seconds: f64 = time.trim().parse().unwrap_or(86_400.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds since boot")]
    (message, (seconds * 1e6) as u64)
}

#[test]
fn ordinary_log_has_no_fault() {
    let log = include_str!("ordinary.log");
    assert!(log.lines().count() > 150);
    for line in log.lines() {
        let (message, micros) = of_dmesg(line);
        assert_eq!(find(message, micros).as_ref().map(text), None, "{line}");
    }
}

#[test]
fn what_is_normal_at_boot_is_a_fault_later() {
    for (line, class) in [
        ("mlx5_core 0000:3b:00.0 ens1f0np0: Link down", "link_lost"),
        ("mlx5_core 0000:3b:00.0: Port module event: module 0, Cable unplugged", "module_unplugged"),
    ] {
        assert_eq!(find(line, 12_000_000), None, "{line}");
        assert_eq!(find(line, LATER).unwrap().class().name, class);
    }
}

/// A program can name itself, its control groups and its files as it likes.
#[test]
fn names_of_programs_make_no_fault_of_a_device() {
    for line in [
        "NVRM: Xid (PCI:[123]: segfault at 0 ip 0 sp 0 error 4 in x[0+1000]",
        "INFO: task mlx5_core 0000::12 blocked for more than 120 seconds.",
        "oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/user.slice/mlx5_core 0000:3b:00.0: Fatal error 3 detected,task=x,pid=1,uid=0",
        "traps: NVRM: Xid (PCI:[7] general protection fault ip:0 sp:0 error:0 in NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.[0+1]",
        "process 'NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.' started with executable stack",
        "x[9]: segfault at 0 ip 0 sp 0 error 4 in mlx5_core 0000:3b:00.0: Fatal error 3 detected[0+1000]",
        "mlx5_core 0000:[77]: segfault at 0 ip 0 sp 0 error 4",
    ] {
        let subject = find(line, LATER).map(|found| found.class().subject);
        assert!(matches!(subject, None | Some(LogSubject::Process)), "{line}: {subject:?}");
    }
}

#[test]
fn placeholders_and_stars() {
    let code =
        |pattern: &str, text: &str| matched(pattern, text).map(|fields| fields.code.unwrap_or_default().to_owned());
    assert_eq!(code("a <code> b", "a 12 b and more"), Some("12".into()));
    assert_eq!(code("a <code> b", "a 0x1F b"), Some("0x1F".into()));
    assert_eq!(code("a <code> b", "a 0x b"), None);
    assert_eq!(code("a <code> b", "a 123456789012345678 b"), None, "no number of a code");
    assert_eq!(code("*(<code>) failed", "X(1) y(0x2) z(3) failed"), Some("3".into()));
    assert_eq!(code("* x <code>", "é x 7"), Some("7".into()));
    assert_eq!(code("*", ""), Some(String::new()));
    assert_eq!(code("ab", "a"), None);
    let long = "a".repeat(8000);
    assert_eq!(code("*b*c", &long), None);
}

#[test]
fn addresses_are_completed() {
    let of = |text: &str| whole(text).unwrap_or_default();
    assert_eq!(
        [of("3b:00.0"), of("0000:3B:00"), of("0001:43:00.1"), of("3b")],
        ["0000:3b:00.0", "0000:3b:00.0", "0001:43:00.1", ""]
    );
}

/// Fields of a line of a CSV file.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().unwrap().push(c),
        }
    }
    fields
}

/// Longest part of a regular expression that is plain text.
fn plain(expression: &str) -> String {
    let parts = expression.replace("\\(", "\u{1}").replace("\\)", "\u{2}");
    let parts = parts.split(|c: char| "\\^$*+?()[]{}|.".contains(c));
    let longest = parts.max_by_key(|part| part.len()).unwrap_or_default();
    longest.replace('\u{1}', "(").replace('\u{2}', ")")
}

#[test]
#[ignore = "needs: recordings"]
fn recorded_lines_have_a_class() {
    let read = |path: &str| std::fs::read_to_string(recordings().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    // Rows that are no fault, or one only where a person pulled a cable.
    let patterns = read("gpu/kernel-log-patterns/patterns.csv");
    let rows: Vec<Vec<String>> = patterns.lines().skip(1).map(fields).collect();
    let harmless: Vec<String> =
        rows.iter().filter(|row| row[3].starts_with("info")).map(|row| plain(&row[0])).collect();
    assert!(rows.len() > 20 && !harmless.is_empty());
    let mut lines = read("gpu/kernel-log-patterns/lines.txt");
    lines.push_str(&read("gpu/xid-ml-engineering/xid-1.txt"));
    let (mut found, mut none) = (0, Vec::new());
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        if find(line, LATER).is_some() {
            found += 1;
        } else if !harmless.iter().any(|part| line.contains(part.as_str())) {
            none.push(line);
        }
    }
    assert!(found > 15 && none.is_empty(), "{found} found, not these:\n{}", none.join("\n"));

    // Records of the kernel, and the formats of dmesg: `[time] message` and `kern  :err   : time message`.
    let classes = |path: &str| {
        let log = read(path);
        let of = |line: &str| {
            let ends = [";", "+00:00 ", "] "];
            let message =
                ends.iter().find_map(|end| line.split_once(end).filter(|_| line.starts_with(['[', 'k', '6'])));
            Some(find(message.map_or(line, |(_, message)| message), LATER)?.class().name)
        };
        log.lines().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(classes("gpu/kmsg-xid-119/dmesg-with-xid-119.log"), ["gpu_firmware"; 6]);
    assert_eq!(classes("logs/gpud-kmsg-infiniband-peermem/kmsg.2.peermem.log"), ["gpudirect_lost"; 7]);
    assert_eq!(classes("logs/gpud-kmsg-infiniband-peermem/dmesg.peermem.log.0"), ["gpudirect_lost"; 7]);
    assert_eq!(classes("logs/gpud-kmsg-infiniband-peermem/dmesg.decode.iso.log"), ["process_crash"; 2]);
    assert_eq!(classes("config/mlnx_qos-firmware-dcbx-proxmox/dmesg_mlx5.txt"), ["pcie_bandwidth"]);
}
