//! Initial inputs of the targets that read what switches send.

use fabriclens_gnmi::proto::{
    Notification, Path, PathElem, Response, SubscribeResponse, TypedValue, Update, Value as GnmiValue,
};
use prost::Message as _;

/// Foreign series: name, value, and names and values of attributes.
pub(crate) fn foreign() -> Vec<Vec<u8>> {
    let all = [
        "nvswitch_interface_sp_rx_pause_duration\u{0}7\0interface\0swp5s1\0switch_priority\u{0}3",
        "nvswitch_lldp_neighbor_info\u{0}1\0interface\0swp1\0system_name\0spine1\0port_id\0swp9\0port_id_type\0ifname",
        "COUNTERS/SAI_PORT_STAT_PFC_3_RX_PKTS\0-1\0object_name\0Ethernet16",
        "interfaces/interface/state/counters/in-octets\u{0}1e300\0interface.name\0Ethernet1/1",
        "ifHCInOctets\u{0}18446744073709551615\0ifName\0Ethernet1\0instance\u{0}192.0.2.1:161",
        "infiniband_switch_port_transmit_data_bytes_total\0x\0guid\u{0}0x0002c9\0port\u{0}3",
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// A path of names, each with its keys.
fn path(elements: &[(&str, &[(&str, &str)])]) -> Option<Path> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let element = |(name, keys): &(&str, &[(&str, &str)])| PathElem {
        name: (*name).to_owned(),
        key: keys.iter().map(owned).collect(),
    };
    Some(Path { elem: elements.iter().map(element).collect(), ..Path::default() })
}

fn update(path: Option<Path>, value: GnmiValue) -> Update {
    Update { path, val: Some(TypedValue { value: Some(value) }), duplicates: 0 }
}

/// Messages of gNMI: tables of SONiC as JSON, leaves of OpenConfig, a neighbor, an event, a deleted entry, the end of the
/// first state.
pub(crate) fn gnmi() -> Vec<Vec<u8>> {
    let table = br#"{"Ethernet0":{"SAI_PORT_STAT_IF_IN_OCTETS":"7"},"Ethernet1":{"SAI_PORT_STAT_PFC_3_RX_PKTS":9}}"#;
    let event = br#"{"sonic-events-swss:pfc-storm":{"ifname":"Ethernet0","queue_index":"3","timestamp":"2026-01-01"}}"#;
    let port: &[(&str, &str)] = &[("name", "swp1")];
    let octets = [("interfaces", &[][..]), ("interface", port), ("state", &[]), ("counters", &[]), ("in-octets", &[])];
    let neighbor = [("LLDP_ENTRY_TABLE", &[][..]), ("Ethernet0", &[]), ("lldp_rem_sys_name", &[])];
    let updates = vec![
        update(path(&[("COUNTERS", &[])]), GnmiValue::JsonIetf(table.to_vec())),
        update(path(&[("all", &[])]), GnmiValue::Json(event.to_vec())),
        update(path(&octets), GnmiValue::Uint(u64::MAX)),
        update(path(&neighbor), GnmiValue::String("leaf2".to_owned())),
        update(path(&octets), GnmiValue::Bytes(1.5f32.to_be_bytes().to_vec())),
    ];
    let notification = Notification {
        timestamp: 1_700_000_000_000_000_000,
        prefix: path(&[]),
        update: updates,
        delete: path(&[("COUNTERS", &[]), ("Ethernet1", &[])]).into_iter().collect(),
    };
    let whole = |response| SubscribeResponse { response: Some(response) }.encode_to_vec();
    vec![whole(Response::Update(notification)), whole(Response::SyncResponse(true))]
}
