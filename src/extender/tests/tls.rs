//! Extenders over TLS.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use supercargo_config::extender::{Extender as ExtenderConfig, ExtenderTls};
use tokio_rustls::TlsAcceptor;

use super::kit::*;
use crate::extender::Extenders;
use crate::testing::pod;

struct Authority(CertifiedIssuer<'static, KeyPair>);

/// Certificate and key as PEM.
type Pair = (String, String);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, host: &str) -> Pair {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn acceptor(&self, host: &str, asks_for_clients: bool) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (certificate, key) = self.issue(host);
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if asks_for_clients {
            let mut roots = RootCertStore::empty();
            roots
                .add(CertificateDer::from_pem_slice(self.0.pem().as_bytes()).unwrap())
                .unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

fn with_tls(url: &str, tls: ExtenderTls) -> ExtenderConfig {
    ExtenderConfig {
        tls: Some(tls),
        ..filtering(url)
    }
}

/// Asks, and says what failed.
async fn outcome(config: ExtenderConfig) -> Result<(), String> {
    let extenders = Extenders::new(&[config], &metrics()).map_err(|error| error.to_string())?;
    let question = question(&extenders, &with_text(&pod("p")), &["a"]);
    let answer = extenders.decide(&question).await;
    answer.failure.map_or(Ok(()), |status| Err(status.message()))
}

#[tokio::test]
async fn the_server_is_checked_against_the_ca_and_the_name() {
    let authority = Authority::new();
    let acceptor = authority.acceptor("localhost", false);
    let hook = Webhook::serve(Some(acceptor), |_, _| names(&["a"])).await;
    let trusting = ExtenderTls {
        ca_data: authority.0.pem().into_bytes(),
        ..ExtenderTls::default()
    };
    assert_eq!(outcome(with_tls(&hook.url, trusting.clone())).await, Ok(()));
    let stranger = ExtenderTls {
        ca_data: Authority::new().0.pem().into_bytes(),
        ..ExtenderTls::default()
    };
    assert!(outcome(with_tls(&hook.url, stranger)).await.is_err());
    let named = ExtenderTls {
        server_name: "other.example".to_owned(),
        ..trusting
    };
    assert!(outcome(with_tls(&hook.url, named)).await.is_err());
    let insecure = ExtenderTls {
        insecure: true,
        ..ExtenderTls::default()
    };
    assert_eq!(outcome(with_tls(&hook.url, insecure)).await, Ok(()));
    let mut unchecked = filtering(&hook.url);
    unchecked.enable_https = true;
    assert_eq!(
        outcome(unchecked).await,
        Ok(()),
        "enableHTTPS without a CA checks nothing"
    );
    assert!(outcome(filtering(&hook.url)).await.is_err(), "nobody else trusts it");
}

#[tokio::test]
async fn a_server_of_another_name_is_reached_by_that_name() {
    let authority = Authority::new();
    let acceptor = authority.acceptor("extender.example", false);
    let hook = Webhook::serve(Some(acceptor), |_, _| names(&["a"])).await;
    let tls = ExtenderTls {
        ca_data: authority.0.pem().into_bytes(),
        server_name: "extender.example".to_owned(),
        ..ExtenderTls::default()
    };
    assert_eq!(outcome(with_tls(&hook.url, tls)).await, Ok(()));
}

#[tokio::test]
async fn a_client_shows_its_certificate_and_data_goes_before_files() {
    let authority = Authority::new();
    let acceptor = authority.acceptor("localhost", true);
    let hook = Webhook::serve(Some(acceptor), |_, _| names(&["a"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (certificate, key) = authority.issue("me");
    let tls = ExtenderTls {
        ca_file: "/nowhere/ca.crt".to_owned(),
        ca_data: authority.0.pem().into_bytes(),
        cert_file: file("tls.crt", &certificate),
        key_file: file("tls.key", &key),
        ..ExtenderTls::default()
    };
    assert_eq!(outcome(with_tls(&hook.url, tls.clone())).await, Ok(()));
    let unknown = ExtenderTls {
        cert_file: String::new(),
        key_file: String::new(),
        ..tls
    };
    assert!(outcome(with_tls(&hook.url, unknown)).await.is_err());
}

#[tokio::test]
async fn settings_that_do_not_fit_together_are_errors_at_the_start() {
    let pem = Authority::new().0.pem().into_bytes();
    let wrong = [
        (
            ExtenderTls {
                insecure: true,
                ca_data: pem.clone(),
                ..ExtenderTls::default()
            },
            "with the insecure flag is not allowed",
        ),
        (
            ExtenderTls {
                cert_data: pem,
                ..ExtenderTls::default()
            },
            "a client certificate needs its key",
        ),
        (
            ExtenderTls {
                ca_data: b"no pem".to_vec(),
                ..ExtenderTls::default()
            },
            "no certificate in the CA bundle",
        ),
        (
            ExtenderTls {
                ca_file: "/nowhere/ca.crt".to_owned(),
                ..ExtenderTls::default()
            },
            "file /nowhere/ca.crt cannot be read",
        ),
        (
            ExtenderTls {
                server_name: "no name!".to_owned(),
                ..ExtenderTls::default()
            },
            "serverName",
        ),
    ];
    for (tls, expected) in wrong {
        let error = outcome(with_tls("https://localhost:1", tls)).await.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
