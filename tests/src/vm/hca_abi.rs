//! The fake HCA through the guest's own tools: the other scenarios rely on these kernel interfaces.

use super::watched::{boot_hca, drive, load, set_pfc};
use super::{Lab, Scenario};
use crate::lab::vm::Vm;
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

pub const SCENARIO: Scenario = Scenario {
    name: "hca-abi",
    shows: "the fake HCA gives sysfs, netlink, ethtool and DCB as a real one; it unloads under load",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

const PORT: &str = "/sys/class/infiniband/mlx5_0/ports/1";

fn run(lab: &Lab) -> Result<()> {
    let guest = boot_hca(lab)?;
    values(&guest)?;
    lists(&guest)?;
    states(&guest)?;
    failures(&guest)?;
    unload(lab, &guest)
}

fn expect(guest: &Vm, script: &str, wanted: &str) -> Result<()> {
    let got = guest.sh(script)?;
    ensure!(got == wanted, "{script}\ngave   {got}\nwanted {wanted}");
    Ok(())
}

fn values(guest: &Vm) -> Result<()> {
    drive(
        guest,
        "mlx5_0 set np_cnp_sent 5\nmlx5_0 set out_of_sequence 4294967299\nmlx5_0 set symbol_error 70000\n\
         mlx5_0 saturate port_xmit_wait\nmlx5_0 set port_xmit_data 123456789012\nmlx5_0 add rx_prio3_pause 7\n\
         mlx5_0 set fec_corrected_blocks 11",
    )?;
    // A 32-bit counter wraps, a 16-bit one saturates, a 64-bit one does neither.
    expect(guest, &format!("cd {PORT}; cat hw_counters/np_cnp_sent hw_counters/out_of_sequence"), "5\n3")?;
    expect(
        guest,
        &format!("cd {PORT}/counters; cat symbol_error port_xmit_wait port_xmit_data"),
        "65535\n4294967295\n123456789012",
    )?;
    expect(guest, "rdma statistic show link mlx5_0/1 | grep -o 'np_cnp_sent [0-9]*'", "np_cnp_sent 5")?;
    expect(guest, "ethtool -S ens0np0 | grep rx_prio3_pause: | tr -d ' '", "rx_prio3_pause:7")?;
    expect(guest, "dcb -s pfc show dev ens0np0 | grep -o '3:7'", "3:7")?;
    expect(guest, "ethtool -I --show-fec ens0np0 | grep -o 'corrected_blocks: 11'", "corrected_blocks: 11")?;
    expect(guest, "ethtool -m ens0np0 | grep -o '45.00 degrees C'", "45.00 degrees C")
}

fn lists(guest: &Vm) -> Result<()> {
    let optional = "rdma statistic show link mlx5_0/1 | grep -c cc_rx_cnp_pkts || true";
    expect(guest, optional, "0")?;
    guest.sh("rdma statistic set link mlx5_0/1 optional-counters cc_rx_cnp_pkts")?;
    expect(guest, optional, "1")?;
    let pause = "ethtool -S ens0np0 | grep -o 'rx_.*_pause:'";
    expect(guest, pause, "rx_prio3_pause:")?;
    set_pfc(guest, "all:off 5:on")?;
    expect(guest, pause, "rx_prio5_pause:")?;
    guest.sh("ethtool -A ens0np0 rx on tx on")?;
    expect(guest, pause, "rx_global_pause:")?;
    drive(guest, "mlx5_0 pfc 8")?;
    expect(guest, pause, "rx_prio3_pause:")
}

fn states(guest: &Vm) -> Result<()> {
    drive(guest, "mlx5_0 reason 4\nmlx5_0 state down")?;
    expect(
        guest,
        &format!("cat {PORT}/state /sys/class/net/ens0np0/carrier {PORT}/counters/link_downed"),
        "1: DOWN\n0\n1",
    )?;
    expect(guest, "ethtool ens0np0 | grep -o 'No cable'", "No cable")?;
    drive(guest, "mlx5_0 state active\nmlx5_0 width 2")?;
    expect(guest, &format!("cat {PORT}/state {PORT}/rate"), "4: ACTIVE\n100 Gb/sec (2X HDR)")
}

fn failures(guest: &Vm) -> Result<()> {
    drive(guest, "mlx5_0 fail rdma 5")?;
    expect(
        guest,
        &format!("cat {PORT}/hw_counters/np_cnp_sent 2>&1 | grep -o 'Input/output error'"),
        "Input/output error",
    )?;
    drive(guest, "mlx5_0 fail rdma 0\nmlx5_0 hang rdma 6")?;
    let start = Instant::now();
    guest.sh("cat /sys/class/infiniband/mlx5_1/ports/1/hw_counters/np_cnp_sent")?;
    ensure!(start.elapsed() < Duration::from_secs(4), "mlx5_1 waited for mlx5_0");
    guest.sh(&format!("cat {PORT}/hw_counters/np_cnp_sent"))?;
    ensure!(start.elapsed() > Duration::from_secs(4), "mlx5_0 did not hang");
    let refused = guest.exec("echo mlx5_9 state down >/proc/fakehca", Duration::from_secs(10))?;
    ensure!(refused.status != 0, "a command for a device that is not there was taken");
    Ok(())
}

fn unload(lab: &Lab, guest: &Vm) -> Result<()> {
    guest.write(
        "/tmp/load",
        "while :; do cat /sys/class/infiniband/*/ports/1/*counters/* /proc/fakehca; rdma statistic; done >/dev/null 2>&1 &\n\
         while :; do ethtool -S ens0np0; ethtool -S ens1np0; dcb -s pfc show dev ens1np0; done >/dev/null 2>&1 &\n",
    )?;
    guest.sh("setsid sh /tmp/load </dev/null >/dev/null 2>&1; sleep 1")?;
    for _ in 0..3 {
        drive(guest, "mlx5_1 hang rdma 30")?;
        let start = Instant::now();
        guest.sh("sleep 0.3; rmmod fakehca")?;
        ensure!(start.elapsed() < Duration::from_secs(10), "unloading took {:?}", start.elapsed());
        ensure!(guest.sh("ls /sys/class/infiniband")?.is_empty(), "devices are left");
        load(guest)?;
    }
    let trouble = guest.sh("dmesg | grep -e 'BUG:' -e 'WARNING:' -e Oops -e refcount || true")?;
    ensure!(trouble.is_empty(), "the kernel complains: {trouble}");
    lab.say("unloaded three times under load, with a read hanging");
    Ok(())
}
