//! Messages of gNMI 0.10 (`gnmi.proto`), as far as a reader needs them. Field numbers are those of the standard.

use std::collections::BTreeMap;

/// What a client asks of the method `Subscribe`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SubscribeRequest {
    /// One of several requests.
    #[prost(oneof = "Request", tags = "1, 3")]
    pub request: Option<Request>,
}

/// Kinds of requests.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Request {
    /// The first message of a stream.
    #[prost(message, tag = "1")]
    Subscribe(SubscriptionList),
    /// A further message, of the mode [`Mode::Poll`] only.
    #[prost(message, tag = "3")]
    Poll(Empty),
}

/// A message without fields.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Empty {}

/// Subscriptions that share a prefix, an encoding and a mode.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SubscriptionList {
    /// Prefix of all paths; its `target` chooses a database of SONiC.
    #[prost(message, optional, tag = "1")]
    pub prefix: Option<Path>,
    /// What is asked for.
    #[prost(message, repeated, tag = "2")]
    pub subscription: Vec<Subscription>,
    /// Stream, once or poll.
    #[prost(enumeration = "Mode", tag = "5")]
    pub mode: i32,
    /// Encoding of values.
    #[prost(enumeration = "Encoding", tag = "8")]
    pub encoding: i32,
    /// Leaves out the present state; only changes are sent.
    #[prost(bool, tag = "9")]
    pub updates_only: bool,
}

/// How long a subscription lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Mode {
    /// Until one side ends it.
    Stream = 0,
    /// One answer.
    Once = 1,
    /// An answer to each poll.
    Poll = 2,
}

/// Encoding of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Encoding {
    /// JSON text.
    Json = 0,
    /// Bytes of the target's own format.
    Bytes = 1,
    /// Scalars of protobuf.
    Proto = 2,
    /// Text.
    Ascii = 3,
    /// JSON as RFC 7951 has it: 64-bit numbers are strings, names have their module.
    JsonIetf = 4,
}

/// One path and its pace.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Subscription {
    /// The path, with wildcards.
    #[prost(message, optional, tag = "1")]
    pub path: Option<Path>,
    /// When values are sent.
    #[prost(enumeration = "SubscriptionMode", tag = "2")]
    pub mode: i32,
    /// Time between two samples, ns; 0 lets the target choose.
    #[prost(uint64, tag = "3")]
    pub sample_interval: u64,
    /// Sends only what changed since the previous sample.
    #[prost(bool, tag = "4")]
    pub suppress_redundant: bool,
    /// Longest time without a value in spite of that, ns.
    #[prost(uint64, tag = "5")]
    pub heartbeat_interval: u64,
}

/// When values are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum SubscriptionMode {
    /// As the target likes.
    TargetDefined = 0,
    /// When they change.
    OnChange = 1,
    /// Periodically.
    Sample = 2,
}

/// A path.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Path {
    /// Elements of the form before gNMI 0.4.
    #[prost(string, repeated, tag = "1")]
    pub element: Vec<String>,
    /// Names the schema of the path; empty for OpenConfig.
    #[prost(string, tag = "2")]
    pub origin: String,
    /// Elements.
    #[prost(message, repeated, tag = "3")]
    pub elem: Vec<PathElem>,
    /// Device, or database of SONiC; only in a prefix.
    #[prost(string, tag = "4")]
    pub target: String,
}

/// An element of a path.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PathElem {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Keys of an entry of a list.
    #[prost(btree_map = "string, string", tag = "2")]
    pub key: BTreeMap<String, String>,
}

/// A message of the target. Collectors read it without this type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SubscribeResponse {
    /// One of several responses.
    #[prost(oneof = "Response", tags = "1, 3")]
    pub response: Option<Response>,
}

/// Kinds of responses.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Response {
    /// Values.
    #[prost(message, tag = "1")]
    Update(Notification),
    /// The state of all paths was sent once.
    #[prost(bool, tag = "3")]
    SyncResponse(bool),
}

/// Values of one time.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Notification {
    /// Unix ns.
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    /// Prefix of all paths.
    #[prost(message, optional, tag = "2")]
    pub prefix: Option<Path>,
    /// Values.
    #[prost(message, repeated, tag = "4")]
    pub update: Vec<Update>,
    /// Paths that no longer exist, with all below them.
    #[prost(message, repeated, tag = "5")]
    pub delete: Vec<Path>,
}

/// A path and its value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Update {
    /// The path.
    #[prost(message, optional, tag = "1")]
    pub path: Option<Path>,
    /// The value.
    #[prost(message, optional, tag = "3")]
    pub val: Option<TypedValue>,
    /// Values that were replaced by this one before they could be sent.
    #[prost(uint32, tag = "4")]
    pub duplicates: u32,
}

/// A value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TypedValue {
    /// One of several types.
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14")]
    pub value: Option<Value>,
}

/// Types of values.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    /// Text.
    #[prost(string, tag = "1")]
    String(String),
    /// A signed number.
    #[prost(int64, tag = "2")]
    Int(i64),
    /// An unsigned number.
    #[prost(uint64, tag = "3")]
    Uint(u64),
    /// True or false.
    #[prost(bool, tag = "4")]
    Bool(bool),
    /// Bytes.
    #[prost(bytes = "vec", tag = "5")]
    Bytes(Vec<u8>),
    /// A short floating-point number, of old targets.
    #[prost(float, tag = "6")]
    Float(f32),
    /// A decimal number, of old targets.
    #[prost(message, tag = "7")]
    Decimal(Decimal64),
    /// A list.
    #[prost(message, tag = "8")]
    LeafList(ScalarArray),
    /// JSON.
    #[prost(bytes = "vec", tag = "10")]
    Json(Vec<u8>),
    /// JSON as RFC 7951 has it.
    #[prost(bytes = "vec", tag = "11")]
    JsonIetf(Vec<u8>),
    /// Text.
    #[prost(string, tag = "12")]
    Ascii(String),
    /// A floating-point number.
    #[prost(double, tag = "14")]
    Double(f64),
}

/// `digits` / 10^`precision`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Decimal64 {
    /// All digits.
    #[prost(int64, tag = "1")]
    pub digits: i64,
    /// Digits after the point.
    #[prost(uint32, tag = "2")]
    pub precision: u32,
}

/// A list of values.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScalarArray {
    /// Its elements.
    #[prost(message, repeated, tag = "1")]
    pub element: Vec<TypedValue>,
}

/// What a client asks of the method `Capabilities`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct CapabilityRequest {}

/// What a target offers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CapabilityResponse {
    /// Models.
    #[prost(message, repeated, tag = "1")]
    pub supported_models: Vec<ModelData>,
    /// Encodings.
    #[prost(enumeration = "Encoding", repeated, tag = "2")]
    pub supported_encodings: Vec<i32>,
    /// Version of gNMI.
    #[prost(string, tag = "3")]
    pub version: String,
}

/// A model.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelData {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Who publishes it.
    #[prost(string, tag = "2")]
    pub organization: String,
    /// Its version.
    #[prost(string, tag = "3")]
    pub version: String,
}
