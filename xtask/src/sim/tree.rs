//! Host trees as the kernel shows mlx5 NICs: `sys`, `proc`, and recorded system calls for the agent's `--root`.
//!
//! Single numbers are written in place because the agent keeps their files open; `ethtool -S` text is replaced as a whole.

use super::layout::{Port, RAILS, host_name, index, netdev_name};
use super::nic::Nic;
use super::switch;
use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags, openat};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A counter file and its value.
type Row = (&'static str, fn(&Nic) -> f64);

const COUNTERS: &[Row] = &[
    ("port_xmit_data", |n| n.tx_bytes / 4.0),
    ("port_rcv_data", |n| n.rx_bytes / 4.0),
    ("port_xmit_packets", Nic::tx_packets),
    ("port_rcv_packets", Nic::rx_packets),
    ("unicast_xmit_packets", Nic::tx_packets),
    ("unicast_rcv_packets", Nic::rx_packets),
];
/// The other files of `counters/`, constant on this Ethernet fabric.
const QUIET_COUNTERS: &[&str] = &[
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "symbol_error",
];
const HW_COUNTERS: &[Row] = &[
    ("np_ecn_marked_roce_packets", |n| n.ecn_marked),
    ("np_cnp_sent", |n| n.cnp_sent),
    ("rp_cnp_handled", |n| n.cnp_handled),
    ("out_of_sequence", |n| n.out_of_sequence),
    ("packet_seq_err", |n| n.packet_seq_err),
    ("roce_adp_retrans", |n| n.adp_retrans),
    ("local_ack_timeout_err", |n| n.ack_timeouts),
    ("rx_write_requests", |n| n.rx_packets() / 16.0),
];
const QUIET_HW: &[&str] = &[
    "duplicate_request",
    "implied_nak_seq_err",
    "out_of_buffer",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rp_cnp_ignored",
    "rx_atomic_requests",
    "rx_dct_connect",
    "rx_icrc_encapsulated",
    "rx_read_requests",
];
const ETHTOOL: &[Row] = &[
    ("rx_vport_rdma_unicast_packets", Nic::rx_packets),
    ("rx_vport_rdma_unicast_bytes", |n| n.rx_bytes),
    ("tx_vport_rdma_unicast_packets", Nic::tx_packets),
    ("tx_vport_rdma_unicast_bytes", |n| n.tx_bytes),
    ("rx_packets_phy", Nic::rx_packets),
    ("tx_packets_phy", Nic::tx_packets),
    ("rx_bytes_phy", |n| n.rx_bytes),
    ("tx_bytes_phy", |n| n.tx_bytes),
    ("rx_crc_errors_phy", |n| n.crc_errors),
    ("rx_symbol_err_phy", |n| n.symbol_errors),
    ("rx_pcs_symbol_err_phy", |n| n.symbol_errors),
    ("rx_corrected_bits_phy", |n| n.corrected_bits),
    ("rx_discards_phy", |_| 0.0),
    ("tx_discards_phy", |_| 0.0),
    ("link_down_events_phy", |n| n.link_downs),
    ("tx_pause_storm_warning_events", |n| n.storm_warnings),
    ("tx_pause_storm_error_events", |_| 0.0),
    ("outbound_pci_stalled_rd", |_| 0.0),
    ("outbound_pci_stalled_wr", |_| 0.0),
    ("rx_prio3_bytes", |n| n.rx_bytes),
    ("rx_prio3_packets", Nic::rx_packets),
    ("rx_prio3_pause", Nic::rx_pause_frames),
    ("rx_prio3_pause_duration", |n| n.rx_pause_s * 1e6),
    ("rx_prio3_pause_transition", |n| n.rx_pause_frames() / 4.0),
    ("tx_prio3_bytes", |n| n.tx_bytes),
    ("tx_prio3_packets", Nic::tx_packets),
    ("tx_prio3_pause", Nic::tx_pause_frames),
    ("tx_prio3_pause_duration", |n| n.tx_pause_s * 1e6),
];

/// A counter file that changes.
struct Live {
    rail: usize,
    /// The open directory of the file: hundreds of hosts have more counters than a process may have open files, and the path
    /// may lead through a file system that a fault has stopped.
    dir: Arc<OwnedFd>,
    name: &'static str,
    value: fn(&Nic) -> f64,
    last: u64,
}

impl Live {
    fn write(&mut self, now: u64) -> Result<()> {
        let file = openat(&self.dir, self.name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        File::from(file.with_context(|| format!("open {}", self.name))?)
            .write_all_at(format!("{now}\n").as_bytes(), 0)?;
        self.last = now;
        Ok(())
    }
}

/// Files of one host.
pub struct HostTree {
    host: usize,
    root: PathBuf,
    live: Vec<Live>,
}

/// Link state of a NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// No carrier.
    Down,
    /// Up, with a rate in Gb/s.
    Up(u32),
}

/// Writes a line into a file, whose directories are created.
///
/// # Errors
/// When it cannot be written.
pub fn put(path: &Path, text: &str) -> Result<()> {
    let dir = path.parent().context("a file has a directory")?;
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    fs::write(path, format!("{text}\n")).with_context(|| format!("write {}", path.display()))
}

impl HostTree {
    /// Creates all files below `root`.
    pub fn create(root: &Path, host: usize) -> Result<Self> {
        let mut tree = Self { host, root: root.to_path_buf(), live: Vec::new() };
        put(&root.join("proc/sys/kernel/hostname"), &host_name(host))?;
        put(&root.join("proc/net/snmp"), SNMP)?;
        put(&root.join("proc/net/netstat"), NETSTAT)?;
        for rail in 0..RAILS {
            tree.create_nic(rail)?;
        }
        tree.write(&vec![Nic::default(); index((host + 1, 0))])?;
        Ok(tree)
    }

    fn create_nic(&mut self, rail: usize) -> Result<()> {
        let (bus, netdev, device) = (0x11 + 0x11 * rail, netdev_name(rail), format!("mlx5_{rail}"));
        let bridge = self.root.join(format!("sys/devices/pci0000:{:02x}/0000:{:02x}:01.0", bus - 1, bus - 1));
        let pci_name = format!("0000:{bus:02x}:00.0");
        let pci = bridge.join(&pci_name);
        let guid = format!("94:6d:ae:03:00:{:02x}:{:02x}:00", self.host, rail);
        let link = [
            ("current_link_speed", "32.0 GT/s PCIe"),
            ("current_link_width", "16"),
            ("max_link_speed", "32.0 GT/s PCIe"),
            ("max_link_width", "16"),
        ];
        for dir in [&bridge, &pci] {
            link.iter().try_for_each(|(f, v)| put(&dir.join(f), v))?;
        }
        let record = [
            ("vendor", "0x15b3"),
            ("device", "0x1021"),
            ("numa_node", if rail < RAILS / 2 { "0" } else { "1" }),
            ("uevent", "DRIVER=mlx5_core"),
            ("aer_dev_correctable", "RxErr 0\nBadTLP 0\nBadDLLP 0\nTOTAL_ERR_COR 0"),
            ("aer_dev_nonfatal", "CmpltTO 0\nTOTAL_ERR_NONFATAL 0"),
            ("aer_dev_fatal", "DLP 0\nTOTAL_ERR_FATAL 0"),
        ];
        record.iter().try_for_each(|(f, v)| put(&pci.join(f), v))?;
        let net = pci.join("net").join(&netdev);
        for (f, v) in [
            ("operstate", "up"),
            ("carrier", "1"),
            ("speed", "400000"),
            ("mtu", "9000"),
            ("dev_port", "0"),
            ("carrier_changes", "2"),
            ("ifindex", &(rail + 2).to_string()),
            ("type", "1"),
            ("carrier_down_count", "1"),
            ("carrier_up_count", "1"),
        ] {
            put(&net.join(f), v)?;
        }
        for f in
            ["rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped"]
        {
            put(&net.join("statistics").join(f), "0")?;
        }
        let ib = pci.join("infiniband").join(&device);
        for (f, v) in [
            ("node_guid", guid.as_str()),
            ("sys_image_guid", guid.as_str()),
            ("fw_ver", "28.41.1000"),
            ("hca_type", "MT4129"),
            ("board_id", "MT_0000000838"),
            ("node_type", "1: CA"),
            ("node_desc", &format!("{} {device}", host_name(self.host))),
        ] {
            put(&ib.join(f), v)?;
        }
        let port = ib.join("ports/1");
        for (f, v) in [
            ("state", "4: ACTIVE"),
            ("phys_state", "5: LinkUp"),
            ("rate", "400 Gb/sec (4X NDR)"),
            ("link_layer", "Ethernet"),
            ("lid", "0x0"),
            ("sm_lid", "0x0"),
            ("gids/0", "fe80:0000:0000:0000:966d:aeff:fe03:0000"),
            ("gid_attrs/types/0", "RoCE v2"),
            ("gid_attrs/ndevs/0", &netdev),
        ] {
            put(&port.join(f), v)?;
        }
        for (dir, rows, quiet) in [("counters", COUNTERS, QUIET_COUNTERS), ("hw_counters", HW_COUNTERS, QUIET_HW)] {
            quiet.iter().try_for_each(|f| put(&port.join(dir).join(f), "0"))?;
            rows.iter().try_for_each(|(f, _)| put(&port.join(dir).join(f), "0"))?;
            let open = Arc::new(OwnedFd::from(File::open(port.join(dir))?));
            let live = |row: &Row| Live { rail, dir: open.clone(), name: row.0, value: row.1, last: 0 };
            self.live.extend(rows.iter().map(live));
        }
        put(&port.join("hw_counters/lifespan"), "10")?;
        symlink(&pci, ib.join("device"))?;
        symlink(&pci, net.join("device"))?;
        for (class, name, target) in [("infiniband", &device, &ib), ("net", &netdev, &net)] {
            let dir = self.root.join("sys/class").join(class);
            fs::create_dir_all(&dir)?;
            symlink(target, dir.join(name))?;
        }
        put(
            &self.root.join(format!("ethtool/{netdev}.i.txt")),
            &format!(
                "driver: mlx5_core\nversion: 6.8.0\nfirmware-version: 28.41.1000 (MT_0000000838)\nexpansion-rom-version: \nbus-info: {pci_name}\nsupports-statistics: yes"
            ),
        )?;
        put(
            &self.root.join(format!("dcb/{netdev}.json")),
            r#"{"pfc":{"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[false,false,false,true,false,false,false,false]}}"#,
        )
    }

    /// Writes what the NICs hear by LLDP: the leaf's name and port at the other end of each cable.
    pub fn set_neighbors(&self) -> Result<()> {
        (0..RAILS).map(|rail| (self.host, rail)).try_for_each(|nic| {
            let (leaf, port) = (switch::leaf_name(nic), switch::port_to_host(nic));
            let name = serde_json::json!({"value": leaf});
            let port = serde_json::json!({"type": "ifname", "value": port});
            let ends = serde_json::json!({"chassis": [{"name": [name]}], "port": [{"id": [port]}]});
            let heard = serde_json::json!({"lldp": [{"interface": [ends]}]});
            put(&self.root.join(format!("lldp/{}.json", netdev_name(nic.1))), &heard.to_string())
        })
    }

    /// Writes the files with the link state; `downs` is how often the link went down so far.
    pub fn set_link(&self, rail: usize, link: Link, downs: u32) -> Result<()> {
        let (port, net) = (
            self.root.join(format!("sys/class/infiniband/mlx5_{rail}/ports/1")),
            self.root.join(format!("sys/class/net/ens{rail}np0")),
        );
        let (up, gbps) = match link {
            Link::Down => (false, 10),
            Link::Up(gbps) => (true, gbps),
        };
        let or = |yes: &str, no: &str| if up { yes } else { no }.to_owned();
        let rows = [
            (&net, "carrier", or("1", "0")),
            (&net, "operstate", or("up", "down")),
            (&net, "speed", if up { format!("{gbps}000") } else { "-1".into() }),
            (&net, "carrier_changes", (2 + 2 * downs - u32::from(!up)).to_string()),
            (&net, "carrier_down_count", (1 + downs).to_string()),
            (&port, "rate", format!("{gbps} Gb/sec (4X)")),
            (&port, "phys_state", or("5: LinkUp", "3: Disabled")),
            (&port, "state", or("4: ACTIVE", "1: DOWN")),
        ];
        // In place and in one call, so that a reader finds either the old or the new text.
        let write = |path: &Path, text: &str| {
            File::options().write(true).open(path)?.write_all_at(format!("{text:\n<24}").as_bytes(), 0)
        };
        rows.iter().try_for_each(|(dir, name, text)| {
            let path = dir.join(name);
            write(&path, text).with_context(|| format!("write {}", path.display()))
        })
    }

    /// Writes the counters of the NICs into the files.
    pub fn write(&mut self, nics: &[Nic]) -> Result<()> {
        let host = self.host;
        let nic = |rail: usize| &nics[index((host, rail) as Port)];
        for live in &mut self.live {
            let now = (live.value)(nic(live.rail)) as u64;
            if now != live.last {
                live.write(now).with_context(|| format!("write below {}", self.root.display()))?;
            }
        }
        let mut text = String::new();
        for rail in 0..RAILS {
            text.clear();
            text.push_str("NIC statistics:\n");
            for (name, value) in ETHTOOL {
                let _ = writeln!(text, "     {name}: {}", value(nic(rail)) as u64);
            }
            let path = self.root.join(format!("ethtool/ens{rail}np0.S.txt"));
            let draft = path.with_extension("new");
            fs::write(&draft, &text)
                .and_then(|()| fs::rename(&draft, &path))
                .with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }
}

const SNMP: &str = "Ip: Forwarding DefaultTTL InReceives InDiscards\nIp: 1 64 120000 0
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors
Tcp: 1 200 120000 -1 5210 880 12 30 64 1200345 1304567 210 0 44 0";
const NETSTAT: &str = "TcpExt: SyncookiesSent DelayedACKs TCPTimeouts TCPLostRetransmit TCPFastRetrans ListenDrops\nTcpExt: 0 4301 18 1 180 0
IpExt: InOctets OutOctets InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts\nIpExt: 9876543210 8765432109 120000 0 0 0";
