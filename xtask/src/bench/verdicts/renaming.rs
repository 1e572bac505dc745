//! Gives each node, port and job another name and permutes the rows of an instant: verdicts must not depend on either.

use super::ground_truth::name;
use super::row::RowChange;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// New names, and the old name of each.
#[derive(Default)]
pub struct Renaming(HashMap<String, String>);

/// New name of a node or job, or of a port of a node. No two have the same.
fn new_name(kind: &str, old: &str, node: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (kind, old, node).hash(&mut hasher);
    format!("{kind}{:016x}", hasher.finish())
}

/// Gives the node and port of each row their new names.
pub fn other_names() -> RowChange {
    Box::new(|row| {
        let (node, port) = row.key();
        row.cells[row.columns.port] = new_name("p", &port, &node);
        row.cells[row.columns.node] = new_name("n", &node, "");
        Ok(true)
    })
}

impl Renaming {
    fn renamed(&mut self, kind: &str, old: &str, node: &str) -> String {
        let new = new_name(kind, old, node);
        self.0.entry(new.clone()).or_insert_with(|| old.to_owned());
        new
    }

    /// Renames the nodes and ports of a `topology.json`, and the nodes and jobs of a `jobs.json`.
    pub fn change(&mut self, topology: &mut Value, jobs: &mut Value) {
        for part in ["hosts", "switches"] {
            for node in topology[part].as_array_mut().into_iter().flatten() {
                *node = json!({ "id": self.renamed("n", &name(&node["id"]), "") });
            }
        }
        for link in topology["links"].as_array_mut().into_iter().flatten() {
            for (end, port) in [("a", "a_port"), ("b", "b_port")] {
                let node = name(&link[end]);
                link[port] = self.renamed("p", &name(&link[port]), &node).into();
                link[end] = self.renamed("n", &node, "").into();
            }
        }
        for job in jobs["jobs"].as_array_mut().into_iter().flatten() {
            job["id"] = self.renamed("j", &name(&job["id"]), "").into();
            for host in job["hosts"].as_array_mut().into_iter().flatten() {
                *host = self.renamed("n", &name(host), "").into();
            }
        }
    }

    /// Puts the old names back into an answer.
    pub fn restore(&self, answer: &mut Value) {
        match answer {
            Value::String(text) => {
                if let Some(old) = self.0.get(text) {
                    text.clone_from(old);
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|value| self.restore(value)),
            Value::Object(map) => map.values_mut().for_each(|value| self.restore(value)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_put_back() {
        let mut renaming = Renaming::default();
        let [a, b] = ["1", "2"].map(|node| (renaming.renamed("n", node, ""), renaming.renamed("p", "1", node)));
        assert!(a != b && a.1 != b.1, "the same port of two nodes");
        let mut answer =
            json!({ "root": { "node": b.0, "port": b.1 }, "victim_jobs": [renaming.renamed("j", "1", "")] });
        renaming.restore(&mut answer);
        assert_eq!(answer, json!({ "root": { "node": "2", "port": "1" }, "victim_jobs": ["1"] }));
    }
}
