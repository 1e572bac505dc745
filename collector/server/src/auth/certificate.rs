//! Names in a client certificate. The handshake has verified its chain before.

use std::sync::Arc;

use super::hosts::forms;
use fabriclens_base::host_name;
use fabriclens_config::HostId;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// Names of a verified certificate: URIs (SPIFFE IDs) and DNS names, or the common name if it has neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Never empty.
    names: Vec<Arc<str>>,
    /// Host names that the certificate stands for, in lower case.
    pub hosts: Arc<[String]>,
}

impl Certificate {
    /// Reads a certificate; `None` if it has no usable name.
    pub fn read(der: &[u8], host_id: &HostId) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let mut names: Vec<Arc<str>> = Vec::new();
        let mut hosts = Vec::new();
        let mut dns = |name: &str, names: &mut Vec<Arc<str>>| {
            hosts.extend(forms(name));
            names.push(host_name::key(name).into());
        };
        let mut ids = Vec::new();
        for name in certificate.subject_alternative_name().ok().flatten().iter().flat_map(|s| &s.value.general_names) {
            match name {
                GeneralName::URI(uri) => ids.push(*uri),
                GeneralName::DNSName(name) => dns(name, &mut names),
                _ => {}
            }
        }
        if names.is_empty() && ids.is_empty() {
            let common = certificate.subject().iter_common_name().next()?.as_str().ok()?;
            dns(common, &mut names);
        }
        hosts.extend(ids.iter().filter_map(|id| host_id.host(id)).map(host_name::key));
        // IDs come first, since logs show the first name.
        names.splice(0..0, ids.into_iter().map(Arc::from));
        names.retain(|name| !name.is_empty());
        hosts.retain(|host| !host.is_empty() && host != "*");
        (!names.is_empty()).then(|| Self { names, hosts: hosts.into() })
    }

    /// The name shown in logs.
    pub fn name(&self) -> &Arc<str> {
        &self.names[0]
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    fn read(common: Option<&str>, names: Vec<SanType>) -> Option<Certificate> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(common) = common {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        params.subject_alt_names = names;
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        Certificate::read(certificate.der(), &HostId::parse("spiffe://*/host/{host}").unwrap())
    }

    #[test]
    fn names_come_from_the_alternative_names() {
        let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
        let uri = |name: &str| SanType::URI(name.try_into().unwrap());
        let hosts = |c: &Certificate| c.hosts.to_vec();
        let c = read(Some("someone-else"), vec![dns("GPU-01.example.org")]).unwrap();
        assert_eq!(
            (&**c.name(), hosts(&c)),
            ("gpu-01.example.org", vec!["gpu-01.example.org".into(), "gpu-01".into()])
        );
        let c = read(None, vec![dns("a.b"), uri("spiffe://td/host/gpu-02"), uri("spiffe://td/ns/x")]).unwrap();
        assert_eq!(
            (&**c.name(), hosts(&c)),
            ("spiffe://td/host/gpu-02", vec!["a.b".into(), "a".into(), "gpu-02".into()])
        );
        let c = read(Some("plain"), vec![]).unwrap();
        assert_eq!(hosts(&c), ["plain"]);
        // A wildcard is not a host, and the common name is ignored if there are other names.
        assert!(read(None, vec![dns("*.example")]).unwrap().hosts.iter().all(|h| h == "*.example"));
        assert_eq!(hosts(&read(Some("h1"), vec![uri("spiffe://td/ns/agents/sa/agent")]).unwrap()), [""; 0]);
        assert!(read(None, vec![]).is_none() && read(Some(""), vec![]).is_none());
    }
}
