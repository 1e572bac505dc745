//! Alert on settings that the collector's audit finds wrong.

use super::Severity::Warning;
use super::{Alert, BY, fires, silent};

/// Rules on the findings of the audit, which are series of their own.
pub fn rules() -> Vec<Alert> {
    vec![setting_drift()]
}

fn setting_drift() -> Alert {
    Alert {
        name: "FabricSettingDrift",
        // Nobody suffers yet; an incident says when somebody does.
        severity: Warning,
        hold: "1m",
        expr: format!("max by ({BY}, setting, reason) (fabric_setting_drift{{severity=\"critical\"}}) == 1"),
        summary: "{{ $labels.host }} {{ $labels.device }}: {{ $labels.setting }} is not set as it should be",
        description: "The port is set unlike the site's baseline, the other end of its cable, most ports of its rail, or what \
                    other settings of the host demand (label reason). `fabriclens audit --host HOST` shows both values, why, \
                    and since when.",
        cases: vec![
            fires(
                "5m",
                &[r#"host="h1",device="mlx5_0",port="1",setting="pfc_priorities",reason="majority""#],
                &[(
                    r#"fabric_setting_drift{host="h1",device="mlx5_0",port="1",rail="0",setting="pfc_priorities",severity="critical",reason="majority"}"#,
                    "1x40",
                )],
            ),
            silent(
                "5m",
                &[(
                    r#"fabric_setting_drift{host="h1",device="mlx5_0",port="1",rail="0",setting="firmware",severity="info",reason="majority"}"#,
                    "1x40",
                )],
            ),
        ],
    }
}
