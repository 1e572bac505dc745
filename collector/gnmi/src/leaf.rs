//! What messages hold: values at paths, and who receives them.

/// How a target builds its paths and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Paths of YANG models. A leaf's name is its path without keys.
    OpenConfig,
    /// Tables of SONiC's databases: a leaf's name is `TABLE/FIELD`, and the key of the table is the key `object_name`.
    SonicTable,
}

/// A value at a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leaf<'a> {
    /// The path without keys, elements joined by `/`.
    pub name: &'a str,
    /// Keys of the path, as `element.key`.
    pub keys: &'a [(String, String)],
    /// The value.
    pub value: Scalar<'a>,
    /// Unix ms.
    pub time_ms: i64,
}

/// A single value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// A number, or 1 for true and 0 for false.
    Number(f64),
    /// Text, which may be a number.
    Text(&'a str),
}

/// Receives what messages hold.
pub trait Receiver: Send {
    /// A value.
    fn leaf(&mut self, leaf: Leaf<'_>);
    /// Everything at and below this path no longer exists.
    fn delete(&mut self, name: &str, keys: &[(String, String)], time_ms: i64);
    /// The message is over.
    fn end(&mut self) {}
    /// The target has sent the state of all paths once.
    fn synced(&mut self) {}
}
