//! Reads PEM files into TLS settings of the `ureq` HTTP client.

use std::path::Path;

use ureq::tls::{Certificate, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

/// Returns TLS settings that trust only the certificate authorities of a PEM file.
///
/// # Errors
/// Describes why the file cannot be used.
pub fn trusting(path: &Path) -> Result<TlsConfig, String> {
    Ok(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&certificates(path)?)).build())
}

/// Reads all certificates of a PEM file.
///
/// # Errors
/// The file cannot be read or holds no certificate.
pub fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let of = |item| if let PemItem::Certificate(c) = item { Some(c) } else { None };
    let found: Vec<_> = items(path)?.into_iter().filter_map(of).collect();
    if found.is_empty() { Err("no PEM file with a certificate".to_owned()) } else { Ok(found) }
}

/// Reads the first private key of a PEM file.
///
/// # Errors
/// The file cannot be read or holds no key.
pub fn private_key(path: &Path) -> Result<PrivateKey<'static>, String> {
    let of = |item| if let PemItem::PrivateKey(key) = item { Some(key) } else { None };
    items(path)?.into_iter().find_map(of).ok_or_else(|| "no PEM file with a private key".to_owned())
}

fn items(path: &Path) -> Result<Vec<PemItem<'static>>, String> {
    let pem = std::fs::read(path).map_err(|e| format!("not readable: {e}"))?;
    Ok(parse_pem(&pem).filter_map(Result::ok).collect())
}
