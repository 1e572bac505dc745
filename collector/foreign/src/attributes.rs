//! Attributes of a foreign series, by name.

/// Attributes of a point and of its resource, labels of a Prometheus series, or the keys of a gNMI path.
pub trait Attributes {
    /// Value of an attribute; `None` if it is absent or empty.
    fn get(&self, name: &str) -> Option<&str>;
}

impl Attributes for [(&str, &str)] {
    fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).filter(|value| !value.is_empty())
    }
}
