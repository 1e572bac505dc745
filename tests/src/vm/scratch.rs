//! Scratch.
use super::{Lab, Scenario};
use crate::lab::vm::Config;
use anyhow::Result;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario { name: "scratch", shows: "scratch", limit: Duration::from_secs(120), run };

fn run(lab: &Lab) -> Result<()> {
    let g = lab.boot(&[Config::new("hca1", 1, "hca").cards(2)])?.remove(0);
    g.put(std::path::Path::new("target/debug/examples/calls"), "/bin/calls", 0o755)?;
    lab.say(&g.sh("insmod /modules/fakehca.ko; ip link set ens0np0 up; ip addr add 10.9.0.1/24 dev ens0np0; echo mlx5_0 set rx_prio3_pause 7 >/proc/fakehca; dcb app add dev ens0np0 dscp-prio 26:3; /bin/calls; rdma statistic set link mlx5_0/1 optional-counters cc_rx_cnp_pkts; (/bin/calls 6 > /tmp/c &) ; sleep 1.5; date +%s.%N; echo mlx5_0 reason 4 >/proc/fakehca; echo mlx5_0 state down > /proc/fakehca; sleep 1;  echo mlx5_0 state active > /proc/fakehca; rmmod fakehca; insmod /modules/fakehca.ko; sleep 4; echo; cat /tmp/c")?);
    drop(g);
    let (switch, one, two) = lab.rxe_pair()?;
    one.put(std::path::Path::new("target/debug/examples/calls"), "/bin/calls", 0o755)?;
    lab.say(&one.sh("/bin/calls")?);
    two.sh("(setsid ib_send_bw -d rxe0 -x 1 -n 1000 -s 65536 -e -F >/tmp/bw 2>&1 </dev/null &) ; sleep 0.5")?;
    lab.say(&one.sh("(setsid ib_send_bw -d rxe0 -x 1 -n 100000 -s 65536 -e -F 10.77.0.2 </dev/null >/dev/null 2>&1 &) ; sleep 1; /bin/calls | grep rdma_qps; /bin/calls 6 | grep event & sleep 2; ip link set fab0 down; sleep 1; ip link set fab0 up; sleep 1; rdma link del rxe0; sleep 1; rdma link add rxe0 type rxe netdev fab0; wait")?);
    Ok(())
}
