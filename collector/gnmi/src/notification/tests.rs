use super::*;
use crate::leaf::Leaf;
use crate::proto::{Notification, Path, Response, SubscribeResponse, TypedValue, Update, Value};
use prost::Message as _;
use serde_json::json;

const NOW: i64 = 1_800_000_000_000;

#[derive(Default)]
struct Collected(Vec<String>);

impl Receiver for Collected {
    fn leaf(&mut self, leaf: Leaf<'_>) {
        let keys: Vec<String> = leaf.keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let value = match leaf.value {
            Scalar::Number(number) => number.to_string(),
            Scalar::Text(text) => format!("{text:?}"),
        };
        self.0.push(format!("{} [{}] {value} @{}", leaf.name, keys.join(","), leaf.time_ms - NOW));
    }

    fn delete(&mut self, name: &str, keys: &[(String, String)], _: i64) {
        self.0.push(format!("deleted {name} {keys:?}"));
    }
}

fn notified(path: &str, value: Value) -> Notification {
    let val = Some(TypedValue { value: Some(value) });
    let update = vec![Update { path: Some(crate::path::parse(path)), val, duplicates: 0 }];
    Notification { timestamp: NOW * 1_000_000 + 5, update, ..Notification::default() }
}

fn collect(dialect: Dialect, notification: Notification) -> (Vec<String>, Outcome) {
    let message = SubscribeResponse { response: Some(Response::Update(notification)) }.encode_to_vec();
    let mut collected = Collected::default();
    let outcome = read(&message, dialect, NOW, &mut collected).unwrap();
    (collected.0, outcome)
}

fn table(path: &str, value: serde_json::Value) -> Vec<String> {
    collect(Dialect::SonicTable, notified(path, Value::JsonIetf(value.to_string().into_bytes()))).0
}

#[test]
fn tables_of_sonic_have_a_row_and_a_field_at_every_depth() {
    let all = table("COUNTERS/Ethernet*", json!({ "Ethernet68/1": { "SAI_A": "7" } }));
    assert_eq!(all, ["COUNTERS/SAI_A [object_name=Ethernet68/1] \"7\" @0"]);
    let queues = table("COUNTERS/Ethernet*/Queues", json!({ "Ethernet68:3": { "SAI_B": "8" }, "Ethernet68:4": {} }));
    assert_eq!(queues, ["COUNTERS/SAI_B [object_name=Ethernet68:3] \"8\" @0"]);
    let row = table("COUNTERS/Ethernet68", json!({ "SAI_A": "7" }));
    assert_eq!(row, ["COUNTERS/SAI_A [object_name=Ethernet68] \"7\" @0"]);
    assert_eq!(table("COUNTERS/Ethernet68/SAI_A", json!("7")), row);
    let map = table("COUNTERS_PORT_NAME_MAP", json!({ "Ethernet68": "oid:0x1" }));
    assert_eq!(map, ["COUNTERS_PORT_NAME_MAP [object_name=Ethernet68] \"oid:0x1\" @0"]);
}

#[test]
fn events_are_read_as_json_and_as_text_with_json() {
    let event = json!({ "sonic-events-swss:if-state": { "ifname": "Ethernet4", "status": "down" } }).to_string();
    let expected = ["all/ifname [object_name=sonic-events-swss:if-state] \"Ethernet4\" @0"];
    for value in [Value::JsonIetf(event.clone().into_bytes()), Value::String(event.clone())] {
        let (leaves, _) = collect(Dialect::SonicTable, notified("all[heartbeat=5]", value));
        assert_eq!(leaves[..1], expected);
        assert_eq!(leaves.len(), 2);
    }
}

#[test]
fn models_have_a_path_and_keys_however_they_are_nested() {
    let expected = ["interfaces/interface/state/counters/in-octets [interface.name=swp1] \"9\" @0"];
    let state = json!({ "openconfig-interfaces:counters": { "in-octets": "9" } });
    let value = Value::JsonIetf(state.to_string().into_bytes());
    let path = "/openconfig-interfaces:interfaces/interface[name=swp1]/state";
    assert_eq!(collect(Dialect::OpenConfig, notified(path, value)).0, expected);
    let value = json!({ "interface": [{ "state": { "counters": { "in-octets": "9" } }, "name": "swp1" }] });
    let (leaves, _) =
        collect(Dialect::OpenConfig, notified("/interfaces", Value::Json(value.to_string().into_bytes())));
    assert!(leaves.contains(&expected[0].to_owned()), "{leaves:?}");
}

#[test]
fn a_prefix_and_scalars_are_understood() {
    let scalars = [
        (Value::Uint(u64::MAX), "18446744073709552000"),
        (Value::Int(-3), "-3"),
        (Value::Bool(true), "1"),
        (Value::Double(0.5), "0.5"),
        (Value::Float(0.25), "0.25"),
        (Value::Decimal(crate::proto::Decimal64 { digits: -123, precision: 1 }), "-12.3"),
        (Value::Bytes(0.5f32.to_be_bytes().to_vec()), "0.5"),
        (Value::String("UP".into()), "\"UP\""),
    ];
    for (value, text) in scalars {
        let prefix = Some(crate::path::parse("/interfaces/interface[name=a]"));
        let notification = Notification { prefix, ..notified("state/x", value) };
        let (leaves, _) = collect(Dialect::OpenConfig, notification);
        assert_eq!(leaves, [format!("interfaces/interface/state/x [interface.name=a] {text} @0")]);
    }
}

#[test]
fn deletes_come_before_values() {
    let notification = Notification {
        delete: vec![crate::path::parse("/interfaces/interface[name=a]")],
        ..notified("/x", Value::Uint(1))
    };
    let (seen, _) = collect(Dialect::OpenConfig, notification);
    assert_eq!(seen, ["deleted interfaces/interface [(\"interface.name\", \"a\")]", "x [] 1 @0"]);
}

#[test]
fn an_unset_clock_is_replaced_by_the_time_of_arrival() {
    for timestamp in [0, 17_000_000_000, i64::MAX, i64::MIN, (NOW + SKEW_MS + 1) * 1_000_000] {
        let (leaves, _) = collect(Dialect::OpenConfig, Notification { timestamp, ..notified("/x", Value::Uint(1)) });
        assert_eq!(leaves, ["x [] 1 @0"]);
    }
    let timestamp = (NOW - 3_000) * 1_000_000;
    let (leaves, _) = collect(Dialect::OpenConfig, Notification { timestamp, ..notified("/x", Value::Uint(1)) });
    assert_eq!(leaves, ["x [] 1 @-3000"], "late is not wrong");
}

#[test]
fn what_cannot_be_read_is_counted() {
    let deep = format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100));
    for json in [deep.as_str(), "{\"a\":", "{\"a\":1}x", "\u{0}"] {
        let value = Value::JsonIetf(json.as_bytes().to_vec());
        let (_, outcome) = collect(Dialect::OpenConfig, notified("/x", value));
        assert_eq!(outcome.unread, 1, "{json}");
    }
    let list = crate::proto::ScalarArray::default();
    assert_eq!(collect(Dialect::OpenConfig, notified("/x", Value::LeafList(list))).1.unread, 1);
}

#[test]
fn a_message_holds_so_many_values() {
    let many: serde_json::Map<_, _> = (0..LEAVES + 10).map(|n| (n.to_string(), json!(1))).collect();
    let value = Value::JsonIetf(serde_json::Value::Object(many).to_string().into_bytes());
    let (leaves, outcome) = collect(Dialect::OpenConfig, notified("/x", value));
    assert_eq!((leaves.len(), outcome.leaves, outcome.unread), (LEAVES, LEAVES, 1));
}

#[test]
fn garbage_is_an_error() {
    let mut nothing = Collected::default();
    assert!(read(&[0x0a, 0xff], Dialect::OpenConfig, NOW, &mut nothing).is_err());
    let path = Path { element: vec!["x".repeat(5000)], ..Path::default() };
    let bad = Notification { prefix: Some(path), ..Notification::default() };
    let message = SubscribeResponse { response: Some(Response::Update(bad)) }.encode_to_vec();
    assert!(read(&message, Dialect::OpenConfig, NOW, &mut nothing).is_err());
    assert!(nothing.0.is_empty());
}
