//! A certificate authority and a server certificate made in memory, and the kubeconfig that trusts them.
//!
//! Does not: write files or ask clients for certificates.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use super::StartError;

/// The server's identity.
#[derive(Debug)]
pub(super) struct Identity {
    /// The authority's certificate, PEM.
    pub(super) authority_pem: String,
    config: Arc<rustls::ServerConfig>,
}

impl Identity {
    /// Makes a certificate for loopback and `address`.
    pub(super) fn new(address: IpAddr) -> Result<Self, StartError> {
        let failed = |error: rcgen::Error| StartError::Certificate(error.to_string());
        let mut authority = CertificateParams::new(Vec::<String>::new()).map_err(failed)?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority
            .distinguished_name
            .push(DnType::CommonName, "supercargo-apiserver-ca");
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_key = KeyPair::generate().map_err(failed)?;
        let authority_certificate = authority.self_signed(&authority_key).map_err(failed)?;
        let issuer = Issuer::new(authority, authority_key);

        let names = vec!["localhost".to_owned(), "kubernetes.default.svc".to_owned()];
        let mut server = CertificateParams::new(names).map_err(failed)?;
        server
            .distinguished_name
            .push(DnType::CommonName, "supercargo-apiserver");
        for ip in [IpAddr::from([127, 0, 0, 1]), address] {
            server.subject_alt_names.push(SanType::IpAddress(ip));
        }
        let server_key = KeyPair::generate().map_err(failed)?;
        let certificate = server.signed_by(&server_key, &issuer).map_err(failed)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
        let config = server_config(certificate.der().clone(), key)?;
        Ok(Self {
            authority_pem: authority_certificate.pem(),
            config: Arc::new(config),
        })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

fn server_config(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<rustls::ServerConfig, StartError> {
    let failed = |error: rustls::Error| StartError::Certificate(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(failed)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// A kubeconfig with one cluster, user and context.
pub(super) fn kubeconfig(url: &str, authority_pem: Option<&str>, token: Option<&str>) -> String {
    let authority = authority_pem
        .map(|pem| format!("    certificate-authority-data: {}\n", base64(pem.as_bytes())))
        .unwrap_or_default();
    let user = match token {
        Some(token) => format!("{{token: {token:?}}}"),
        None => "{}".to_owned(),
    };
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: embedded\n  cluster:\n    server: {url}\n{authority}users:\n- name: admin\n  \
         user: {user}\ncontexts:\n- name: embedded\n  context:\n    cluster: embedded\n    user: admin\n    namespace: default\n\
         current-context: embedded\n"
    )
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for position in 0..4 {
            let letter = usize::try_from(group >> (18 - 6 * position) & 63)
                .ok()
                .and_then(|at| ALPHABET.get(at));
            text.push(if position <= chunk.len() {
                letter.copied().map_or('=', char::from)
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads() {
        assert_eq!(base64(b"M"), "TQ==");
        assert_eq!(base64(b"Ma"), "TWE=");
        assert_eq!(base64(b"Man"), "TWFu");
        assert_eq!(base64(b""), "");
    }
}
