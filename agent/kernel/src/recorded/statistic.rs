//! Parses `rdma -j statistic show`: one object per port, with counters as members. Called by [`super::RecordedKernel`].
//!
//! The file has all ports and is read once per port and tick, so it is scanned without building a tree. Members of
//! other ports are skipped once `ifname` and `port` are known, which iproute2 prints first.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::intern;

/// Appends the counters of `device` and `port` to `out`; false if the text does not contain the port.
///
/// # Errors
/// When the text is not the array of objects that `rdma -j` prints.
pub fn of_port(text: &str, device: &str, port: u32, out: &mut Vec<(Arc<str>, u64)>) -> Result<bool, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let found = Ports { device, port, out }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(found)
}

struct Ports<'a> {
    device: &'a str,
    port: u32,
    out: &'a mut Vec<(Arc<str>, u64)>,
}

impl<'de> DeserializeSeed<'de> for Ports<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Ports<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the array that `rdma -j statistic show` prints")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(this) = seq.next_element_seed(Port(&mut self))? {
            found |= this;
        }
        Ok(found)
    }
}

struct Port<'a, 'b>(&'a mut Ports<'b>);

impl<'de> DeserializeSeed<'de> for Port<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Port<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of one port")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let Ports { device, port, out } = self.0;
        let (mut device_fits, mut port_fits) = (None, None);
        let before = out.len();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key.0 {
                "ifname" => {
                    let value = map.next_value::<Text<'de>>()?.0;
                    // Some versions print "mlx5_0/1" and no port.
                    let (name, with) = value.split_once('/').map_or((&*value, None), |(n, p)| (n, Some(p)));
                    device_fits = Some(name == *device);
                    if let Some(with) = with {
                        port_fits = Some(with.parse() == Ok(*port));
                    }
                }
                "port" => port_fits = Some(map.next_value::<Number>()?.0 == Some(u64::from(*port))),
                "ifindex" => drop(map.next_value::<IgnoredAny>()?),
                _ if device_fits == Some(false) || port_fits == Some(false) => {
                    map.next_value::<IgnoredAny>()?;
                }
                name => {
                    if let Some(value) = map.next_value::<Number>()?.0 {
                        out.push((intern::shared(name), value));
                    }
                }
            }
        }
        let fits = device_fits == Some(true) && port_fits == Some(true);
        if !fits {
            out.truncate(before);
        }
        Ok(fits)
    }
}

/// Text that is copied only if it has escapes; serde's own `Cow` always copies.
struct Text<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Borrow)
    }
}

/// Number, also as text. `None` for other values: newer tools may add members that are not counters.
struct Number(Option<u64>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
                Ok(Number(Some(value)))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_unit<E>(self) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_str<E>(self, text: &str) -> Result<Number, E> {
                Ok(Number(text.parse().ok()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Number, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Number(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Number(None))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(text: &str, device: &str, port: u32) -> Option<Vec<(String, u64)>> {
        let mut out = vec![("kept".into(), 1)];
        let found = of_port(text, device, port, &mut out).unwrap();
        assert_eq!(&*out.remove(0).0, "kept");
        assert!(found || out.is_empty());
        found.then(|| out.into_iter().map(|(n, v)| (n.to_string(), v)).collect())
    }

    #[test]
    fn only_the_requested_port_is_returned() {
        let text = r#"[{"ifname":"a","port":1,"x":1},{"ifname":"a","port":2,"x":2,"RNR sent":18446744073709551615},{"ifname":"b","port":2,"x":3}]"#;
        assert_eq!(get(text, "a", 2).unwrap(), [("x".into(), 2), ("RNR sent".into(), u64::MAX)]);
        assert_eq!(get(text, "b", 2).unwrap(), [("x".into(), 3)]);
        assert_eq!(get(text, "b", 1), None);
        assert_eq!(get("[]", "b", 1), None);
    }

    #[test]
    fn variants_of_other_versions() {
        assert_eq!(
            get(
                r#"[{"ifindex":3,"ifname":"a/1","x":"7","y":null,"z":{"a":[1]},"v":-1,"w":1.5,"u":true,"t":[{}]}]"#,
                "a",
                1
            )
            .unwrap(),
            [("x".into(), 7)]
        );
        assert_eq!(get(r#"[{"x":7,"port":1,"ifname":"a"}]"#, "a", 1).unwrap(), [("x".into(), 7)]);
    }

    #[test]
    fn malformed_input_is_an_error() {
        for text in ["", "{}", "[1]", r#"[{"ifname":"a""#, r#"[{"ifname":3}]"#, "[] x"] {
            assert!(of_port(text, "a", 1, &mut Vec::new()).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in r#"[\[\]{}":,a1\\ ]{0,60}"#) {
            let mut out = Vec::new();
            let found = of_port(&text, "a", 1, &mut out);
            proptest::prop_assert!(!matches!(found, Ok(false)) || out.is_empty());
        }
    }
}
