//! `DIR/dcb/<netdev>.json`. Called by [`super::RecordedKernel`].
//!
//! The file is one object with the members `pfc`, `ets`, `app`, `buffer`, each as `dcb -j -s <member> show dev X`
//! prints it. The output of a single command is accepted, too, as are several, one after another.

use serde_json::{Map, Value};

use crate::{Dcb, table};

/// Parses the file. Missing members stay `None`.
///
/// # Errors
/// When the text is not JSON, or contains values other than objects.
pub fn parse(text: &str) -> Result<Dcb, serde_json::Error> {
    let mut dcb = Dcb::default();
    for object in serde_json::Deserializer::from_str(text).into_iter::<Map<String, Value>>() {
        merge(&object?, &mut dcb);
    }
    Ok(dcb)
}

fn merge(object: &Map<String, Value>, dcb: &mut Dcb) {
    for member in ["pfc", "ets", "app", "buffer"] {
        if let Some(Value::Object(inner)) = object.get(member) {
            merge(inner, dcb);
        }
    }
    let small = |value: u64| u8::try_from(value).ok();
    set(&mut dcb.pfc_capable, unsigned(object.get("pfc_cap")).and_then(small));
    set(&mut dcb.pfc_delay, unsigned(object.get("delay")).and_then(|d| u16::try_from(d).ok()));
    set(&mut dcb.macsec_bypass, object.get("macsec_bypass").and_then(on_off));
    set(&mut dcb.pfc_enabled, eight(object.get("prio_pfc"), on_off).map(bitmap));
    set(&mut dcb.requests, eight(object.get("requests"), |v| unsigned(Some(v))));
    set(&mut dcb.indications, eight(object.get("indications"), |v| unsigned(Some(v))));
    let bytes = |key: &str| eight(object.get(key), |v| unsigned(Some(v)).and_then(small));
    set(&mut dcb.prio_tc, bytes("prio_tc"));
    set(&mut dcb.tc_bandwidth, bytes("tc_bw"));
    set(&mut dcb.prio_buffer, bytes("prio_buffer"));
    let size = |v: &Value| unsigned(Some(v)).and_then(|n| u32::try_from(n).ok());
    set(&mut dcb.buffer_size, eight(object.get("buffer_size"), size));
    set(&mut dcb.tc_algorithm, eight(object.get("tc_tsa"), algorithm));
    apps(object, &mut dcb.apps);
}

fn set<T>(slot: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *slot = value;
    }
}

/// Values from an array of eight, or from an object `{"0": …}` as early versions of the tool print.
fn eight<T: Copy + Default>(value: Option<&Value>, of: impl Fn(&Value) -> Option<T>) -> Option<[T; 8]> {
    let mut out = [T::default(); 8];
    for (index, slot) in out.iter_mut().enumerate() {
        *slot = of(match value? {
            Value::Array(list) => list.get(index)?,
            Value::Object(map) => map.get(&index.to_string())?,
            _ => return None,
        })?;
    }
    Some(out)
}

fn unsigned(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    }
}

fn on_off(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(on) => Some(*on),
        Value::String(text) => Some(text == "on"),
        value => Some(value.as_u64()? != 0),
    }
}

fn bitmap(on: [bool; 8]) -> u8 {
    on.iter().enumerate().map(|(bit, on)| u8::from(*on) << bit).sum()
}

fn algorithm(value: &Value) -> Option<u8> {
    let name = value.as_str()?;
    table::TSA.iter().find(|row| row.1 == name).map(|row| row.0)
}

fn apps(object: &Map<String, Value>, out: &mut Vec<(u8, u16, u8)>) {
    if let Some(priority) = unsigned(object.get("default_prio")) {
        out.extend(u8::try_from(priority).ok().map(|p| (1, 0, p)));
    }
    // With several default priorities the member is an array.
    if let Some(Value::Array(list)) = object.get("default_prio") {
        out.extend(list.iter().filter_map(|p| Some((1, 0, u8::try_from(p.as_u64()?).ok()?))));
    }
    for (selector, key) in table::APP {
        let Some(Value::Array(rows)) = object.get(*key) else { continue };
        out.extend(rows.iter().filter_map(|row| {
            let protocol = match row.get(0)? {
                // EtherTypes are hexadecimal text.
                Value::String(text) if *selector == 1 => u16::from_str_radix(text, 16).ok()?,
                value => u16::try_from(unsigned(Some(value))?).ok()?,
            };
            Some((*selector, protocol, u8::try_from(unsigned(row.get(1))?).ok()?))
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PFC: &str = r#"{"pfc_cap":8,"macsec_bypass":false,"delay":3,"prio_pfc":[false,false,false,true,false,false,false,true],"requests":[0,0,0,9,0,0,0,0],"indications":[1,0,0,0,0,0,0,0]}"#;

    #[test]
    fn one_command_members_and_a_stream_mean_the_same() {
        let ets = r#"{"willing":true,"ets_cap":8,"cbs":false,"tc_bw":[10,20,0,0,0,0,0,70],"pg_bw":[0,0,0,0,0,0,0,0],"tc_tsa":["ets","strict","cbs","ets","ets","ets","ets","ets"],"prio_tc":[0,1,2,3,4,5,6,7]}"#;
        let app = r#"{"default_prio":2,"dscp_prio":[[24,3],[48,6]]}"#;
        let one =
            parse(&format!(r#"{{"pfc":{PFC},"ets":{ets},"app":{app},"buffer":{{"prio_buffer":[0,0,0,1,0,0,0,0]}}}}"#))
                .unwrap();
        let stream = parse(&format!("{PFC}\n{ets}\n{app}\n{{\"prio_buffer\":[0,0,0,1,0,0,0,0]}}")).unwrap();
        assert_eq!(one, stream);
        assert_eq!((one.pfc_capable, one.pfc_enabled, one.pfc_delay), (Some(8), Some(0b1000_1000), Some(3)));
        assert_eq!(one.requests.unwrap()[3], 9);
        assert_eq!(one.tc_algorithm.unwrap()[..3], [2, 0, 1]);
        assert_eq!(one.apps, [(1, 0, 2), (5, 24, 3), (5, 48, 6)]);
        assert_eq!(one.macsec_bypass, Some(false));
        assert_eq!(one.prio_buffer.unwrap()[3], 1);
    }

    #[test]
    fn absent_is_not_zero_and_short_is_absent() {
        let dcb = parse(r#"{"pfc_cap":8,"requests":[1,2,3],"tc_tsa":{"0":"ets"}}"#).unwrap();
        assert_eq!((dcb.requests, dcb.indications, dcb.pfc_enabled, dcb.tc_algorithm), (None, None, None, None));
    }

    #[test]
    fn malformed_input_is_an_error() {
        assert!(parse("[]").is_err());
        assert!(parse("{").is_err());
        assert!(parse("{} x").is_err());
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_values_do_not_panic(
            key in "pfc_cap|delay|prio_pfc|requests|prio_tc|tc_tsa|default_prio|ethtype_prio|dscp_prio|pfc|app",
            value in r#"-?[0-9]{1,20}|"[a-f0-9]{0,9}"|null|\[([0-9]{1,6},){0,9}1\]|\[\[[0-9]{1,9},[0-9]{1,5}\]\]|\{"0":1\}"#,
        ) {
            let _ = parse(&format!("{{{key:?}:{value}}}"));
        }
    }
}
