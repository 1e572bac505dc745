//! Smoke.
use super::{Lab, Scenario};
use anyhow::Result;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario { name: "rxe-link", shows: "smoke", limit: Duration::from_secs(60), run };

fn run(lab: &Lab) -> Result<()> {
    let (switch, one, two) = lab.rxe_pair()?;
    lab.say(&one.sh("rdma link; rdma statistic; ip -br addr; cat /proc/uptime; lsmod | wc -l; ibv_devinfo; ls /sys/class/infiniband/rxe0/ports/1; dmesg | tail -20")?);
    two.sh("(setsid ib_send_bw -d rxe0 -x 1 -n 1000 -s 65536 -e -F >/tmp/bw 2>&1 </dev/null &) ; sleep 0.5")?;
    let t = std::time::Instant::now();
    lab.say(&one.sh("ib_send_bw -d rxe0 -x 1 -n 1000 -s 65536 -e -F 10.77.0.2; rdma statistic")?);
    lab.say(&format!("{:?} {:?} {:?}", t.elapsed(), switch.stats(0), switch.stats(1)));
    lab.say(&two.sh("cat /tmp/bw; rdma -j -p statistic")?);
    lab.say(&format!("{}", one.console()));
    Ok(())
}
