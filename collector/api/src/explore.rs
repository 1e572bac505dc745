//! Series metadata: `/api/v1/series`, `labels`, `label/<name>/values`, `metadata`.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Path, State};
use fabriclens_model::{Labels, Matcher, ReadError};

use super::Api;
use super::encode;
use super::encode::Json;
use super::params::Params;
use super::selector;
use fabriclens_core::json_text::push_labels;
use fabriclens_core::json_text::push_text;
use fabriclens_core::query_thread::on_query_thread;
use fabriclens_data::Data;
use fabriclens_server::error::{ApiError, Kind};

/// Beyond the time of any sample, with a margin for arithmetic.
const ALWAYS: (i64, i64) = (i64::MIN / 2, i64::MAX / 2);

/// Returns the label sets of matching series.
pub(super) async fn series(State(api): State<Arc<Api>>, params: Params) -> Result<Json, ApiError> {
    let (sets, range, limit) = (selector::some(&params)?, range(&params)?, params.limit()?);
    let found: Vec<Labels> = union(&api, &params, sets, range, Data::series).await?;
    Ok(encode::success_list(&found, limit, api.data(&params).missing(), push_labels))
}

/// Returns the label names of matching series, or of all series.
pub(super) async fn labels(State(api): State<Arc<Api>>, params: Params) -> Result<Json, ApiError> {
    let (sets, range, limit) = (selector::all(&params)?, range(&params)?, params.limit()?);
    let found: Vec<String> = union(&api, &params, sets, range, Data::label_names).await?;
    Ok(encode::success_list(&found, limit, api.data(&params).missing(), |out, name| push_text(out, name)))
}

/// Returns the values of one label.
pub(super) async fn label_values(
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json, ApiError> {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.chars().all(valid) || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(ApiError::new(Kind::BadData, format!("invalid label name: {name:?}")));
    }
    let (sets, range, limit) = (selector::all(&params)?, range(&params)?, params.limit()?);
    let found: Vec<String> =
        union(&api, &params, sets, range, move |store, m, start, end| store.label_values(&name, m, start, end)).await?;
    Ok(encode::success_list(&found, limit, api.data(&params).missing(), |out, value| push_text(out, value)))
}

/// Returns type, unit and help by metric name.
pub(super) async fn metadata(State(api): State<Arc<Api>>, params: Params) -> Result<Json, ApiError> {
    let limit = params.limit()?;
    let all = api.store.metadata();
    let wanted: Vec<_> = match params.get("metric") {
        Some(metric) => all.get_key_value(metric).into_iter().collect(),
        None => all.iter().take(limit).collect(),
    };
    Ok(encode::success(|out| {
        out.push('{');
        for (i, (name, m)) in wanted.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            push_text(out, name);
            out.push_str(":[{\"type\":");
            push_text(out, &m.kind);
            out.push_str(",\"help\":");
            push_text(out, &m.help);
            out.push_str(",\"unit\":");
            push_text(out, &m.unit);
            out.push_str("}]");
        }
        out.push('}');
    }))
}

/// Parses `start` and `end`, by default all time. A range that ends before it starts is empty, not an error.
fn range(params: &Params) -> Result<(i64, i64), ApiError> {
    Ok((params.time_or("start", ALWAYS.0)?, params.time_or("end", ALWAYS.1)?))
}

/// Queries once for each selector (once without any if there is none) and returns the sorted union.
async fn union<T: Ord + Send + 'static>(
    api: &Api,
    params: &Params,
    sets: Vec<Vec<Matcher>>,
    (start, end): (i64, i64),
    ask: impl Fn(&Data, &[Matcher], i64, i64) -> Result<Vec<T>, ReadError> + Send + 'static,
) -> Result<Vec<T>, ApiError> {
    if end < start {
        return Ok(Vec::new());
    }
    let ask = move |store: &Data, matchers: &[Matcher]| ask(store, matchers, start, end);
    let store = api.data(params);
    let permit = tokio::time::timeout(api.config.query.timeout, api.pool.enter(0)).await;
    let _permit = permit.map_err(|_| api.no_permit(false))?;
    let job = on_query_thread(move || match &sets[..] {
        [] => ask(&store, &[]),
        [one] => ask(&store, one),
        many => {
            let mut all = BTreeSet::new();
            for set in many {
                all.extend(ask(&store, set)?);
            }
            Ok(all.into_iter().collect())
        }
    });
    match job.await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(e @ (ReadError::Limit(_) | ReadError::Memory))) => Err(ApiError::new(Kind::Execution, e.to_string())),
        Ok(Err(ReadError::Storage(m))) => Err(ApiError::new(Kind::Internal, m)),
        Err(e) => Err(ApiError::new(Kind::Internal, format!("internal error: {e}; please report it"))),
    }
}
