//! `/api/v1/topology/signals`: signals of all ports at an instant, as columns, to color the drawing of the topology.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use fabriclens_model::Budget as _;

use super::Api;
use super::encode;
use super::params::Params;
use super::port_signals::{PortSignal, SIGNALS, push_value, snapshot};
use super::query::QueryContext;
use fabriclens_core::json_text::{push_text, push_time};
use fabriclens_core::time::now_ms;
use fabriclens_server::error::ApiError;

/// Most ports of an answer; a fabric of 2,000 hosts with 8 ports and their switches has about 40,000.
const PORTS: usize = 65_536;
/// Length of a port besides its names, and of its value, in the answer, bytes.
const PORT_BYTES: usize = 48;

/// Answers with the signals that `signals` names, at `time`.
pub(super) async fn signals(State(api): State<Arc<Api>>, params: Params) -> Response {
    let evaluate = async {
        let asked = asked(&params)?;
        let time_ms = params.time_or("time", now_ms())?;
        let present = api.present(&params).await;
        let work = move |context: &QueryContext<'_>| {
            let ports = snapshot(context, present.as_deref(), &asked, time_ms)?;
            let cut = ports.len() > PORTS;
            let shown = || ports.iter().take(PORTS);
            let names: usize = shown().map(|((node, port), _)| node.len() + port.len()).sum();
            context.budget.request(names + ports.len().min(PORTS) * PORT_BYTES * (1 + asked.len()))?;
            let columns = |out: &mut String| {
                out.push_str("{\"time\":");
                push_time(out, time_ms);
                out.push_str(",\"ports\":");
                list(out, shown(), |out, ((node, port), _)| {
                    out.push('[');
                    push_text(out, node);
                    out.push(',');
                    push_text(out, port);
                    out.push(']');
                });
                out.push_str(",\"signals\":");
                list(out, asked.iter().enumerate(), |out, (at, signal)| {
                    out.push_str("{\"name\":");
                    push_text(out, signal.name);
                    out.push_str(",\"unit\":");
                    push_text(out, signal.unit);
                    out.push_str(",\"values\":");
                    list(out, shown(), |out, (_, values)| push_value(out, values[at]));
                    out.push('}');
                });
                out.push('}');
            };
            let mut warnings = context.data.missing();
            warnings.extend(cut.then(|| format!("only {PORTS} of {} ports are listed", ports.len())));
            Ok(encode::success_with(columns, &warnings))
        };
        api.within_limits(&params, work).await
    };
    api.measured("topology_signals", evaluate).await
}

/// The signals of a request: names with commas between them.
fn asked(params: &Params) -> Result<Vec<&'static PortSignal>, ApiError> {
    let known = || SIGNALS.map(|signal| signal.name).join(", ");
    let one = |name: &str| {
        let found = SIGNALS.iter().find(|signal| signal.name == name.trim());
        found.ok_or_else(|| ApiError::parameter("signals", format!("{name:?} is none of {}", known())))
    };
    let text = params.get("signals");
    let text = text.ok_or_else(|| ApiError::parameter("signals", format!("missing; name some of {}", known())))?;
    let mut all = text.split(',').map(one).collect::<Result<Vec<_>, _>>()?;
    all.dedup_by_key(|signal| signal.name);
    if all.len() > SIGNALS.len() {
        return Err(ApiError::parameter("signals", "a signal is named twice"));
    }
    Ok(all)
}

/// Writes a JSON array.
pub(super) fn list<T>(out: &mut String, items: impl Iterator<Item = T>, mut write: impl FnMut(&mut String, T)) {
    out.push('[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_known_signals() {
        let of = |query: &str| {
            let asked = asked(&Params::decode(query.as_bytes()).unwrap());
            asked.map(|all| all.iter().map(|signal| signal.name).collect::<Vec<_>>()).map_err(|error| error.message)
        };
        assert_eq!(of("signals=utilization,pause_sent").unwrap(), ["utilization", "pause_sent"]);
        assert!(of("signals=heat").unwrap_err().contains("\"heat\" is none of utilization,"));
        assert!(of("").unwrap_err().contains("missing; name some of utilization,"));
        assert!(of(&format!("signals={}", ["up,marks"; 6].join(","))).unwrap_err().contains("twice"));
    }
}
