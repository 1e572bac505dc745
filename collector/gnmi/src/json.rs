//! Walks the value of an update down to its single values.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::leaf::{Dialect, Leaf, Receiver, Scalar};
use crate::path::FlatPath;

/// Key of a row of a table of SONiC.
const OBJECT: &str = "object_name";
/// Deepest nesting of JSON in a value.
const DEPTH: usize = 24;

/// Position in the values of a notification.
pub(crate) struct Walk<'r> {
    /// Path of the update, and of the place within its JSON if the dialect is OpenConfig.
    pub(crate) path: FlatPath,
    dialect: Dialect,
    time_ms: i64,
    left: usize,
    receiver: &'r mut dyn Receiver,
    /// Names of the objects that enclose the place, within the value.
    inside: Vec<String>,
    depth: usize,
    /// Name and key of a leaf in a table of SONiC.
    name: String,
    row: [(String, String); 1],
}

/// A name within JSON.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'r> Walk<'r> {
    pub(crate) fn new(
        dialect: Dialect,
        path: FlatPath,
        time_ms: i64,
        left: usize,
        receiver: &'r mut dyn Receiver,
    ) -> Self {
        let row = [(OBJECT.to_owned(), String::new())];
        Self { path, dialect, time_ms, left, receiver, inside: Vec::new(), depth: 0, name: String::new(), row }
    }

    /// Values that may still come.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// The path is that of the next update.
    pub(crate) fn start(&mut self) {
        self.depth = 0;
    }

    /// Passes on one value; false if there were too many.
    pub(crate) fn scalar(&mut self, value: Scalar<'_>) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let time_ms = self.time_ms;
        let (name, keys) = match self.dialect {
            Dialect::OpenConfig => (self.path.name(), self.path.keys()),
            Dialect::SonicTable => {
                let elements = self.path.elements();
                table_row(elements, &self.inside[..self.depth], &mut self.name, &mut self.row[0].1);
                (self.name.as_str(), &self.row[..])
            }
        };
        self.receiver.leaf(Leaf { name, keys, value, time_ms });
        true
    }

    /// Passes on text. Events of SONiC are JSON in a text.
    pub(crate) fn text(&mut self, text: &str) -> bool {
        if text.starts_with('{') { self.json(text.as_bytes()) } else { self.scalar(Scalar::Text(text)) }
    }

    /// Passes on all values in JSON; false if it is malformed or has too many.
    pub(crate) fn json(&mut self, json: &[u8]) -> bool {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let before = self.path.length();
        let read = (&mut *self).deserialize(&mut deserializer).is_ok() && deserializer.end().is_ok();
        self.path.cut(before);
        read
    }

    fn enter(&mut self, name: &str) {
        match self.dialect {
            Dialect::OpenConfig => self.path.push(name),
            Dialect::SonicTable => match self.inside.get_mut(self.depth) {
                Some(reused) => {
                    reused.clear();
                    reused.push_str(name);
                }
                None => self.inside.push(name.to_owned()),
            },
        }
        self.depth += 1;
    }
}

/// Name and object of a value of a table. Subscriptions may be to a table, a row, a virtual list of a row (`Queues`) or a
/// field; the value then holds what the path does not name.
fn table_row(elements: &[String], inside: &[String], name: &mut String, object: &mut String) {
    let text = |at: usize| elements.get(at).map_or("", String::as_str);
    let (row, field) = match inside {
        [] => (text(1), elements.last().map_or("", String::as_str)),
        [row] if elements.len() < 2 => (row.as_str(), ""),
        [field] => (text(1), field.as_str()),
        [row, field, ..] => (row.as_str(), field.as_str()),
    };
    name.clear();
    name.push_str(text(0));
    if !field.is_empty() {
        name.push('/');
        name.push_str(field);
    }
    object.clear();
    object.push_str(row);
}

/// Name and keys of a deleted path.
pub(crate) fn deleted(dialect: Dialect, path: &FlatPath) -> (String, Vec<(String, String)>) {
    match dialect {
        Dialect::OpenConfig => (path.name().to_owned(), path.keys().to_vec()),
        Dialect::SonicTable => {
            let elements = path.elements();
            let row = elements.get(1).cloned().unwrap_or_default();
            (elements.first().cloned().unwrap_or_default(), vec![(OBJECT.to_owned(), row)])
        }
    }
}

impl<'de> DeserializeSeed<'de> for &mut Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("values within the limits of a message")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.visit_f64(f64::from(u8::from(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if self.scalar(Scalar::Number(value)) { Ok(()) } else { Err(E::custom("too many values")) }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        if self.scalar(Scalar::Text(value)) { Ok(()) } else { Err(E::custom("too many values")) }
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.depth >= DEPTH {
            return Err(A::Error::custom("nested too deeply"));
        }
        let before = self.path.length();
        while let Some(Key(name)) = map.next_key()? {
            self.enter(&name);
            map.next_value_seed(&mut *self)?;
            self.depth -= 1;
            self.path.cut(before);
        }
        Ok(())
    }

    /// Entries of a list. Their keys are the values directly in the entry; everything else is in containers.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let before = self.path.length();
        while let Some(entry) = list.next_element::<Value>()? {
            let Value::Object(members) = &entry else { continue };
            for (name, member) in members {
                match member {
                    Value::String(text) => self.path.key(name, text),
                    Value::Number(number) => self.path.key(name, &number.to_string()),
                    _ => {}
                }
            }
            (&mut *self).deserialize(&entry).map_err(A::Error::custom)?;
            self.path.cut(before);
        }
        Ok(())
    }
}
