//! Smoke.
use super::{Lab, Scenario};
use crate::lab::vm::Config;
use anyhow::Result;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario { name: "hca-abi", shows: "smoke", limit: Duration::from_secs(120), run };

fn run(lab: &Lab) -> Result<()> {
    let guest = lab.boot(&[Config::new("hca1", 1, "hca").cards(2)])?.remove(0);
    for s in [
        "insmod /modules/fakehca.ko; dmesg | tail -5; rdma link; rdma dev; ls -la /sys/class/infiniband/mlx5_0/ /sys/class/infiniband/mlx5_0/ports/1; ls -la /sys/class/infiniband/mlx5_0/device/ ; cat /sys/class/infiniband/mlx5_0/device/{current_link_speed,max_link_speed,current_link_width,aer_dev_correctable}; ip link set ens0np0 up; ip link set ens1np0 up; ip addr add 10.9.0.1/24 dev ens0np0; sleep 1; head -3 /sys/class/infiniband/mlx5_0/ports/1/gids/[0-2]; head /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/[0-2]",
        "rdma link; ethtool -S ens0np0 | grep -c .; ethtool -S ens0np0 | grep pause; dcb pfc set dev ens0np0 prio-pfc all:off 4:on; ethtool -S ens0np0 | grep pause; dcb -s pfc show dev ens0np0; dcb ets show dev ens0np0; dcb buffer show dev ens0np0; dcb app show dev ens0np0; ethtool -I --show-fec ens0np0; ethtool -I -a ens0np0; ethtool -S ens0np0 --all-groups; ethtool -i ens0np0; ethtool ens0np0; ethtool -m ens0np0 | head -40; lspci 2>&1",
        "cd /sys/class/infiniband/mlx5_0/ports/1; for i in counters/*; do echo $i $(cat $i); done; for i in hw_counters/*; do echo $i $(cat $i); done; rdma statistic; rdma statistic mode; rdma statistic set link mlx5_0/1 optional-counters cc_rx_cnp_pkts; rdma statistic",
        "printf 'mlx5_0 set np_cnp_sent 5\nmlx5_0 rate port_xmit_data 1000\nmlx5_0 saturate port_xmit_wait\nmlx5_0 set symbol_error 70000\nmlx5_0 set out_of_sequence 4294967299\n' > /proc/fakehca; sleep 1; cd /sys/class/infiniband/mlx5_0/ports/1; cat hw_counters/np_cnp_sent counters/port_xmit_data counters/port_xmit_wait counters/symbol_error hw_counters/out_of_sequence; echo mlx5_0 state down > /proc/fakehca; rdma link; cat state phys_state /sys/class/net/ens0np0/carrier counters/link_downed; echo mlx5_0 reason 4 > /proc/fakehca; ethtool ens0np0 | tail -5; echo mlx5_0 fail rdma 5 > /proc/fakehca; cat counters/symbol_error hw_counters/out_of_sequence; rdma statistic show link mlx5_0/1; echo mlx5_0 fail rdma 0 > /proc/fakehca; echo mlx5_0 hang rdma 3 > /proc/fakehca; time cat counters/symbol_error;  time rdma statistic show link mlx5_1/1; echo bogus > /proc/fakehca",
        "(while :; do cat /sys/class/infiniband/mlx5_*/ports/1/*counters/* >/dev/null 2>&1; rdma statistic >/dev/null 2>&1; done) & (while :; do ethtool -S ens0np0 >/dev/null 2>&1; ethtool -S ens1np0 >/dev/null 2>&1; dcb -s pfc show dev ens1np0  >/dev/null 2>&1; done) & for i in 1 2 3; do sleep 1; echo 'mlx5_1 hang rdma 30' > /proc/fakehca; sleep .3; time rmmod fakehca; insmod /modules/fakehca.ko; ip link set ens0np0 up;  ip link set ens1np0 up; done; kill %1 %2; rdma link; dmesg | grep -i -e warn -e bug -e oops -e mlx5",
    ] {
        let t = std::time::Instant::now();
        let o = guest.exec(s, Duration::from_secs(60))?;
        lab.say(&format!("{:?} {}\n{}\n--err {}", t.elapsed(), o.status, o.out, o.err));
    }
    lab.say(&format!("{:?}", guest.pcie_error(0, "BAD_TLP")));
    lab.say(&guest.sh("cat /sys/class/infiniband/mlx5_0/device/aer_dev_correctable; dmesg | tail -3")?);
    lab.say(&format!("{}", guest.console()));
    Ok(())
}
