//! Messages of the gRPC methods by which agents ask for leases and plans and tell forwarding tables, in the frame of a call.

use super::otlp::{field, fixed};

/// Paths of the methods.
pub const ASK: &str = "/fabriclens.v1.SubnetReaders/Ask";
pub const PLAN: &str = "/fabriclens.v1.Probes/Plan";
pub const TELL: &str = "/fabriclens.v1.ForwardingTables/Tell";

/// Asks for the lease of a subnet with these switches, as a host that does not read it yet.
pub fn ask(host: &str, agent: u64, switches: &[u64]) -> Vec<u8> {
    framed(&question(host, agent, switches))
}

/// The same as a host that reads it already, which has the lease at once if no other has it.
pub fn ask_reading(host: &str, agent: u64, switches: &[u64]) -> Vec<u8> {
    framed(&[question(host, agent, switches), number(4, 1)].concat())
}

fn question(host: &str, agent: u64, switches: &[u64]) -> Vec<u8> {
    let guids: Vec<u8> = switches.iter().flat_map(|guid| guid.to_le_bytes()).collect();
    [field(1, host.as_bytes()), fixed(2, agent), field(3, &guids)].concat()
}

/// Offers ports of a host, the `n`-th of the fleet.
pub fn plan(host: &str, n: usize, ports: usize) -> Vec<u8> {
    let port = |port: usize| {
        let [a, b] = (n as u16).to_be_bytes();
        let address = [10, a, b, port as u8];
        field(
            3,
            &[field(1, format!("mlx5_{port}/1").as_bytes()), field(2, &address), number(4, 9), number(8, 1)].concat(),
        )
    };
    let ports: Vec<u8> = (0..ports).flat_map(port).collect();
    framed(&[field(1, host.as_bytes()), fixed(2, 1), ports].concat())
}

/// Tells the tables of switches, which know so many LIDs.
pub fn tell(host: &str, switches: impl IntoIterator<Item = u64>, lids: usize) -> Vec<u8> {
    let table = vec![1; lids];
    let of = |guid: u64| {
        let switch = [fixed(1, guid), field(2, format!("switch-{guid}").as_bytes()), number(3, 40), field(4, &table)];
        field(6, &switch.concat())
    };
    let head = [field(1, host.as_bytes()), fixed(2, 1), fixed(3, 1), number(5, 1)].concat();
    framed(&switches.into_iter().map(of).fold(head, |all, switch| [all, switch].concat()))
}

/// A field of one small number.
fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

/// A message that is not compressed.
fn framed(message: &[u8]) -> Vec<u8> {
    [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_one_message_with_its_length() {
        let call = ask("h", 1, &[2]);
        assert_eq!(call[..5], [0, 0, 0, 0, 22]);
        assert_eq!(call[5..8], [10, 1, b'h']);
        assert_eq!(call[17..19], [26, 8]);
    }
}
