use super::*;
use axum::body::to_bytes;
use axum::http::header;
use flate2::read::GzDecoder;
use std::io::Read as _;

/// Request headers.
fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
}

async fn read(response: Response) -> (StatusCode, HeaderMap, Vec<u8>) {
    let (parts, body) = response.into_parts();
    (parts.status, parts.headers, to_bytes(body, usize::MAX).await.unwrap().to_vec())
}

#[tokio::test]
async fn the_page_is_revalidated() {
    let (status, answered, body) = read(answer_page(&page_below("/"), &headers(&[]))).await;
    assert_eq!((status, answered[header::CACHE_CONTROL].to_str().unwrap()), (StatusCode::OK, "no-cache"));
    assert!(String::from_utf8(body).unwrap().contains("<title>Fabriclens</title>"));
    let known = headers(&[(header::IF_NONE_MATCH, answered[header::ETAG].to_str().unwrap())]);
    let (again, _, body) = read(answer_page(&page_below("/"), &known)).await;
    assert_eq!((again, body.len()), (StatusCode::NOT_MODIFIED, 0));
}

#[tokio::test]
async fn assets_are_compressed_immutable_and_bound_by_the_policy() {
    assert!(!files::ASSETS.is_empty());
    for file in files::ASSETS {
        let ask = async |coding: &str| {
            read(asset(Path(file.name.to_owned()), headers(&[(header::ACCEPT_ENCODING, coding)])).await).await
        };
        let (status, answered, small) = ask("br, gzip;q=0.8").await;
        assert_eq!((status, answered[header::CONTENT_ENCODING].to_str().unwrap()), (StatusCode::OK, "gzip"));
        assert!(answered[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        assert!(answered[header::CONTENT_SECURITY_POLICY].to_str().unwrap().starts_with("default-src 'none'"));
        let mut unpacked = Vec::new();
        GzDecoder::new(&small[..]).read_to_end(&mut unpacked).unwrap();
        for refused in ["br", "gzip;q=0, br"] {
            let (_, answered, plain) = ask(refused).await;
            assert!(!answered.contains_key(header::CONTENT_ENCODING) && plain == unpacked, "{refused}");
        }
    }
    assert_eq!(asset(Path("none.js".to_owned()), headers(&[])).await.status(), StatusCode::NOT_FOUND);
}

/// Bytes that a browser loads to show every page, compressed.
#[test]
fn the_console_fits_its_budget() {
    let all: usize = files::ASSETS.iter().map(|file| file.gzip.len()).sum::<usize>() + files::PAGE.len();
    assert!(all <= 400_000, "{all} bytes");
}

#[test]
fn the_page_runs_and_loads_nothing_of_its_own_text() {
    let page = files::PAGE;
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("style="));
    assert_eq!(page.matches("<script").count(), page.matches("<script type=\"module\"").count());
    assert_eq!(page.matches("<base href=\"/\">").count(), 1);
}

#[test]
fn links_begin_at_the_path_of_the_external_url() {
    assert_eq!(base_path(None), "/");
    assert_eq!(base_path(Some("https://fabric.example")), "/");
    assert_eq!(base_path(Some("https://fabric.example/lens/")), "/lens/");
    assert_eq!(base_path(Some("https://fabric.example/a'b")), "/");
    assert!(page_below("/lens/").contains("<base href=\"/lens/\">"));
}

/// Every runbook of the repository is there.
#[tokio::test]
async fn runbooks_are_served_as_text() {
    let at = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runbooks");
    for entry in std::fs::read_dir(at).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(docs::find(&format!("runbooks/{name}")).is_some(), "{name} is missing in DOCS");
    }
    let ask = async |page: &str| read(doc(Path(page.to_owned()), headers(&[])).await).await;
    let (status, answered, text) = ask("runbooks/pfc-storm.md").await;
    assert_eq!(
        (status, answered[header::CONTENT_TYPE].to_str().unwrap()),
        (StatusCode::OK, "text/plain; charset=utf-8")
    );
    assert!(text.starts_with(b"# FabricPfcStorm"));
    assert!(answered[header::CONTENT_SECURITY_POLICY].to_str().unwrap().starts_with("default-src 'none'"));
    assert_eq!(ask("runbooks/../../Cargo.toml").await.0, StatusCode::NOT_FOUND);
}
