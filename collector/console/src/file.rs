//! Answers with embedded files: content type, caching, compression, content security policy.

use std::borrow::Cow;
use std::io::Read as _;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flate2::read::GzDecoder;

/// The console runs its own scripts only, and loads nothing from elsewhere. Its charts set styles by script, which this permits; style
/// attributes in HTML it does not.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'self'; form-action 'none'; frame-ancestors 'none'";
/// A year: the name changes with the content.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// An embedded file.
pub(crate) struct File {
    /// Name below `/assets/`.
    pub(crate) name: &'static str,
    /// Content, compressed by gzip.
    pub(crate) gzip: &'static [u8],
}

/// How long browsers keep an answer.
#[derive(Clone, Copy)]
pub(crate) enum Caching {
    /// For ever.
    Immutable,
    /// They ask again each time, with this entity tag.
    Revalidate(&'static str),
    /// They ask again each time.
    Ask,
}

impl File {
    /// Answers with the file, compressed if the client takes gzip.
    pub(crate) fn answer(&self, headers: &HeaderMap) -> Response {
        let kind = content_type(self.name);
        if !takes_gzip(headers) {
            let mut plain = Vec::new();
            return match GzDecoder::new(self.gzip).read_to_end(&mut plain) {
                Ok(_) => answer(headers, kind, Caching::Immutable, plain.into()),
                Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{}: {error}\n", self.name)).into_response(),
            };
        }
        let mut response = answer(headers, kind, Caching::Immutable, self.gzip.into());
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    }
}

/// Answers with a body, or with 304 if the client has it.
pub(crate) fn answer(headers: &HeaderMap, kind: &'static str, caching: Caching, body: Cow<'static, [u8]>) -> Response {
    let (control, tag) = match caching {
        Caching::Immutable => (IMMUTABLE, None),
        Caching::Revalidate(tag) => ("no-cache", Some(tag)),
        Caching::Ask => ("no-cache", None),
    };
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok()).unwrap_or_default();
    let is_known = tag.is_some_and(|tag| known.split(',').any(|one| one.trim() == tag));
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => body.into_owned().into_response(),
    };
    let fixed = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, control),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::VARY, "accept-encoding"),
    ];
    let own = fixed.into_iter().chain(tag.map(|tag| (header::ETAG, tag)));
    for (name, value) in own {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Content type by the end of a name.
fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// Whether a client takes gzip. A list that names it with `q=0` refuses it.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let listed = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut codings = listed.flat_map(|list| list.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight: f32 = weight.trim().trim_start_matches("q=").parse().unwrap_or(1.0);
        matches!(name.trim(), "gzip" | "*") && weight > 0.0
    })
}
