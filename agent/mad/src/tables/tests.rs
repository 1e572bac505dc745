use super::*;
use crate::packet::SIZE;
use crate::route::Route;
use crate::smp::{NodeInfo, NodeType, SwitchInfo};
use std::collections::VecDeque;
use std::time::Duration;

const PACE: Pace = Pace { per_second: 1_000_000, deadline: Duration::from_millis(20), in_flight: 64, retries: 0 };
const DATA: usize = 64;

/// Two switches at the ends of the routes `1` and `2`: each sends all LIDs to `ports[n]`.
struct Switches {
    ports: [u8; 2],
    /// Status of the answer about adaptive routing; `None`: no answer.
    adaptive: Option<u16>,
    arrived: VecDeque<[u8; SIZE]>,
    asked: Vec<(u8, u16, u32)>,
}

impl Mad for Switches {
    fn send(&mut self, get: &Get, transaction: u32) -> io::Result<()> {
        let mut mad = get.encode(transaction);
        let (switch, attribute) = (mad[129 + usize::from(mad[7]) - 1], u16::from_be_bytes([mad[16], mad[17]]));
        self.asked.push((switch, attribute, u32::from_be_bytes([mad[20], mad[21], mad[22], mad[23]])));
        (mad[3], mad[4]) = (0x81, 0x80);
        match attribute {
            smp::LINEAR_FORWARDING => mad[DATA..DATA + 64].fill(self.ports[usize::from(switch) - 1]),
            smp::ADAPTIVE_ROUTING => match self.adaptive {
                None => return Ok(()),
                Some(status) => {
                    mad[4..6].copy_from_slice(&(0x8000 | status).to_be_bytes());
                    mad[DATA + 3] = 1;
                }
            },
            smp::SL_TO_VL => mad[DATA..DATA + 8].copy_from_slice(&[0x01, 0x23, 0, 0, 0, 0, 0, 0]),
            other => panic!("attribute {other:x}"),
        }
        self.arrived.push_back(mad);
        Ok(())
    }

    fn receive(&mut self, wait: Duration, into: &mut Vec<u8>) -> io::Result<Option<()>> {
        if self.arrived.is_empty() {
            std::thread::sleep(wait);
        }
        Ok(self.arrived.pop_front().map(|mad| *into = mad.to_vec()))
    }

    fn window(&self) -> usize {
        64
    }
}

fn switches(ports: [u8; 2]) -> Switches {
    Switches { ports, adaptive: Some(0), arrived: VecDeque::new(), asked: Vec::new() }
}

/// Switches 1 and 2 with 130 LIDs and one cable between their ports 1; switch 1 has another cable at port 2.
fn subnet() -> Subnet {
    let node = |guid: u64| {
        let info = NodeInfo {
            kind: NodeType::Switch,
            ports: 4,
            system_guid: 0,
            guid,
            port_guid: guid,
            device: 0,
            local_port: 1,
            vendor: NVIDIA,
        };
        let (route, switch) = (Route::local().then(guid as u8).expect("short"), SwitchInfo { linear_top: 129 });
        (guid, Node { info, description: String::new(), route, switch, ports: BTreeMap::new() })
    };
    let mut subnet = Subnet::default();
    subnet.nodes.extend([node(1), node(2)]);
    subnet.links.extend([((1, 1), (2, 1)), ((2, 1), (1, 1)), ((1, 2), (9, 1))]);
    subnet
}

fn turn(reader: &mut TableReader, mad: &mut Switches, most: usize) -> Turn {
    reader.turn(mad, PACE, (&subnet(), most), 0).expect("no error")
}

#[test]
fn a_pass_reads_everything_in_turns() {
    let (mut reader, mut mad) = (TableReader::default(), switches([7, 8]));
    // Three blocks, lanes from port 2 to port 1 and back, adaptive routing; the other switch has one cable.
    let sent: Vec<u64> = (0..3).map(|_| turn(&mut reader, &mut mad, 4).counts.sent).collect();
    assert_eq!((sent, mad.asked.len()), (vec![4, 4, 2], 10));
    assert!(reader.is_whole());
    let [one, two] = [1, 2].map(|guid| reader.switches()[&guid].clone());
    assert_eq!((one.table.len(), &one.table[..2], &two.table[..2]), (192, &[7, 7][..], &[8, 8][..]));
    assert_eq!((one.adaptive, two.lanes.len()), (Some(true), 0), "no second port to come from");
    let lanes = one.lanes[&2].expect("lanes");
    assert_eq!((lanes.0, &lanes.1[..4]), (1, &[0, 1, 2, 3][..]));
    mad.asked.clear();
    let again = turn(&mut reader, &mut mad, 99);
    assert_eq!((again.is_whole, again.changed, again.counts.sent), (true, false, 8), "lanes are known");
}

#[test]
fn changes_show_when_the_pass_has_ended() {
    let (mut reader, mut mad) = (TableReader::default(), switches([7, 8]));
    assert!(turn(&mut reader, &mut mad, 99).changed);
    mad.ports = [9, 9];
    let part = turn(&mut reader, &mut mad, 2);
    assert_eq!((part.is_whole, part.changed, reader.switches()[&1].table[0]), (false, false, 7));
    let rest = turn(&mut reader, &mut mad, 99);
    assert!(rest.is_whole && rest.changed);
    assert_eq!([1, 2].map(|guid| reader.switches()[&guid].table[129]), [9, 9]);
}

#[test]
fn adaptive_routing_is_off_where_it_is_not_known_and_unknown_without_an_answer() {
    let adaptive = |answer| {
        let (mut reader, mut mad) = (TableReader::default(), Switches { adaptive: answer, ..switches([7, 8]) });
        turn(&mut reader, &mut mad, 99);
        (reader.switches()[&1].adaptive, reader.switches()[&2].table[129])
    };
    assert_eq!(adaptive(Some(0x0c)), (Some(false), 8), "unsupported attribute");
    assert_eq!(adaptive(None), (None, 8), "the tables were read all the same");
    let (mut reader, mut mad, mut other) = (TableReader::default(), switches([7, 8]), subnet());
    other.nodes.values_mut().for_each(|node| node.info.vendor = 0x66a);
    reader.turn(&mut mad, PACE, (&other, 99), 0).expect("no error");
    assert_eq!((reader.switches()[&1].adaptive, mad.asked.len()), (Some(false), 8), "not asked");
}

#[test]
fn tables_of_switches_that_are_gone_are_dropped() {
    let (mut reader, mut mad) = (TableReader::default(), switches([7, 8]));
    turn(&mut reader, &mut mad, 99);
    let mut smaller = subnet();
    smaller.nodes.remove(&2);
    smaller.nodes.get_mut(&1).expect("a switch").switch.linear_top = 3;
    let end = reader.turn(&mut mad, PACE, (&smaller, 99), 0).expect("no error");
    assert!(end.changed && reader.switches().len() == 1 && reader.switches()[&1].table.len() == 64);
}
