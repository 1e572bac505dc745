//! Services shared by all crates of the collector: its own metrics, the clock, byte quotas, periodic tasks, memory
//! pressure, the feed of ingested samples, and HTTP clients of other servers.
#![forbid(unsafe_code)]

pub mod byte_quota;
pub mod client_network;
pub mod delivery;
pub mod endpoint;
pub mod exposition;
pub mod failover_client;
pub mod fair_turn;
pub mod forward_telemetry;
pub mod gnmi_telemetry;
pub mod host_senders;
pub mod json_text;
pub mod jsonl;
pub mod judge_lease;
pub mod judge_telemetry;
pub mod newest_signals;
pub mod pem;
pub mod periodic;
pub mod pressure;
pub mod probe_telemetry;
pub mod prompb;
pub mod prompb_histogram;
pub mod prompb_v2;
pub mod protocol;
pub mod query_thread;
pub mod reader_leases;
pub mod reload;
pub mod sample_feed;
pub mod switch_list;
pub mod telemetry;
pub mod time;
pub mod troubled_jobs;
