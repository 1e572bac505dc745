//! Values of a switch, and how subscriptions find them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use fabriclens_gnmi::parse;
use fabriclens_gnmi::proto::{Notification, Path, SubscriptionList, TypedValue, Update, Value};
use serde_json::Value as Json;
use tokio::sync::broadcast;

use crate::rules::{Fault, Rules};

/// Values of a switch. Tables of SONiC are found by `DATABASE/PATH` as a client asks for it (`COUNTERS_DB/COUNTERS/Ethernet*`),
/// leaves by their whole path (`/interfaces/interface[name=swp1]/state/oper-status`).
#[derive(Debug)]
pub struct Values {
    pub(crate) rules: Rules,
    values: Mutex<BTreeMap<String, Json>>,
    changes: broadcast::Sender<(String, Notification)>,
    calls: Mutex<Vec<SubscriptionList>>,
}

impl Values {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, values: Mutex::default(), changes: broadcast::channel(1024).0, calls: Mutex::default() }
    }

    /// Sets a value, and sends it to subscriptions on change.
    pub fn set(&self, path: &str, value: Json) {
        lock(&self.values).insert(path.to_owned(), value.clone());
        let update = self.update(path, &value);
        self.send(path, Notification { update: vec![update], ..self.notification(path) });
    }

    /// Removes a value, and says so to all subscriptions.
    pub fn delete(&self, path: &str) {
        lock(&self.values).remove(path);
        let deleted = self.path(path);
        self.send(path, Notification { delete: vec![deleted], ..self.notification(path) });
    }

    /// Sends an event of SONiC, such as `{"sonic-events-swss:if-state": {…}}`.
    pub fn event(&self, event: &Json) {
        let path = "EVENTS/all";
        let update = self.update(path, event);
        self.send(path, Notification { update: vec![update], ..self.notification(path) });
    }

    /// All subscriptions so far.
    pub fn calls(&self) -> Vec<SubscriptionList> {
        lock(&self.calls).clone()
    }

    pub(crate) fn called(&self, list: &SubscriptionList) {
        lock(&self.calls).push(list.clone());
    }

    pub(crate) fn changes(&self) -> broadcast::Receiver<(String, Notification)> {
        self.changes.subscribe()
    }

    /// Present values that a list asks for; `None` if there is none.
    pub(crate) fn sample(&self, list: &SubscriptionList) -> Option<Notification> {
        let asked: Vec<String> = paths(list);
        let values = lock(&self.values);
        let found = values.iter().filter(|(path, _)| asked.iter().any(|asked| covers(asked, path)));
        let update: Vec<Update> = found.map(|(path, value)| self.update(path, value)).collect();
        let path = asked.first().map_or("", String::as_str);
        (!update.is_empty()).then(|| Notification { update, ..self.notification(path) })
    }

    fn send(&self, path: &str, notification: Notification) {
        // Nobody may listen.
        drop(self.changes.send((path.to_owned(), notification)));
    }

    pub(crate) fn notification(&self, path: &str) -> Notification {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let target = path.split('/').next().filter(|_| self.rules.tables).unwrap_or_default();
        Notification {
            timestamp: if self.rules.fault == Some(Fault::Clock) { 17_000_000_000 } else { now.as_nanos() as i64 },
            prefix: (!target.is_empty()).then(|| Path { target: target.to_owned(), ..Path::default() }),
            ..Notification::default()
        }
    }

    fn path(&self, path: &str) -> Path {
        parse(if self.rules.tables { path.split_once('/').map_or(path, |(_, rest)| rest) } else { path })
    }

    fn update(&self, path: &str, value: &Json) -> Update {
        let scalar = match value {
            _ if self.rules.tables => Value::JsonIetf(value.to_string().into_bytes()),
            Json::Number(number) => number.as_u64().map_or(Value::Double(number.as_f64().unwrap_or(0.0)), Value::Uint),
            Json::String(text) => Value::String(text.clone()),
            Json::Bool(bool) => Value::Bool(*bool),
            other => Value::Json(other.to_string().into_bytes()),
        };
        Update { path: Some(self.path(path)), val: Some(TypedValue { value: Some(scalar) }), duplicates: 0 }
    }
}

/// Paths of a list as text, with the database of SONiC.
pub(crate) fn paths(list: &SubscriptionList) -> Vec<String> {
    let target = list.prefix.as_ref().map_or("", |prefix| prefix.target.as_str());
    let all = list.subscription.iter().filter_map(|one| one.path.as_ref());
    all.map(|path| {
        let elements = path.elem.iter().map(|elem| {
            let keys: String = elem.key.iter().map(|(key, value)| format!("[{key}={value}]")).collect();
            let keys = if target.is_empty() { keys } else { String::new() };
            format!("/{}{keys}", elem.name)
        });
        format!("{target}{}", elements.collect::<String>())
    })
    .collect()
}

/// Whether a subscription to `asked` includes `path`.
pub(crate) fn covers(asked: &str, path: &str) -> bool {
    if asked == path {
        return true;
    }
    let (asked, path) = (parse(asked).elem, parse(path).elem);
    asked.len() <= path.len()
        && asked.iter().zip(&path).all(|(asked, one)| {
            let key = |(name, value): (&String, &String)| value == "*" || one.key.get(name) == Some(value);
            asked.name == one.name && asked.key.iter().all(key)
        })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
