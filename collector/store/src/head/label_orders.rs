//! Label order of the series of a metric, kept from one query to the next: comparing the labels of 200,000 series takes
//! longer than reading their samples.

use super::memory;
use foldhash::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;

/// Series indexes in label order, by metric. A table of series gets new series only, so an order stays right for the
/// series that it has.
#[derive(Debug, Default)]
pub struct LabelOrders(Mutex<HashMap<Arc<str>, Arc<[u32]>>>);

impl Clone for LabelOrders {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

impl LabelOrders {
    /// The order of the first series of a metric, as many as there were when it was kept; empty if none was.
    pub fn get(&self, metric: &str) -> Arc<[u32]> {
        self.0.lock().get(metric).cloned().unwrap_or_default()
    }

    /// Keeps an order, unless one of more series is there.
    pub fn keep(&self, metric: &str, order: Arc<[u32]>) {
        let mut all = self.0.lock();
        match all.get_mut(metric) {
            Some(known) if known.len() < order.len() => *known = order,
            Some(_) => {}
            None => _ = all.insert(metric.into(), order),
        }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        let all = self.0.lock();
        let orders: usize = all.values().map(|order| memory::ARC + size_of_val(&order[..])).sum();
        memory::table::<(Arc<str>, Arc<[u32]>)>(all.capacity()) + orders
    }
}
