//! Series metadata: `/api/v1/series`, `labels`, `label/<name>/values`, `metadata`.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Path, State};
use fabriclens_model::{Budget, Labels, Matcher, ReadError};

use super::Api;
use super::blocking::{blocking, internal};
use super::encode;
use super::encode::Json;
use super::memory::Answer;
use super::params::Params;
use super::query::QueryContext;
use super::selector::Selectors;
use fabriclens_core::json_text::push_labels;
use fabriclens_core::json_text::push_text;
use fabriclens_data::Data;
use fabriclens_server::error::{ApiError, Kind};
use fabriclens_store::Metadata;

/// Most bytes in JSON of a byte of metadata: quotes, backslashes and line breaks are escaped, and there are no other control
/// characters.
const ESCAPED: usize = 2;
const METADATA_FRAME: usize = 64;
/// Beyond the time of any sample, with a margin for arithmetic.
const ALWAYS: (i64, i64) = (i64::MIN / 2, i64::MAX / 2);

/// Returns the label sets of matching series.
pub(super) async fn series(State(api): State<Arc<Api>>, params: Params) -> Result<Answer, ApiError> {
    let selectors = Selectors::some(&params)?;
    let size = |labels: &Labels| 4 + labels.iter().map(|(name, value)| name.len() + value.len() + 6).sum::<usize>();
    union(&api, &params, selectors, Data::series, size, push_labels).await
}

/// Returns the label names of matching series, or of all series.
pub(super) async fn labels(State(api): State<Arc<Api>>, params: Params) -> Result<Answer, ApiError> {
    let selectors = Selectors::all(&params)?;
    union(&api, &params, selectors, Data::label_names, |text| text_size(text), |out, name| push_text(out, name)).await
}

/// Returns the values of one label.
pub(super) async fn label_values(
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Answer, ApiError> {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.chars().all(valid) || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(ApiError::new(Kind::BadData, format!("invalid label name: {name:?}")));
    }
    let selectors = Selectors::all(&params)?;
    let values = move |data: &Data, m: &[Matcher], start, end, budget: &dyn Budget| {
        data.label_values(&name, m, start, end, budget)
    };
    union(&api, &params, selectors, values, |text| text_size(text), |out, value| push_text(out, value)).await
}

/// Bytes of a string in a JSON list, unless it has control characters.
fn text_size(text: &str) -> usize {
    text.len() + 4
}

/// Returns type, unit and help by metric name.
pub(super) async fn metadata(State(api): State<Arc<Api>>, params: Params) -> Result<Answer, ApiError> {
    let (limit, metric, store) = (params.limit()?, params.get("metric").map(str::to_owned), api.store.clone());
    let work = move |context: &QueryContext<'_>| {
        let all = store.metadata();
        let wanted: Vec<_> = match &metric {
            Some(metric) => all.get_key_value(metric).into_iter().collect(),
            None => all.iter().take(limit).collect(),
        };
        let bytes = wanted.iter().map(|(name, m)| ESCAPED * m.bytes(name) + METADATA_FRAME).sum();
        context.budget.request(bytes)?;
        Ok(encode::success(|out| push_metadata(out, &wanted)))
    };
    api.within_limits(&params, work).await
}

fn push_metadata(out: &mut String, all: &[(&String, &Metadata)]) {
    out.push('{');
    for (i, (name, m)) in all.iter().enumerate() {
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
}

/// Removes the metadata of one metric (`metric`), or of all.
pub(super) async fn delete_metadata(State(api): State<Arc<Api>>, params: Params) -> Result<Json, ApiError> {
    let (metric, store) = (params.get("metric").map(str::to_owned), api.store.clone());
    let deleted = blocking(move || store.remove_metadata(metric.as_deref()).map_err(internal)).await?;
    Ok(encode::success(|out| out.push_str(&format!("{{\"deleted\":{deleted}}}"))))
}

/// Parses `start` and `end`, by default all time. A range that ends before it starts is empty, not an error.
fn range(params: &Params) -> Result<(i64, i64), ApiError> {
    Ok((params.time_or("start", ALWAYS.0)?, params.time_or("end", ALWAYS.1)?))
}

/// Queries once for each selector (once without any if there is none); answers the sorted union.
async fn union<T: Ord + 'static>(
    api: &Api,
    params: &Params,
    selectors: Selectors,
    read: impl Fn(&Data, &[Matcher], i64, i64, &dyn Budget) -> Result<Vec<T>, ReadError> + Send + Sync + 'static,
    size: impl Fn(&T) -> usize + Send + Sync + 'static,
    write: impl Fn(&mut String, &T) + Send + Sync + 'static,
) -> Result<Answer, ApiError> {
    let ((start, end), limit) = (range(params)?, params.limit()?);
    let work = move |context: &QueryContext<'_>| {
        let (data, budget) = (context.data, context.budget);
        let sets = selectors.matchers(budget)?;
        let read = |matchers: &[Matcher]| read(data, matchers, start, end, budget);
        let found = match &sets[..] {
            _ if end < start => Vec::new(),
            [] => read(&[])?,
            [one] => read(one)?,
            many => {
                let mut all = BTreeSet::new();
                for set in many {
                    all.extend(read(set)?);
                }
                all.into_iter().collect()
            }
        };
        Ok(encode::list_within(&found, limit, data.missing(), budget, &size, &write)?)
    };
    api.within_limits(params, work).await
}
