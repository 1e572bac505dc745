//! The gRPC methods of agents besides samples. This is their only list: an ingest collector passes all of them on to its judge,
//! and a judge answers them for ingest collectors.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::response::Response;
use fabriclens_server::auth::Caller;

use super::{Ingest, forwarding_tables, probes, reader_lease};

/// A method with one message in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentMethod {
    /// Asks for the lease of an InfiniBand subnet.
    ReaderLease,
    /// Asks for a probe plan.
    ProbePlan,
    /// Reports paths and probes.
    ProbeReport,
    /// Tells forwarding tables.
    ForwardingTables,
}

impl AgentMethod {
    pub(crate) const ALL: [Self; 4] = [Self::ReaderLease, Self::ProbePlan, Self::ProbeReport, Self::ForwardingTables];

    /// Path on the gRPC listener.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::ReaderLease => fabriclens_reader_lease::ASK,
            Self::ProbePlan => fabriclens_probe_plan::PLAN,
            Self::ProbeReport => fabriclens_probe_plan::REPORT,
            Self::ForwardingTables => fabriclens_forwarding_tables::TELL,
        }
    }

    /// Path at which a judge answers ingest collectors, on the main listener.
    pub(crate) fn judge_path(self) -> &'static str {
        match self {
            Self::ReaderLease => "/api/v1/judge/reader_lease",
            Self::ProbePlan => "/api/v1/judge/probe_plan",
            Self::ProbeReport => "/api/v1/judge/probe_report",
            Self::ForwardingTables => "/api/v1/judge/forwarding_tables",
        }
    }

    /// Name in metrics.
    pub(crate) fn name(self) -> &'static str {
        self.judge_path().rsplit('/').next().unwrap_or_default()
    }

    /// Largest request, bytes.
    pub(crate) fn request_limit(self) -> usize {
        match self {
            Self::ReaderLease => reader_lease::REQUEST,
            Self::ProbePlan => probes::PLAN_REQUEST,
            Self::ProbeReport => probes::REPORT_REQUEST,
            Self::ForwardingTables => fabriclens_forwarding_tables::LARGEST_REQUEST,
        }
    }

    /// Answers a request of this caller here.
    pub(crate) async fn answer(self, ingest: Arc<Ingest>, caller: Caller, request: Request) -> Response {
        let (ingest, caller) = (State(ingest), Extension(caller));
        match self {
            Self::ReaderLease => reader_lease::ask(ingest, caller, request).await,
            Self::ProbePlan => probes::plan(ingest, caller, request).await,
            Self::ProbeReport => probes::report(ingest, caller, request).await,
            Self::ForwardingTables => forwarding_tables::tell(ingest, caller, request).await,
        }
    }
}
