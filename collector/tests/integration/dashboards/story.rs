//! Series of a small simulated fleet with every fault that dashboards and alerts show, within forty minutes. Names and labels of
//! the agents' series are checked against the catalog.

use std::collections::BTreeMap;

use fabriclens_catalog::{Metric, Scope, metrics};
use fabriclens_core::prompb::TimeSeries;

use crate::common::series;

/// Duration and sampling interval, in seconds.
pub const LASTS: i64 = 2400;
const EVERY: i64 = 15;
/// Bytes per second of a port.
const LINE: f64 = 50e9;

type Value = Box<dyn Fn(f64) -> Option<f64>>;

/// Series as functions of the time since the start.
pub struct Story {
    all: Vec<(Vec<(String, String)>, Value)>,
    catalog: BTreeMap<String, &'static Metric>,
}

/// Counter that grows at a rate between two times and is constant otherwise.
fn grows(rate: f64, from: f64, to: f64) -> impl Fn(f64) -> f64 + Copy {
    move |t| rate * (t.min(to) - from).max(0.0)
}

/// Time in seconds from which counters grow.
fn always(rate: f64) -> impl Fn(f64) -> f64 + Copy {
    move |t| rate * (t + 90_000.0)
}

impl Story {
    pub fn new() -> Self {
        let catalog = metrics::all().map(|m| (m.prometheus_name(), m)).collect();
        let mut story = Self { all: Vec::new(), catalog };
        for host in 0..8 {
            for device in 0..2 {
                story.roce(host, device);
            }
            story.host(&format!("h{host}"), host);
        }
        story.switch("leaf-a");
        story.infiniband("ib0", 6e9);
        story.infiniband("ib1", 0.0);
        story.agent_that_went();
        let refused = [("source", "otlp_grpc"), ("reason", "conflict")];
        story.put("fabriclens_ingest_rejected_total", &refused, |t| Some(grows(3.0, 2000.0, 1e9)(t)));
        let shed = [("source", "otlp_grpc"), ("rank", "late"), ("reason", "busy")];
        story.put("fabriclens_ingest_shed_total", &shed, |t| Some(grows(3.0, 2000.0, 1e9)(t)));
        let away = |t: f64| Some(if t > 2000.0 { 3.0 } else { 0.0 });
        story.put("fabriclens_ingest_senders_away", &[("host", "collector")], away);
        let doubted = [("node", "h6"), ("port", "mlx5_0/1"), ("reason", "leaps")];
        story.put("fabriclens_doubted_counters", &doubted, |t| (t > 1500.0).then_some(1.0));
        let wrong = [("setting", "pfc_priorities"), ("severity", "critical"), ("reason", "majority")];
        let wrong = [&[("host", "h1"), ("device", "mlx5_1"), ("port", "1"), ("rail", "1")][..], &wrong].concat();
        story.put("fabric_setting_drift", &wrong, |t| (t > 1500.0).then_some(1.0));
        story.job();
        story.incidents();
        story
    }

    /// Of an agent: the name is in the catalog, and so are the labels.
    fn agent(&mut self, name: &str, labels: &[(&str, &str)], value: impl Fn(f64) -> f64 + 'static) {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|s| name.strip_suffix(s));
        let metric = self.catalog.get(name).or_else(|| self.catalog.get(base?)).unwrap_or_else(|| panic!("no {name}"));
        let own: &[&str] = match metric.scope {
            Scope::Host => &["host"],
            Scope::Device => &["host", "device"],
            Scope::Port => &["host", "device", "port"],
        };
        for (label, _) in labels {
            let known = own.contains(label) || metric.labels.contains(label) || *label == "le";
            assert!(known, "{name} has no label {label}");
        }
        self.put(name, labels, move |t| Some(value(t)));
    }

    fn put(&mut self, name: &str, labels: &[(&str, &str)], value: impl Fn(f64) -> Option<f64> + 'static) {
        let name = std::iter::once(("__name__", name));
        let mut labels: Vec<_> =
            name.chain(labels.iter().copied()).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        labels.sort();
        self.all.push((labels, Box::new(value)));
    }

    /// A port of a host with eight NICs' worth of trouble among them: h2 storms, h0 and h1 are its victims, h3 is down, h5
    /// has errors, h6 a bad slot, h7 a link that flaps and one that trained down.
    fn roce(&mut self, host: usize, device: usize) {
        let (h, d) = (format!("h{host}"), format!("mlx5_{device}"));
        let port = [("host", h.as_str()), ("device", d.as_str()), ("port", "1")];
        let dev = &port[..2];
        let leaf = if host < 4 { "leaf-a" } else { "leaf-b" };
        let netdev = format!("ens{device}");
        let with = |more: &[(&'static str, &'static str)]| [&port[..], more].concat();
        let info = [
            &port[..],
            &[
                ("switch", leaf),
                ("switch_port", "Ethernet1"),
                ("netdev", &netdev),
                ("fabric", "roce"),
                ("driver", "mlx5_core"),
            ],
            &[("firmware", "28.41.1000"), ("model", "MT4129"), ("numa_node", "0")],
        ];
        self.agent("fabric_port_info", &info.concat(), |_| 1.0);
        let down = (host, device) == (3, 1);
        self.agent("fabric_port_up", &port, move |t| f64::from(u8::from(!(down && t > 2200.0))));
        let slow = (host, device) == (7, 1);
        self.agent(
            "fabric_port_rate_bytes_per_second",
            &port,
            move |t| if slow && t > 2000.0 { LINE / 2.0 } else { LINE },
        );
        self.agent("fabric_port_width", &port, |_| 4.0);
        let storm = host < 4 && device == 0;
        for direction in ["transmit", "receive"] {
            let dir = [("direction", direction)];
            let stopped = storm && host != 3;
            let io = move |rate: f64| {
                move |t: f64| always(rate)(t) - if stopped { grows(rate * 0.99, 1200.0, 1500.0)(t) } else { 0.0 }
            };
            self.agent("fabric_port_io_bytes_total", &with(&dir), io(20e9));
            self.agent("fabric_port_packets_total", &with(&dir), io(5e6));
            self.agent("fabric_port_io_peak_bytes_per_second", &with(&dir), |_| 45e9);
            // The RDMA traffic of h4 ends, and TCP replaces it.
            let rdma = move |t: f64| if host == 4 { always(20e9)(t.min(1500.0)) } else { always(20e9)(t) };
            self.agent("fabric_rdma_io_bytes_total", &with(&dir), rdma);
            let tcp = move |t: f64| always(1e6)(t) + if host == 4 { grows(4e9, 1500.0, 1e9)(t) } else { 0.0 };
            self.agent("fabric_netdev_io_bytes_total", &with(&dir), tcp);
            let cause = storm && host == 2 && direction == "transmit";
            let hit = storm && host < 2 && direction == "receive";
            // Apart from the storm, h6 is paused a little while it sends, without CNPs.
            let mute = host == 6 && direction == "receive";
            let lame = (host, device) == (2, 1) && direction == "transmit";
            let paused = move |t: f64| {
                let share = if cause {
                    0.99
                } else if hit {
                    0.6
                } else {
                    0.0
                };
                let always_so = if mute || lame { always(0.05)(t) } else { 0.0 };
                grows(share, 1200.0, 1500.0)(t) + always_so
            };
            let priority = with(&[("direction", direction), ("priority", "3")]);
            self.agent("fabric_pfc_pause_seconds_total", &priority, paused);
            self.agent("fabric_pfc_frames_total", &priority, move |t| paused(t) * 125_000.0);
            let cnp = move |t: f64| if mute { 7.0 } else { always(10.0)(t) };
            self.agent("fabric_cnp_packets_total", &with(&dir), cnp);
            self.agent(
                "fabric_port_discards_total",
                &with(&[dir[0], ("reason", "buffer")]),
                grows(if host == 0 { 3.0 } else { 0.0 }, 1200.0, 1e9),
            );
            self.agent("fabric_pcie_stall_seconds_total", &with(&dir), always(if host == 6 { 0.3 } else { 0.0 }));
            let bad = (host, device) == (5, 1);
            let errors = move |rate: f64| grows(if bad { rate } else { 0.0 }, 300.0, 1e9);
            self.agent("fabric_rdma_sequence_naks_total", &with(&dir), errors(9.0));
            if direction == "receive" {
                self.agent("fabric_link_crc_errors_total", &with(&dir), errors(1.0));
                self.agent("fabric_link_symbol_errors_total", &port, errors(4.0));
                self.agent("fabric_rdma_ack_timeouts_total", &port, errors(2.0));
                self.agent("fabric_rdma_out_of_sequence_total", &port, errors(9.0));
                self.agent("fabric_rdma_out_of_buffer_total", &port, errors(0.1));
                self.agent("fabric_fec_uncorrectable_blocks_total", &port, errors(0.2));
                self.agent("fabric_link_receive_errors_total", &port, errors(1.0));
                let worn = move |t: f64| always(900.0)(t) + if bad { grows(40_000.0, 0.0, 1e9)(t) } else { 0.0 };
                self.agent("fabric_fec_corrected_bits_total", &port, worn);
            }
        }
        self.agent("fabric_ecn_packets_total", &port, always(40.0));
        self.agent("fabric_cnp_ignored_total", &port, always(if host == 1 { 0.5 } else { 0.0 }));
        let role = with(&[("priority", "3"), ("role", "rp")]);
        self.agent("fabric_ecn_enabled", &role, move |_| f64::from(u8::from(host != 6)));
        self.agent("fabric_pfc_enabled", &with(&[("priority", "3")]), |_| 1.0);
        let warns = if (host, device) == (2, 0) { 2.0 } else { 0.0 };
        let reason = with(&[("direction", "transmit"), ("reason", "warning")]);
        self.agent("fabric_pause_storm_events_total", &reason, grows(warns, 1200.0, 1500.0));
        let flaps = (host, device) == (7, 0);
        self.agent("fabric_link_downs_total", &port, move |t| {
            let times = [1900.0, 2000.0, 2100.0, 2200.0].iter().filter(|at| flaps && t >= **at).count();
            1.0 + times as f64
        });
        for lane in ["1", "2"] {
            let labels = [&port[..], &[("lane", lane)]].concat();
            self.agent("fabric_module_receive_power_watts", &labels, move |_| if host == 5 { 6e-5 } else { 8e-4 });
        }
        self.agent("fabric_module_temperature_celsius", &port, move |_| if host == 5 { 74.0 } else { 52.0 });
        self.agent("fabric_pcie_rate_bytes_per_second", dev, move |_| if host == 6 { 31.5e9 } else { 63e9 });
        self.agent("fabric_pcie_rate_max_bytes_per_second", dev, |_| 63e9);
        // The firmware of an adapter of h6 dies.
        let died = [("class", "mlx5_health_lost"), ("pci_address", "0000:3b:00.0"), ("severity", "fatal")];
        self.agent("fabric_kernel_log_events_total", &[dev, &died].concat(), move |t| {
            f64::from(u8::from((host, device) == (6, 0) && t > 1500.0))
        });
        let severity = [dev, &[("severity", "correctable")]].concat();
        self.agent("fabric_pcie_aer_errors_all_total", &severity, always(if host == 6 { 0.1 } else { 0.0 }));
    }

    /// Series of a GPU of a host and of its nearest adapter.
    fn gpu(&mut self, h: &str, number: usize) {
        let (gpu, device) = (number.to_string(), format!("mlx5_{number}"));
        let own = [("host", h), ("gpu", gpu.as_str())];
        let pair = [&own[..], &[("device", device.as_str())]].concat();
        self.agent("fabric_gpu_info", &own, |_| 1.0);
        self.agent("fabric_gpu_nic_distance", &pair, |_| 10.0);
        self.agent("fabric_gpu_nic_nearest", &pair, |_| 1.0);
        self.agent("fabric_gpudirect_available", &[("host", h), ("device", &device), ("method", "dma_buf")], |_| 1.0);
        self.agent("fabric_gpu_pcie_width", &own, |_| 16.0);
        self.agent("fabric_gpu_pcie_width_max", &own, |_| 16.0);
        let link = [&own[..], &[("link", "0")]].concat();
        for direction in ["transmit", "receive"] {
            self.agent(
                "fabric_nvlink_io_bytes_total",
                &[&link[..], &[("direction", direction)]].concat(),
                always(2e10),
            );
        }
        self.agent("fabric_nvlink_errors_total", &[&link[..], &[("reason", "replay")]].concat(), always(0.1));
        self.agent("fabric_nvlink_down", &link, move |_| f64::from(u8::from(number == 1)));
    }

    /// Series of a host.
    fn host(&mut self, h: &str, n: usize) {
        let own = [("host", h)];
        let with = |more: &[(&'static str, &'static str)]| [&own[..], more].concat();
        (0..2).for_each(|gpu| self.gpu(h, gpu));
        self.agent("fabric_host_info", &with(&[("kernel", "6.8.0")]), |_| 1.0);
        self.agent("fabriclens_agent_start_time_seconds", &own, |_| 1.7e9);
        self.agent("fabriclens_agent_process_cpu_seconds_total", &own, always(0.01));
        self.agent("fabriclens_agent_process_memory_bytes", &own, |_| 2e7);
        self.agent("fabriclens_agent_uplink_latency_seconds", &own, |_| 0.004);
        self.agent(
            "fabriclens_agent_clock_steps_total",
            &own,
            move |t| if n == 1 { (t / 900.0).floor().max(0.0) } else { 0.0 },
        );
        let lost = move |on: usize, rate: f64| grows(if n == on { rate } else { 0.0 }, 2000.0, 1e9);
        self.agent("fabriclens_agent_ring_dropped_total", &with(&[("ring", "uplink")]), lost(3, 4.0));
        self.agent("fabriclens_agent_uplink_dropped_total", &with(&[("reason", "too_large")]), lost(3, 1.0));
        self.agent("fabriclens_agent_uplink_rejected_total", &own, lost(3, 1.0));
        self.agent("fabriclens_agent_uplink_waiting", &with(&[("place", "spool")]), lost(3, 9.0));
        self.agent("fabriclens_agent_uplink_unaccounted", &own, lost(3, 1.0));
        self.agent("fabriclens_agent_spool_failing", &own, lost(3, 1.0));
        self.agent(
            "fabriclens_agent_discontinuities_total",
            &with(&[("reason", "reset"), ("target", "mlx5_0")]),
            lost(2, 0.1),
        );
        let state = with(&[("sampler", "ethtool"), ("state", "error"), ("target", "ens0")]);
        self.agent("fabriclens_agent_sampler_state", &state, move |_| f64::from(u8::from(n == 0)));
        let far = [("destination", "rail"), ("netdev", "eno1")];
        for direction in ["transmit", "receive"] {
            let dir = ("direction", direction);
            let grow = if n == 4 { 4e9 } else { 0.0 };
            let io = move |t: f64| always(1e7)(t) + grows(grow, 1500.0, 1e9)(t);
            self.agent("fabric_tcp_io_bytes_total", &with(&[far[0], far[1], dir, ("cgroup", "/slurm/job_4711")]), io);
            self.agent("fabric_tcp_segments_total", &with(&[dir]), always(9000.0));
            self.agent(
                "fabric_tcp_window_closed_total",
                &with(&[far[0], far[1], dir, ("cgroup", "other")]),
                always(0.2),
            );
        }
        self.agent("fabric_tcp_retransmits_total", &own, always(3.0));
        self.agent("fabric_tcp_retransmit_segments_total", &with(&[far[0], far[1], ("kind", "fast")]), always(3.0));
        self.agent("fabric_ip_ecn_packets_total", &with(&[("mark", "ce")]), always(5.0));
        self.agent(
            "fabric_tcp_connection_failures_total",
            &with(&[far[0], far[1], ("reason", "timeout")]),
            always(0.01),
        );
        for (le, share) in [("0.00005", 0.3), ("0.0001", 0.8), ("0.001", 0.99), ("+Inf", 1.0)] {
            self.agent("fabric_tcp_rtt_seconds_bucket", &with(&[far[0], far[1], ("le", le)]), always(100.0 * share));
        }
    }

    /// A switch that pushes its counters. Its port to h2 is paused by the storm there.
    fn switch(&mut self, switch: &str) {
        let port = [("host", switch), ("port", "swp3")];
        let with = |more: &[(&'static str, &'static str)]| [&port[..], more].concat();
        let storm = |rate: f64| grows(rate, 1200.0, 1500.0);
        for direction in ["transmit", "receive"] {
            let dir = ("direction", direction);
            self.agent("fabric_port_io_bytes_total", &with(&[dir]), always(20e9));
            let priority = with(&[dir, ("priority", "3")]);
            self.agent("fabric_pfc_pause_seconds_total", &priority, storm(0.99));
            self.agent("fabric_pfc_frames_total", &priority, storm(9e4));
            self.agent("fabric_pfc_watchdog_discards_total", &with(&[dir, ("queue", "3")]), storm(9.0));
            self.agent("fabric_port_discards_total", &with(&[dir, ("reason", "buffer")]), storm(9.0));
            if direction == "receive" {
                self.agent("fabric_link_crc_errors_total", &with(&[dir]), storm(1.0));
            }
            let class = with(&[dir, ("reason", "buffer"), ("traffic_class", "3")]);
            self.agent("fabric_port_traffic_class_discards_total", &class, storm(9.0));
        }
        self.agent("fabric_port_up", &port, |_| 1.0);
        self.agent("fabric_ecn_marks_total", &port, always(40.0));
        self.agent("fabric_link_symbol_errors_total", &port, storm(1.0));
        self.agent("fabric_link_downs_total", &port, |t| f64::from(u8::from(t > 1500.0)));
        self.agent("fabric_link_ber_ratio", &with(&[("kind", "effective")]), |_| 1e-15);
        let queue = with(&[("queue", "3")]);
        self.agent("fabric_port_queue_discards_total", &queue, storm(9.0));
        self.agent("fabric_port_queue_ecn_marks_total", &queue, always(40.0));
        self.agent("fabric_port_queue_bytes", &queue, |_| 3e6);
        self.agent("fabric_port_queue_watermark_bytes", &queue, |_| 4e6);
        self.agent("fabric_pfc_watchdog_notices_total", &queue, storm(0.1));
        self.agent("fabric_pfc_watchdog_events_total", &with(&[("queue", "3"), ("event", "storm")]), storm(0.1));
        let group = with(&[("priority_group", "3")]);
        self.agent("fabric_port_priority_group_discards_total", &group, storm(9.0));
        self.agent("fabric_port_headroom_bytes", &group, |_| 1e5);
        self.agent("fabric_port_headroom_watermark_bytes", &group, |_| 2e5);
        let region = with(&[("priority_group", "3"), ("region", "shared")]);
        self.agent("fabric_port_priority_group_occupancy_bytes", &region, |_| 1e6);
        self.agent("fabric_port_priority_group_watermark_bytes", &region, |_| 2e6);
        let pool = [("host", switch), ("pool", "ingress_lossless")];
        self.agent("fabric_switch_buffer_bytes", &pool, |_| 3e6);
        self.agent("fabric_switch_buffer_watermark_bytes", &pool, |_| 9e6);
        let own = [("switch", switch), ("source", "cumulus")];
        self.put("fabriclens_switch_last_received_timestamp_seconds", &own, |t| Some(1.7e9 + t));
        self.put("fabriclens_gnmi_streams", &own[..1], |_| Some(8.0));
        self.put("fabriclens_gnmi_streams", &[("switch", "leaf-b")], |_| Some(0.0));
    }

    fn infiniband(&mut self, h: &str, waits: f64) {
        let port = [("host", h), ("device", "mlx5_0"), ("port", "1")];
        let info = [&port[..], &[("switch", "leaf-ib"), ("fabric", "infiniband"), ("driver", "mlx5_core")]].concat();
        self.agent("fabric_port_info", &info, |_| 1.0);
        self.agent("fabric_port_up", &port, |_| 1.0);
        self.agent("fabric_port_rate_bytes_per_second", &port, |_| 25e9);
        self.agent("fabric_port_xmit_wait_bytes_total", &port, grows(waits, 600.0, 1e9));
        for direction in ["transmit", "receive"] {
            let labels = [&port[..], &[("direction", direction)]].concat();
            self.agent("fabric_port_io_bytes_total", &labels, always(10e9));
        }
        self.host(h, 99);
    }

    /// Host that has been silent for some minutes.
    fn agent_that_went(&mut self) {
        let until = (LASTS - 200) as f64;
        self.put("fabriclens_agent_start_time_seconds", &[("host", "gone")], move |t| (t < until).then_some(1.7e9));
    }

    /// The collector's series of a job on h0 to h7.
    fn job(&mut self) {
        let own = [("job_id", "4711"), ("job_name", "train"), ("user", "ann"), ("attribution", "exclusive")];
        for host in 0..8 {
            let host = format!("h{host}");
            self.put("fabric_job_info", &[&own[..], &[("host", &host)]].concat(), |_| Some(1.0));
        }
        let mut one = |name: &str, more: &[(&str, &str)], value: fn(f64) -> f64| {
            self.put(name, &[&own[..], more].concat(), move |t| Some(value(t)));
        };
        let dip = |t: f64| if (1200.0..1500.0).contains(&t) { 4e10 } else { 3.2e11 };
        for direction in ["transmit", "receive"] {
            let dir = [("direction", direction)];
            one("fabric_job_io_bytes_per_second", &dir, dip);
            one("fabric_job_io_peak_bytes_per_second", &dir, |_| 3.4e11);
            one("fabric_job_io_mean_bytes_per_second", &dir, |_| 2.9e11);
            one("fabric_job_pause_share_ratio", &dir, |t| if (1200.0..1500.0).contains(&t) { 0.1 } else { 0.0 });
            one("fabric_job_pause_share_max_ratio", &dir, |t| if (1200.0..1500.0).contains(&t) { 0.6 } else { 0.0 });
            one("fabric_job_cnp_packets_total", &dir, |t| 100.0 * t);
            one("fabric_job_discards_total", &dir, |t| t);
            one("fabric_job_tcp_io_bytes_total", &dir, |t| 1e6 * t);
        }
        one("fabric_job_xmit_wait_share_ratio", &[], |_| 0.01);
        one("fabric_job_xmit_wait_share_max_ratio", &[], |_| 0.03);
        one("fabric_job_ecn_packets_total", &[], |t| 100.0 * t);
        one("fabric_job_retransmits_total", &[("reason", "ack_timeout")], |t| t);
        one("fabric_job_link_errors_total", &[("reason", "symbol")], |t| t);
        one("fabric_job_tcp_rtt_seconds", &[], |_| 8e-5);
    }

    /// The collector's series of the storm, which has ended, and of the bad link, which has not.
    fn incidents(&mut self) {
        let told = [
            ("1-1", "pfc_storm", "h2", "mlx5_0/1", 1203.0, 1515.0),
            ("1-2", "lossy_link", "h5", "mlx5_1/1", 310.0, 1e9),
        ];
        for (id, kind, node, port, from, to) in told {
            let open = move |t: f64| (from..to).contains(&t);
            let info = [
                ("id", id),
                ("kind", kind),
                ("severity", "critical"),
                ("root_type", "port"),
                ("node", node),
                ("port", port),
            ];
            self.put("fabric_incident_info", &info, move |t| open(t).then_some(1.0));
            self.put("fabric_incident_confidence", &[("id", id)], move |t| open(t).then_some(0.93));
            self.put("fabric_incident_victims", &[("id", id)], move |t| open(t).then_some(1.0));
            let job = [("id", id), ("job_id", "4711"), ("role", "victim")];
            self.put("fabric_incident_job_info", &job, move |t| open(t).then_some(1.0));
        }
    }

    /// The story as it ends at `end` (Unix ms), in requests that are in the order of time. Before it there are some minutes of a
    /// day ago, and a sample each minute of the last two hours, in which all was well.
    pub fn requests(&self, end: i64) -> Vec<Vec<TimeSeries>> {
        let hours = (LASTS - 9000..0).step_by(60).collect::<Vec<_>>();
        let times = [
            (LASTS - 86_400 - 900..LASTS - 86_400 + 600).step_by(30).collect::<Vec<_>>(),
            hours,
            (0..=LASTS).step_by(EVERY as usize).collect(),
        ];
        let mut out = Vec::new();
        for chunk in times.iter().flat_map(|part| part.chunks(40)) {
            let mut request = Vec::new();
            for (labels, value) in &self.all {
                let points = chunk.iter().filter_map(|t| Some((end - (LASTS - t) * 1000, value(*t as f64)?)));
                let points: Vec<(i64, f64)> = points.collect();
                if !points.is_empty() {
                    let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
                    request.push(series(&labels, &points));
                }
            }
            out.push(request);
        }
        out
    }
}
