//! Paths: written as text for subscriptions, and read from messages as a name without keys, and keys.

use fabriclens_wire::decode::DecodeError;
use fabriclens_wire::proto::{Field, Reader, text};

use crate::proto::{Path, PathElem};

/// Most elements and keys of a path, and bytes of all its names.
const ELEMENTS: usize = 32;
const KEYS: usize = 16;
const BYTES: usize = 4096;
const TOO_LONG: DecodeError = DecodeError::Malformed("a path is too long");

/// Reads a path such as `/interfaces/interface[name=*]/state`. Keys hold no `]`; names of elements hold no `/` or `[`.
pub fn parse(path: &str) -> Path {
    let mut elem = Vec::new();
    let mut rest = path.trim_start_matches('/');
    while !rest.is_empty() {
        let end = rest.find(['/', '[']).unwrap_or(rest.len());
        let mut one = PathElem { name: rest[..end].to_owned(), ..PathElem::default() };
        rest = &rest[end..];
        while let Some((key, after)) = rest.strip_prefix('[').and_then(|keys| keys.split_once(']')) {
            if let Some((name, value)) = key.split_once('=') {
                one.key.insert(name.to_owned(), value.to_owned());
            }
            rest = after;
        }
        elem.push(one);
        rest = rest.trim_start_matches(['/', '[']);
    }
    Path { elem, ..Path::default() }
}

/// A name without its module: `openconfig-interfaces:state` is `state`.
fn plain(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, plain)| plain)
}

/// A path as received: names of its elements joined by `/`, and keys as `element.key`. The same allocation serves many
/// paths.
#[derive(Debug, Default)]
pub(crate) struct FlatPath {
    name: String,
    keys: Vec<(String, String)>,
    /// Elements one by one, if colons and slashes are part of them.
    elements: Option<Vec<String>>,
}

/// Length of a path, to which [`FlatPath::cut`] returns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length(usize, usize, usize);

impl FlatPath {
    /// An empty path, whose names have modules or not.
    pub(crate) fn new(modules: bool) -> Self {
        Self { elements: (!modules).then(Vec::new), ..Self::default() }
    }

    /// Elements one by one, of a path without modules.
    pub(crate) fn elements(&self) -> &[String] {
        self.elements.as_deref().unwrap_or_default()
    }

    /// Names of the elements, joined by `/`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Keys.
    pub(crate) fn keys(&self) -> &[(String, String)] {
        &self.keys
    }

    /// Its length.
    pub(crate) fn length(&self) -> Length {
        Length(self.name.len(), self.keys.len(), self.elements().len())
    }

    /// Removes what was added since.
    pub(crate) fn cut(&mut self, to: Length) {
        self.name.truncate(to.0);
        self.keys.truncate(to.1);
        if let Some(elements) = &mut self.elements {
            elements.truncate(to.2);
        }
    }

    /// Adds an element, without its module (`openconfig-interfaces:`).
    pub(crate) fn push(&mut self, element: &str) {
        if let Some(elements) = &mut self.elements {
            elements.push(element.to_owned());
        }
        if !self.name.is_empty() {
            self.name.push('/');
        }
        self.name.push_str(plain(element));
    }

    /// Adds a key of the last element. Further keys than a path may have are dropped.
    pub(crate) fn key(&mut self, key: &str, value: &str) {
        let element = self.name.rsplit('/').next().unwrap_or_default();
        if self.keys.len() < KEYS {
            self.keys.push((format!("{element}.{}", plain(key)), value.to_owned()));
        }
    }

    /// Adds the elements of an encoded path.
    ///
    /// # Errors
    /// [`DecodeError`] if it is malformed or too long.
    pub(crate) fn add(&mut self, path: &[u8]) -> Result<(), DecodeError> {
        let (mut elements, before) = (0, self.length());
        for field in Reader::new(path) {
            match field? {
                // Old and new form of the same path may come together.
                (1, Field::Bytes(element)) if elements == 0 => self.push(text(element)?),
                (3, Field::Bytes(element)) => {
                    if elements == 0 {
                        self.cut(before);
                    }
                    elements += 1;
                    self.element(element)?;
                }
                _ => {}
            }
            if self.name.len() > BYTES || elements > ELEMENTS {
                return Err(TOO_LONG);
            }
        }
        Ok(())
    }

    fn element(&mut self, element: &[u8]) -> Result<(), DecodeError> {
        for field in Reader::new(element) {
            match field? {
                (1, Field::Bytes(name)) => self.push(text(name)?),
                (2, Field::Bytes(pair)) => {
                    let (mut key, mut value) = ("", "");
                    for field in Reader::new(pair) {
                        match field? {
                            (1, Field::Bytes(bytes)) => key = text(bytes)?,
                            (2, Field::Bytes(bytes)) => value = text(bytes)?,
                            _ => {}
                        }
                    }
                    self.key(key, value);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;

    #[test]
    fn text_becomes_a_path_and_a_path_a_name_and_keys() {
        let path = parse("/qos/interfaces/interface[interface-id=swp1/2]/output/queues/queue[name=3]/state");
        assert_eq!(path.elem.len(), 7);
        let mut flat = FlatPath::default();
        flat.add(&path.encode_to_vec()).unwrap();
        assert_eq!(flat.name(), "qos/interfaces/interface/output/queues/queue/state");
        let keys: Vec<_> = flat.keys().iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(keys, [("interface.interface-id", "swp1/2"), ("queue.name", "3")]);
    }

    #[test]
    fn modules_and_the_old_form_are_understood() {
        let mut path = Path { element: vec!["COUNTERS".into(), "Ethernet0".into()], ..Path::default() };
        let mut flat = FlatPath::default();
        flat.add(&path.encode_to_vec()).unwrap();
        assert_eq!(flat.name(), "COUNTERS/Ethernet0");
        path.elem = parse("/openconfig-interfaces:interfaces/interface[name=a]").elem;
        flat = FlatPath::default();
        flat.add(&path.encode_to_vec()).unwrap();
        assert_eq!(flat.name(), "interfaces/interface");
    }

    #[test]
    fn hostile_paths_are_refused() {
        let long = Path { elem: vec![PathElem { name: "a".into(), ..PathElem::default() }; 1000], ..Path::default() };
        assert!(FlatPath::default().add(&long.encode_to_vec()).is_err());
        assert!(FlatPath::default().add(&[0x1a, 0xff]).is_err());
    }
}
