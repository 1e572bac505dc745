//! `/api/v1/incidents/stream`: one server-sent event for each change. A client that reconnects with `Last-Event-ID`
//! gets the missed events, or `reset` if they are no longer kept; it must then read the list again.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::watch;

use super::filter;
use super::listeners::Permit;
use crate::Api;
use crate::params::Params;
use fabriclens_core::time::now_ns;
use fabriclens_incidents::{Change, Filter, IncidentView, State as Happened};
use fabriclens_server::auth::Caller;
use fabriclens_server::error::{ApiError, Kind};

/// State of one stream.
struct EventStream {
    api: Arc<Api>,
    filter: Filter,
    seq: u64,
    /// What is to be sent next: changes, or that the reader missed some (`None`). Their text is written when the client takes it.
    ready: VecDeque<Option<Arc<Change>>>,
    follow: watch::Receiver<u64>,
    stopping: watch::Receiver<bool>,
    _permit: Permit,
}

#[derive(Serialize)]
struct ChangeEvent<'a> {
    changes: &'a [Happened],
    incident: IncidentView<'a>,
}

/// Streams events until the client disconnects or the collector stops.
pub(crate) async fn stream(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let filter = filter(&params)?;
    let permit = api.listeners.take(&caller).map_err(|text| ApiError::new(Kind::Unavailable, text))?;
    let mut follow = api.incidents.changes.follow();
    let now = *follow.borrow_and_update();
    let last = headers.get("last-event-id").and_then(|v| v.to_str().ok()).unwrap_or_default();
    let resumed = last.split_once('-').filter(|(of, _)| *of == api.started_ms.to_string());
    let resumed = resumed.and_then(|(_, seq)| seq.parse().ok());
    let mut ready = VecDeque::new();
    if !last.is_empty() && resumed.is_none() {
        ready.push_back(None);
    }
    let stopping = api.stopping.subscribe();
    let seq = resumed.unwrap_or(now);
    // Changes since `Last-Event-ID` are sent at once.
    follow.mark_changed();
    let listening = EventStream { api, filter, seq, ready, follow, stopping, _permit: permit };
    let events = stream::unfold(listening, |mut l| async move { Some((Ok::<_, Infallible>(l.next().await?), l)) });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

fn reset() -> Event {
    Event::default().event("reset").data("{}")
}

impl EventStream {
    /// Next event; `None` when the collector stops.
    async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(next) = self.ready.pop_front() {
                let event = next.map_or_else(|| Some(reset()), |change| self.event(&change));
                if event.is_some() {
                    return event;
                }
            }
            tokio::select! {
                _ = self.stopping.wait_for(|s| *s) => return None,
                changed = self.follow.changed() => changed.ok()?,
            }
            match self.api.incidents.changes.after(self.seq) {
                Ok(changes) => {
                    for change in changes {
                        self.seq = change.seq;
                        self.ready.push_back(Some(change));
                    }
                }
                Err(_) => {
                    self.seq = *self.follow.borrow();
                    self.ready.push_back(None);
                }
            }
        }
    }

    fn event(&self, change: &Change) -> Option<Event> {
        if !self.filter.fits(&change.record) {
            return None;
        }
        let incident = super::shown(&self.api.incidents, &change.record, now_ns());
        let data = serde_json::to_string(&ChangeEvent { changes: &change.states, incident }).ok()?;
        let id = format!("{}-{}", self.api.started_ms, change.seq);
        Some(Event::default().id(id).event("incident").data(data))
    }
}
