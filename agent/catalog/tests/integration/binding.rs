//! How vendor names bind: labels, spellings, link layers, precedence, sums, and that it is quick.

use std::collections::HashMap;
use std::time::Instant;

use LinkLayer::{Ethernet, InfiniBand};
use fabriclens_catalog::counters::FAMILIES;
use fabriclens_catalog::{BoundCounter, CounterSource, DriverFamily, LinkLayer, bind, is_fast};

fn family(driver: &str) -> Option<&'static DriverFamily> {
    Some(DriverFamily::for_driver(driver).unwrap_or_else(|| panic!("no family for {driver}")))
}

fn on(driver: &str, source: CounterSource, name: &str) -> BoundCounter {
    bind(family(driver), Ethernet, source, name).unwrap_or_else(|| panic!("{driver} {name} is unknown"))
}

fn shown(b: &BoundCounter) -> String {
    let labels: Vec<String> = b.labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
    format!("{}{{{}}}", b.metric.name, labels.join(","))
}

#[test]
fn the_same_question_is_the_same_series_on_every_vendor() {
    let asked = [
        (
            "fabric.pfc.pause{direction=receive,priority=3}",
            vec![
                ("mlx5_core", "rx_prio3_pause_duration"),
                ("mlx4_en", "rx_pause_duration_prio_3"),
                ("bnxt_en", "pfc_pri3_rx_duration_us"),
                ("ionic", "rx_pripause_3_1us_count"),
                ("hns3", "mac_rx_pfc_pri3_xoff_time"),
            ],
        ),
        (
            "fabric.pfc.frames{direction=transmit,priority=5}",
            vec![
                ("mlx5_core", "tx_prio5_pause"),
                ("bnxt_en", "tx_pfc_ena_frames_pri5"),
                ("ice", "tx_priority_5_xoff.nic"),
                ("i40e", "port.tx_priority_5_xoff_tx"),
                ("i40e", "port.tx_priority_5_xoff"),
                ("cxgb4", "tx_ppp5_frames        "),
            ],
        ),
        (
            "fabric.port.io{direction=receive}",
            vec![
                ("mlx5_core", "rx_bytes_phy"),
                ("bnxt_en", "rx_bytes"),
                ("ice", "rx_bytes.nic"),
                ("i40e", "port.rx_bytes"),
                ("ionic", "octets_rx_ok"),
                ("hns3", "mac_rx_total_oct_num"),
                ("cxgb4", " rx_octets_ok"),
            ],
        ),
    ];
    for (series, names) in asked {
        for (driver, name) in names {
            assert_eq!(shown(&on(driver, CounterSource::Ethtool, name)), series, "{driver} {name}");
        }
    }
    for (driver, name) in [
        ("mlx5_ib", "np_cnp_sent"),
        ("bnxt_re", "tx_cnp_pkts"),
        ("bnxt_re", "np_cnp_pkts"),
        ("bnxt_re", "np_cnp_sent"),
        ("irdma", "cnpSent"),
        ("ionic", "tx_rdma_cnp_pkts"),
        ("hns_roce", "tx_cnp_pkt"),
        ("mana", "sent_cnps"),
    ] {
        assert_eq!(
            shown(&on(driver, CounterSource::HwCounters, name)),
            "fabric.cnp.packets{direction=transmit}",
            "{driver} {name}"
        );
    }
}

#[test]
fn kernel_path_rdma_and_physical_port_are_three_questions() {
    assert_eq!(on("mlx5_core", CounterSource::Ethtool, "rx_bytes").metric.name, "fabric.netdev.io");
    assert_eq!(on("mlx5_core", CounterSource::Ethtool, "rx_bytes_phy").metric.name, "fabric.port.io");
    assert_eq!(on("mlx5_core", CounterSource::Ethtool, "rx_vport_rdma_unicast_bytes").metric.name, "fabric.rdma.io");
    assert_eq!(on("bnxt_re", CounterSource::HwCounters, "rx_bytes").metric.name, "fabric.rdma.io");
    assert_eq!(on("efa", CounterSource::NetStatistics, "rx_bytes").metric.name, "fabric.netdev.io");
}

#[test]
fn performance_management_files_mean_rdma_on_roce_and_the_port_on_infiniband() {
    let mlx5 = family("mlx5_core");
    let ib = bind(mlx5, InfiniBand, CounterSource::SysfsCounters, "port_rcv_data").unwrap();
    assert_eq!((shown(&ib).as_str(), ib.scale), ("fabric.port.io{direction=receive}", 4.0));
    let roce = bind(mlx5, Ethernet, CounterSource::SysfsCounters, "port_rcv_data").unwrap();
    assert_eq!((shown(&roce).as_str(), roce.scale), ("fabric.rdma.io{direction=receive}", 4.0));
    assert!(bind(mlx5, Ethernet, CounterSource::SysfsCounters, "symbol_error").is_none(), "says nothing on Ethernet");
    assert!(bind(mlx5, Ethernet, CounterSource::SysfsCounters, "port_xmit_wait").is_none());
    assert!(bind(mlx5, InfiniBand, CounterSource::Ethtool, "rx_bytes_phy").is_none(), "IPoIB has no Ethernet MAC");
    assert!(bind(mlx5, InfiniBand, CounterSource::Ethtool, "rx_bytes").is_some());
}

#[test]
fn xmit_wait_becomes_bytes_only_where_the_tick_is_known() {
    let mlx5 = bind(family("mlx5_core"), InfiniBand, CounterSource::SysfsCounters, "port_xmit_wait").unwrap();
    assert_eq!((mlx5.metric.name, mlx5.scale), ("fabric.port.xmit_wait", 8.0));
    let unknown = bind(family("mlx4_core"), InfiniBand, CounterSource::SysfsCounters, "port_xmit_wait").unwrap();
    assert_eq!((unknown.metric.name, unknown.scale), ("fabric.port.xmit_wait.ticks", 1.0));
    assert!(mlx5.counter.is_saturated(u64::from(u32::MAX)) && !mlx5.counter.is_saturated(u64::from(u32::MAX) - 1));
}

#[test]
fn dcb_counts_are_not_taken_where_they_are_frozen() {
    assert!(bind(family("mlx5_core"), Ethernet, CounterSource::Dcb, "ieee_pfc/requests[3]").is_none());
    let bnxt = on("bnxt_en", CounterSource::Dcb, "ieee_pfc/requests[3]");
    assert_eq!(shown(&bnxt), "fabric.pfc.frames{direction=transmit,priority=3}");
    assert!(bind(family("mlx5_core"), Ethernet, CounterSource::Dcb, "ieee_pfc/pfc_cap").is_some(), "configuration is");
}

#[test]
fn the_better_source_ranks_first() {
    let first = |better: &BoundCounter, other: &BoundCounter| {
        assert_eq!(shown(better), shown(other));
        assert!(better.rank < other.rank, "{} before {}", better.counter.name, other.counter.name);
    };
    first(
        &on("mlx5_core", CounterSource::NetStatistics, "rx_bytes"),
        &on("mlx5_core", CounterSource::Ethtool, "rx_bytes"),
    );
    first(
        &on("bnxt_en", CounterSource::Ethtool, "rx_pfc_ena_frames_pri3"),
        &on("bnxt_en", CounterSource::Dcb, "ieee_pfc/indications[3]"),
    );
    first(
        &on("mlx5_core", CounterSource::Ethtool, "rx_bytes_phy"),
        &on("mlx5_core", CounterSource::EthtoolStd, "eth-mac/OctetsReceivedOK"),
    );
    first(
        &on("mlx5_ib", CounterSource::HwCounters, "np_cnp_sent"),
        &on("mlx5_ib", CounterSource::HwCounters, "cc_tx_cnp_pkts"),
    );
    first(
        &on("mlx5_ib", CounterSource::HwCounters, "rdma_rx_bytes"),
        &on("mlx5_core", CounterSource::Ethtool, "rx_vport_rdma_unicast_bytes"),
    );
    // Both are right; the files can be read every 100 ms and `ethtool -S` cannot.
    first(
        &on("mlx5_core", CounterSource::SysfsCounters, "port_rcv_data"),
        &on("mlx5_core", CounterSource::Ethtool, "rx_vport_rdma_unicast_bytes"),
    );
    first(
        &on("bnxt_re", CounterSource::HwCounters, "rx_bytes"),
        &on("bnxt_re", CounterSource::SysfsCounters, "port_rcv_data"),
    );
    let mad = |name| bind(family("mlx5_ib"), InfiniBand, CounterSource::PmaMad, name).unwrap();
    first(&mad("PortCountersExtended/PortXmitData"), &mad("PortCounters/PortXmitData"));
    let sys = |name| bind(None, InfiniBand, CounterSource::SysfsCounters, name).unwrap();
    first(&sys("counters_ext/port_xmit_data_64"), &sys("port_xmit_data"));
}

#[test]
fn queues_add_up_and_never_become_labels() {
    let mut sums: HashMap<String, u64> = HashMap::new();
    for (name, value) in [("rx0_packets", 5), ("rx1_packets", 7), ("rx130_packets", 11)] {
        let b = on("mlx5_core", CounterSource::Ethtool, name);
        assert!(b.counter.adds, "{name}");
        *sums.entry(shown(&b)).or_default() += value;
    }
    assert_eq!(sums, HashMap::from([("fabric.netdev.ring.packets{direction=receive}".into(), 23)]));
    let overruns = bind(family("hfi1"), InfiniBand, CounterSource::HwCounters, "RcvHdrOvr159").unwrap();
    assert!(overruns.counter.adds && overruns.labels.is_empty());
}

#[test]
fn odd_spellings_bind() {
    let hfi1 = |name| bind(family("hfi1"), InfiniBand, CounterSource::HwCounters, name).map(|b| shown(&b));
    assert_eq!(hfi1("TxDropped,32"), hfi1("TxDropped"));
    assert_eq!(hfi1("XmitDscdVl2,32").as_deref(), Some("fabric.vl.discards{direction=transmit,vl=2}"));
    assert_eq!(hfi1("CceCsrParityErr").as_deref(), Some("fabric.device.errors{reason=cce_csr_parity_err}"));
    assert_eq!(
        shown(&on("irdma", CounterSource::HwCounters, "RNR received")),
        "fabric.rdma.rnr_naks{direction=receive}"
    );
    assert_eq!(
        shown(&on("bnxt_en", CounterSource::Ethtool, "[12]: rx_discards")),
        "fabric.netdev.ring.errors{direction=receive,reason=rx_discards}"
    );
    assert_eq!(
        shown(&on("mlx5_core", CounterSource::EthtoolStd, "rmon/hist_rx[65-127]")),
        "fabric.port.frames_by_size{direction=receive,size=127}"
    );
    assert_eq!(
        shown(&on("mlx5_core", CounterSource::EthtoolStd, "fec/corrected_blocks[2]")),
        "fabric.fec.lane.corrected.blocks{lane=2}"
    );
    let device_level =
        bind(family("efa"), LinkLayer::Unspecified, CounterSource::DeviceHwCounters, "rx_drops").unwrap();
    assert_eq!(shown(&device_level), "fabric.rdma.discards{direction=receive,reason=receive}");
}

#[test]
fn unknown_names_stay_unknown() {
    for name in [
        "",
        "   ",
        "rx_prio_pause",
        "rx_prioX_pause",
        "----Loopback----",
        "no_such_counter",
        "rx_prio3_pause_duration_x",
    ] {
        assert!(bind(family("mlx5_core"), Ethernet, CounterSource::Ethtool, name).is_none(), "{name:?}");
    }
    assert!(
        bind(None, Ethernet, CounterSource::Ethtool, "rx_prio3_pause").is_none(),
        "names of one vendor need its family"
    );
    assert!(DriverFamily::for_driver("e1000e").is_none());
}

#[test]
fn a_failed_reading_a_wrap_and_a_reset_are_told_apart() {
    let ionic = on("ionic", CounterSource::HwCounters, "tx_rdma_ucast_bytes").counter;
    assert!(!ionic.is_reading(u64::MAX) && ionic.is_reading(0));
    let queue = on("mlx5_ib", CounterSource::HwCounters, "out_of_sequence").counter;
    assert_eq!(queue.step(u64::from(u32::MAX) - 1, 3), Some(5), "32 bits wrap");
    let symbol = bind(None, InfiniBand, CounterSource::SysfsCounters, "symbol_error").unwrap().counter;
    assert_eq!(symbol.step(65_535, 0), None, "a saturating counter that fell was reset");
    assert_eq!(queue.step(1_000, 0), None, "too far for a wrap: the driver was reloaded");
    assert!(symbol.is_saturated(65_535));
    assert_eq!(on("mlx5_core", CounterSource::Ethtool, "rx_bytes_phy").counter.step(10, 4), None);
}

#[test]
fn congestion_samples_use_cheap_sources_only() {
    assert!(
        is_fast(family("mlx5_core"), CounterSource::HwCounters)
            && is_fast(family("rdma_rxe"), CounterSource::HwCounters)
    );
    for family in FAMILIES {
        assert!(!is_fast(Some(family), CounterSource::Ethtool), "{}: ethtool -S takes RTNL", family.name);
        assert!(is_fast(Some(family), CounterSource::NetStatistics));
    }
    assert!(!is_fast(family("bnxt_en"), CounterSource::HwCounters), "refreshed once a second");
    let wait = bind(family("mlx5_core"), InfiniBand, CounterSource::SysfsCounters, "port_xmit_wait").unwrap();
    assert!(wait.metric.in_congestion_sample() && is_fast(family("mlx5_core"), CounterSource::SysfsCounters));
    assert!(on("mlx5_ib", CounterSource::HwCounters, "np_cnp_sent").metric.in_congestion_sample());
    assert!(!on("mlx5_ib", CounterSource::HwCounters, "out_of_sequence").metric.in_congestion_sample());
}

#[test]
fn families_are_found_by_driver_and_by_device() {
    for family in FAMILIES {
        for driver in family.drivers {
            assert!(std::ptr::eq(DriverFamily::for_driver(driver).unwrap(), *family), "{driver} names two families");
        }
        for prefix in family.prefixes {
            assert!(std::ptr::eq(DriverFamily::for_device(&format!("{prefix}0")).unwrap(), *family), "{prefix}");
        }
    }
    assert!(DriverFamily::for_device("rocep65s0f0").is_none(), "a persistent name tells nothing");
}

#[test]
fn binding_a_host_takes_milliseconds() {
    let names: Vec<String> = (0..700)
        .map(|i| match i % 4 {
            0 => format!("rx{i}_packets"),
            1 => format!("rx_prio{}_pause_duration", i % 8),
            2 => format!("unknown_{i}"),
            _ => "rx_vport_rdma_unicast_bytes".to_owned(),
        })
        .collect();
    let mlx5 = family("mlx5_core");
    let start = Instant::now();
    let bound = (0..8).flat_map(|_| &names).filter_map(|n| bind(mlx5, Ethernet, CounterSource::Ethtool, n)).count();
    assert_eq!(bound, 8 * 525);
    // Some 5 ms optimised; the bound leaves room for a debug build on a busy machine.
    assert!(start.elapsed().as_millis() < 1_000, "{:?} for 8 × 700 names", start.elapsed());
    println!("8 × 700 names: {:?}", start.elapsed());
}
