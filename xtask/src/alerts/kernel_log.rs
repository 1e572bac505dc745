//! Alert on faults that only the kernel log of a host is sure to name.

use super::Severity::Critical;
use super::{Alert, fires, silent};

/// Rules on the agents' counts of the kernel log.
pub fn rules() -> Vec<Alert> {
    vec![kernel_fault()]
}

fn kernel_fault() -> Alert {
    let fatal = r#"fabric_kernel_log_events_total{severity="fatal"}"#;
    let by = "host, device, pci_address, class";
    Alert {
        name: "FabricKernelFault",
        severity: Critical,
        hold: "0s",
        expr: format!(
            "sum by ({by}) (increase({fatal}[1h])) > 0\nor\n\
             # A scraper may miss the 0 with which a series begins.\n\
             sum by ({by}) ({fatal} unless {fatal} offset 1h) > 0"
        ),
        summary: "{{ $labels.host }} {{ $labels.device }} {{ $labels.pci_address }}: {{ $labels.class }}",
        description: "The kernel says that this device is of no use until it is reset: dead firmware, a fatal PCIe error, a GPU \
                    that fell off the bus (label class). Its link may still be up and its counters clean. Drain the host.",
        cases: vec![
            fires(
                "30m",
                &[r#"host="h1",device="mlx5_0",pci_address="0000:3b:00.0",class="mlx5_health_lost""#],
                &[(
                    r#"fabric_kernel_log_events_total{host="h1",device="mlx5_0",pci_address="0000:3b:00.0",class="mlx5_health_lost",severity="fatal"}"#,
                    "0x60 1x200",
                )],
            ),
            // The first sample is 1; no device of the fabric.
            fires(
                "30m",
                &[r#"host="h1",pci_address="0000:05:00.0",class="gpu_lost""#],
                &[(
                    r#"fabric_kernel_log_events_total{host="h1",pci_address="0000:05:00.0",class="gpu_lost",code="79",severity="fatal"}"#,
                    "_x60 1x200",
                )],
            ),
            // Less severe; and long ago.
            silent(
                "30m",
                &[(
                    r#"fabric_kernel_log_events_total{host="h1",device="mlx5_0",class="mlx5_access_refused",severity="note"}"#,
                    "0+9x200",
                )],
            ),
            silent(
                "150m",
                &[(
                    r#"fabric_kernel_log_events_total{host="h1",device="mlx5_0",class="mlx5_health_lost",severity="fatal"}"#,
                    "0x10 1x200",
                )],
            )
            .every("1m"),
        ],
    }
}
