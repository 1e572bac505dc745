//! Series as switches and exporters send them.

use fabriclens_foreign::{Meaning, Source, Value, meaning, source_of, sources};

/// The canonical series with its labels, and the value.
fn read(source: &Source, name: &str, attributes: &[(&str, &str)], value: Value<'_>) -> (String, Option<f64>) {
    match meaning(source, name, attributes) {
        Meaning::Series(s) => {
            let mut labels: Vec<String> = s.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            labels.sort();
            let port = s.port.unwrap_or_else(|| "-".to_owned());
            (format!("{} {port} {}", s.metric.prometheus_name(), labels.join(",")), s.conversion.of(value))
        }
        Meaning::LeftOut(why) => (format!("left out: {why}"), None),
        Meaning::Unknown => ("unknown".to_owned(), None),
    }
}

#[test]
fn cumulus() {
    let of = |name: &str, attributes: &[(&str, &str)], value| {
        read(&sources::cumulus::SOURCE, name, attributes, Value::Number(value))
    };
    let port = ("interface", "swp5s1");
    for label in ["priority", "switch_priority", "sp", "prio"] {
        assert_eq!(
            of("nvswitch_interface_sp_rx_pause_duration", &[port, (label, "3"), ("site", "b")], 2e6),
            ("fabric_pfc_pause_seconds_total swp5s1 direction=receive,priority=3".to_owned(), Some(2.0)),
            "microseconds; labels of the operator are ignored"
        );
    }
    assert_eq!(of("nvswitch_interface_sp_rx_pause", &[port], 1.0).0, "unknown", "a priority is missing");
    assert_eq!(of("nvswitch_interface_oper_state", &[port], 1.0), ("fabric_port_up swp5s1 ".to_owned(), Some(1.0)));
    assert_eq!(of("nvswitch_interface_oper_state", &[port], 2.0).1, Some(0.0));
    assert_eq!(
        of("nvswitch_interface_oper_aggregate_speed", &[port], 4e11),
        ("fabric_port_rate_bytes_per_second swp5s1 ".to_owned(), Some(5e10))
    );
    assert_eq!(
        of("nvswitch_interface_tc_tx_ecn_marked_tc", &[port, ("tc", "3")], 7.0).0,
        "fabric_port_queue_ecn_marks_total swp5s1 traffic_class=3"
    );
    assert_eq!(
        of("nvswitch_interface_headroom_buffer_pg_watermark", &[port, ("pg", "0")], 9.0).0,
        "fabric_port_headroom_watermark_bytes swp5s1 priority_group=0"
    );
    assert_eq!(
        of("nvswitch_qos_trimmed_unicast_pkts_total", &[], 9.0).0,
        "fabric_switch_trimmed_total - outcome=all",
        "a real sum, which OTLP names with _total"
    );
    assert_eq!(
        of("nvswitch_platform_transceiver_voltage", &[("name", "transceiver33"), ("port", "33")], 3.25),
        ("fabric_module_supply_volts swp33 ".to_owned(), Some(3.25))
    );
    assert!(of("nvswitch_ar_congestion_changes_total", &[], 1.0).0.contains("not congestion"));
    assert!(of("nvswitch_histogram_interface_egress_buffer_bytes_bucket", &[port], 1.0).0.contains("histogram"));
    assert_eq!(of("nvswitch_interface_new_in_6_0", &[port], 1.0).0, "unknown");
}

#[test]
fn neighbors_of_cumulus() {
    let told = |attributes: &[(&str, &str)]| {
        let Meaning::Series(series) = meaning(&sources::cumulus::SOURCE, "nvswitch_lldp_neighbor_info", attributes)
        else {
            return String::new();
        };
        let labels: Vec<String> = series.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{} {}", series.port.unwrap(), labels.join(" "))
    };
    let switch = [("interface", "swp9"), ("system_name", "spine1"), ("port_id", "swp1"), ("port_id_type", "ifname")];
    assert_eq!(told(&switch), "swp9 neighbor=spine1 neighbor_port=swp1");
    let mac = [("port_id", "0c:42:a1:00:00:01"), ("port_id_type", "mac"), ("system_name", "gpu-01")];
    let host = [&mac[..], &[("interface", "swp1"), ("port_description", "ens1f0np0")]].concat();
    assert_eq!(told(&host), "swp1 neighbor=gpu-01 neighbor_port=ens1f0np0");
    assert_eq!(
        told(&[&mac[..], &[("interface", "swp1")]].concat()),
        "swp1 neighbor=gpu-01 neighbor_port=0c:42:a1:00:00:01"
    );
    assert_eq!(told(&[&mac[..], &[("interface", "eth0")]].concat()), "", "the management network");
    assert_eq!(told(&[("interface", "swp2"), ("port_id", "swp1")]), "", "a neighbor without a name");
}

#[test]
fn sonic_high_frequency_telemetry() {
    let of = |name: &str, object: &str, value| {
        read(&sources::sonic_hft::SOURCE, name, &[("object_name", object)], Value::Number(value))
    };
    assert_eq!(
        of("sai_counter_type_1_stat_141_ratio", "Ethernet16", 5e5),
        ("fabric_pfc_pause_seconds_total Ethernet16 direction=receive,priority=3".to_owned(), Some(0.5))
    );
    assert_eq!(
        of("sai_counter_type_1_stat_110_ratio", "Ethernet16", 5.0).0,
        "fabric_pfc_frames_total Ethernet16 direction=transmit,priority=3"
    );
    assert_eq!(
        of("sai_counter_type_21_stat_34_ratio", "Ethernet16|3", 5.0).0,
        "fabric_port_queue_ecn_marks_total Ethernet16 queue=3"
    );
    assert_eq!(of("sai_counter_type_21_stat_34_ratio", "Ethernet16", 5.0).0, "unknown", "a queue without its number");
    assert_eq!(
        of("sai_counter_type_26_stat_8", "Ethernet16|3", 5.0).0,
        "fabric_port_priority_group_discards_total Ethernet16 priority_group=3"
    );
    assert_eq!(
        of("sai_counter_type_24_stat_0", "ingress_lossless_pool", 5.0).0,
        "fabric_switch_buffer_bytes - pool=ingress_lossless_pool"
    );
    assert_eq!(of("sai_counter_type_536870915_stat_536870916", "Ethernet1", 1.0).0, "unknown", "a vendor's extension");
    assert_eq!(of("sai_counter_type_99_stat_1", "Ethernet1", 1.0).0, "unknown");
}

#[test]
fn exporters() {
    let of = |name: &str, attributes: &[(&str, &str)], value| {
        let source = source_of(name, attributes).expect("a known source");
        read(source, name, attributes, Value::Number(value))
    };
    let cable = |component| [("component", component), ("local_name", "switch1"), ("local_port", "2")];
    assert_eq!(
        of("infiniband_portrcvdata_total", &cable("switch"), 100.0),
        ("fabric_port_io_bytes_total 2 direction=receive".to_owned(), Some(400.0)),
        "words of four bytes"
    );
    assert!(of("infiniband_portrcvdata_total", &cable("ca"), 1.0).0.contains("its agent"));
    let treydock = [("guid", "0x506b4b03005c2740"), ("port", "1")];
    let wait = "infiniband_switch_port_transmit_wait_total";
    assert_eq!(of(wait, &treydock, 7.0), ("fabric_port_xmit_wait_ticks_total 1 ".to_owned(), Some(7.0)));
    assert_eq!(of(wait, &treydock, 4_294_967_295.0).1, None, "the counter stands still");
    assert_eq!(of("infiniband_switch_port_symbol_error_total", &treydock, 65_535.0).1, None);
    let snmp = [("ifIndex", "3"), ("ifName", "Ethernet3/1"), ("ifDescr", "x"), ("instance", "leaf1")];
    assert_eq!(
        of("ifHighSpeed", &snmp, 400_000.0),
        ("fabric_port_rate_bytes_per_second Ethernet3/1 ".to_owned(), Some(5e10))
    );
    assert_eq!([1.0, 2.0, 7.0].map(|state| of("ifOperStatus", &snmp, state).1), [1.0, 0.0, 0.0].map(Some));
    let device = [("device", "Ethernet0"), ("queue", "3"), ("instance", "leaf1:9101")];
    assert_eq!(
        of("sonic_queue_watermark_bytes_total", &device, 9.0).0,
        "fabric_port_queue_watermark_bytes Ethernet0 queue=3"
    );
    let power = [("device", "Ethernet0"), ("unit", "2")];
    assert_eq!(
        of("sonic_interface_optic_receive_power_dbm", &power, 0.0),
        ("fabric_module_receive_power_watts Ethernet0 lane=2".to_owned(), Some(0.001))
    );
}

#[test]
fn dcgm_by_old_and_new_names() {
    let gpu = [("gpu", "3"), ("Hostname", "gpu-07")];
    let of = |name: &str| {
        let source = source_of(name, &gpu[..]).expect("a known source");
        read(source, name, &gpu, Value::Number(8.0))
    };
    for name in ["DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL"] {
        let expected = "fabric_nvlink_errors_total - gpu=3,link=all,reason=replay".to_owned();
        assert_eq!(of(name), (expected, Some(8.0)), "{name}");
    }
    for name in ["DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"] {
        assert_eq!(of(name).0, "fabric_gpu_remapped_rows - gpu=3,reason=uncorrectable", "{name}");
    }
    assert_eq!(of("DCGM_FI_DEV_PCIE_LINK_WIDTH").0, "fabric_gpu_pcie_width - gpu=3");
    assert!(of("DCGM_FI_DEV_XID_ERROR").0.contains("not a count"));
    assert_eq!(of("DCGM_FI_DEV_GPU_UTIL").0, "unknown", "it stays as it is");
    assert!(source_of("DCGM_FI_DEV_GPU_UTIL", &[("pod", "x")][..]).is_none(), "not of a GPU");
}
