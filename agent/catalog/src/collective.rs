//! Facts about operations of communication libraries.

/// Operations that no rank can leave before all others have entered, by their names in lower case without separators.
const ALL_WAIT: [&str; 7] =
    ["allreduce", "allgather", "allgatherv", "reducescatter", "reducescatterblock", "alltoall", "barrier"];

/// Whether no rank can leave the operation before all others have entered it, so that the rank that comes last spends the least
/// time in it. In a broadcast or a reduction the root or the others may be done early, and pairs of ranks wait for each other only.
pub fn waits_for_all(operation: &str) -> bool {
    let name: String = operation.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    ALL_WAIT.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooted_and_pairwise_operations_do_not_wait_for_all() {
        assert!(["AllReduce", "ReduceScatter", "Reduce_scatter_block", "AlltoAll"].into_iter().all(waits_for_all));
        assert!(!["Broadcast", "Reduce", "SendRecv", "Send", "Gather", ""].into_iter().any(waits_for_all));
    }
}
