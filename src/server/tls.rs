//! Versions, cipher suites, key exchange and client certificates of the server.
//!
//! A client certificate is asked for and never required. The handshake proves that the client owns the key; whether the
//! certificate is trusted is authentication's question, so that an unknown one is answered with 401 and not with an
//! alert.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CipherSuite, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme, SupportedProtocolVersion,
};

use super::certificates::Certificates;
use super::{Http2, ServerError};

/// Versions, cipher suites and curves, by the names and numbers that kube-scheduler's flags use.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// `--tls-min-version`: `VersionTLS10` to `VersionTLS13`, or empty for TLS 1.2. Below 1.2 nothing is spoken.
    pub min_version: String,
    /// `--tls-cipher-suites`, by Go's names; empty for all. As in Go, the suites of TLS 1.3 cannot be chosen.
    pub cipher_suites: Vec<String>,
    /// `--tls-curve-preferences`: the groups of key exchange by their IANA numbers, in any order; empty for all.
    pub curves: Vec<u16>,
}

/// Go's name, ours, and `None` where this server does not speak a suite that Go does (CBC and static RSA).
const CIPHER_SUITES: &[(&str, Option<CipherSuite>)] = &[
    ("TLS_AES_128_GCM_SHA256", Some(CipherSuite::TLS13_AES_128_GCM_SHA256)),
    ("TLS_AES_256_GCM_SHA384", Some(CipherSuite::TLS13_AES_256_GCM_SHA384)),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        Some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        Some(CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        Some(CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        Some(CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        Some(CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", None),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", None),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", None),
    ("TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", None),
    ("TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", None),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", None),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", None),
    ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", None),
    ("TLS_ECDHE_RSA_WITH_RC4_128_SHA", None),
    ("TLS_RSA_WITH_3DES_EDE_CBC_SHA", None),
    ("TLS_RSA_WITH_AES_128_CBC_SHA", None),
    ("TLS_RSA_WITH_AES_128_CBC_SHA256", None),
    ("TLS_RSA_WITH_AES_128_GCM_SHA256", None),
    ("TLS_RSA_WITH_AES_256_CBC_SHA", None),
    ("TLS_RSA_WITH_AES_256_GCM_SHA384", None),
    ("TLS_RSA_WITH_RC4_128_SHA", None),
];

static FROM_TLS12: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
static FROM_TLS13: [&SupportedProtocolVersion; 1] = [&TLS13];

/// The configuration of all connections.
pub(super) fn server_config(
    options: &TlsOptions,
    http2: Http2,
    certificates: Arc<Certificates>,
) -> Result<ServerConfig, ServerError> {
    let versions = versions(&options.min_version)?;
    let mut provider = rustls::crypto::ring::default_provider();
    restrict(&mut provider, &options.cipher_suites)?;
    restrict_curves(&mut provider, &options.curves)?;
    let verifier = AcceptAnyOwner(provider.signature_verification_algorithms);
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .map_err(|error| ServerError::Tls(format!("TLS versions and cipher suites do not fit together: {error}")))?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(certificates);
    config.alpn_protocols = match http2 {
        Http2::Disabled => vec![b"http/1.1".to_vec()],
        Http2::Enabled { .. } => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(config)
}

fn versions(minimum: &str) -> Result<&'static [&'static SupportedProtocolVersion], ServerError> {
    match minimum {
        "" | "VersionTLS12" => Ok(&FROM_TLS12),
        "VersionTLS10" | "VersionTLS11" => {
            tracing::warn!(asked = minimum, "TLS below 1.2 is not spoken");
            Ok(&FROM_TLS12)
        }
        "VersionTLS13" => Ok(&FROM_TLS13),
        other => Err(ServerError::Tls(format!("unknown tls version {other:?}"))),
    }
}

/// Keeps the suites of TLS 1.3 and, of the others, those that were named.
fn restrict(provider: &mut CryptoProvider, names: &[String]) -> Result<(), ServerError> {
    if names.is_empty() {
        return Ok(());
    }
    let mut wanted = Vec::with_capacity(names.len());
    for name in names {
        match CIPHER_SUITES.iter().find(|(known, _)| known == name) {
            Some((_, Some(suite))) => wanted.push(*suite),
            Some((_, None)) => tracing::warn!(suite = %name, "this cipher suite is not spoken and left out"),
            None => {
                return Err(ServerError::Tls(format!(
                    "cipher suite {name} not supported or doesn't exist"
                )));
            }
        }
    }
    if wanted.is_empty() {
        return Err(ServerError::Tls(format!(
            "none of the cipher suites {} is spoken",
            names.join(",")
        )));
    }
    provider
        .cipher_suites
        .retain(|suite| suite.tls13().is_some() || wanted.contains(&suite.suite()));
    Ok(())
}

/// Keeps the groups of key exchange that were named, in their own order.
fn restrict_curves(provider: &mut CryptoProvider, curves: &[u16]) -> Result<(), ServerError> {
    if curves.is_empty() {
        return Ok(());
    }
    provider
        .kx_groups
        .retain(|group| curves.contains(&u16::from(group.name())));
    if provider.kx_groups.is_empty() {
        return Err(ServerError::Tls(format!("none of the curves {curves:?} is spoken")));
    }
    Ok(())
}

/// Takes any certificate whose key the client owns.
#[derive(Debug)]
struct AcceptAnyOwner(WebPkiSupportedAlgorithms);

impl ClientCertVerifier for AcceptAnyOwner {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(names: &[&str]) -> Result<Vec<String>, String> {
        let mut provider = rustls::crypto::ring::default_provider();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        restrict(&mut provider, &names).map_err(|error| error.to_string())?;
        Ok(provider
            .cipher_suites
            .iter()
            .filter(|suite| suite.tls13().is_none())
            .map(|suite| format!("{:?}", suite.suite()))
            .collect())
    }

    #[test]
    fn suites_are_chosen_by_their_go_names() {
        assert_eq!(suites(&[]).unwrap().len(), 6);
        assert_eq!(
            suites(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"]).unwrap(),
            ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
        );
        assert_eq!(
            suites(&["TLS_NULL"]).unwrap_err(),
            "cipher suite TLS_NULL not supported or doesn't exist"
        );
        assert_eq!(
            suites(&["TLS_RSA_WITH_RC4_128_SHA"]).unwrap_err(),
            "none of the cipher suites TLS_RSA_WITH_RC4_128_SHA is spoken"
        );
    }

    #[test]
    fn curves_are_chosen_by_their_numbers() {
        let curves = |numbers: &[u16]| {
            let mut provider = rustls::crypto::ring::default_provider();
            restrict_curves(&mut provider, numbers).map_err(|error| error.to_string())?;
            let groups = provider.kx_groups.iter().map(|group| u16::from(group.name()));
            Ok::<_, String>(groups.collect::<Vec<u16>>())
        };
        assert_eq!(curves(&[]).unwrap(), [29, 23, 24]);
        assert_eq!(curves(&[4588, 24, 29]).unwrap(), [29, 24]);
        assert_eq!(curves(&[25]).unwrap_err(), "none of the curves [25] is spoken");
    }

    #[test]
    fn an_unknown_version_is_refused() {
        assert_eq!(versions("VersionTLS13").unwrap().len(), 1);
        assert_eq!(versions("").unwrap().len(), 2);
        assert_eq!(versions("1.2").unwrap_err().to_string(), "unknown tls version \"1.2\"");
    }
}
