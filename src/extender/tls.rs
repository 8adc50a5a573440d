//! TLS towards an extender.
//!
//! The prefix decides whether TLS is spoken. `enableHTTPS` without a CA leaves the server's certificate unchecked, as
//! upstream.
//!
//! Source: `pkg/scheduler/extender.go` (`makeTransport`), Kubernetes 1.36.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme};
use supercargo_config::extender::{Extender, ExtenderTls};

use super::ExtenderError;
use crate::client::files;

/// Files whose contents matter: looked at again while the scheduler runs.
pub(super) fn files_of(config: &Extender) -> Vec<PathBuf> {
    let Some(tls) = &config.tls else { return Vec::new() };
    let pairs = [
        (&tls.ca_data, &tls.ca_file),
        (&tls.cert_data, &tls.cert_file),
        (&tls.key_data, &tls.key_file),
    ];
    let used = pairs
        .into_iter()
        .filter(|(data, file)| data.is_empty() && !file.is_empty());
    used.map(|(_, file)| PathBuf::from(file)).collect()
}

/// The client's side of connections to an extender.
///
/// # Errors
/// A file cannot be read, or the settings do not fit together.
pub(super) fn client_config(config: &Extender) -> Result<ClientConfig, ExtenderError> {
    let none = ExtenderTls::default();
    let tls = config.tls.as_ref().unwrap_or(&none);
    let material = Material { config, tls };
    let ca = material.read(&tls.ca_data, &tls.ca_file)?;
    if tls.insecure && ca.is_some() {
        let text = "specifying a root certificates file with the insecure flag is not allowed";
        return Err(material.wrong(text));
    }
    let identity = material.identity()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| material.wrong(error))?;
    let unchecked = tls.insecure || config.enable_https && ca.is_none();
    let builder = match ca {
        _ if unchecked => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unchecked(algorithms))),
        Some(pem) => builder.with_root_certificates(material.roots(&pem)?),
        None if config.url_prefix.starts_with("https:") => {
            builder.with_native_roots().map_err(|error| material.wrong(error))?
        }
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    material.finish(builder, identity)
}

/// The name to ask for and to check, if it is not the prefix's host.
///
/// # Errors
/// It is no name.
pub(super) fn server_name(config: &Extender) -> Result<Option<ServerName<'static>>, ExtenderError> {
    let Some(tls) = config.tls.as_ref().filter(|tls| !tls.server_name.is_empty()) else {
        return Ok(None);
    };
    let material = Material { config, tls };
    let name = ServerName::try_from(tls.server_name.clone());
    name.map(Some)
        .map_err(|error| material.wrong(format!("serverName {:?}: {error}", tls.server_name)))
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

struct Material<'a> {
    config: &'a Extender,
    tls: &'a ExtenderTls,
}

impl Material<'_> {
    fn wrong(&self, message: impl std::fmt::Display) -> ExtenderError {
        ExtenderError::Tls {
            url: self.config.url_prefix.clone(),
            message: message.to_string(),
        }
    }

    /// Data before the file; `None`: neither is given.
    fn read(&self, data: &[u8], file: &str) -> Result<Option<Vec<u8>>, ExtenderError> {
        if !data.is_empty() {
            return Ok(Some(data.to_vec()));
        }
        if file.is_empty() {
            return Ok(None);
        }
        let path = Path::new(file);
        let read = files::read(path).map_err(|source| ExtenderError::File {
            url: self.config.url_prefix.clone(),
            path: path.to_owned(),
            source,
        });
        read.map(Some)
    }

    fn certificates(&self, pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, ExtenderError> {
        let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match parsed {
            Ok(list) if list.is_empty() => Err(self.wrong(format!("no certificate in the {what}"))),
            Ok(list) => Ok(list),
            Err(error) => Err(self.wrong(format!("the {what}: {error}"))),
        }
    }

    fn roots(&self, pem: &[u8]) -> Result<RootCertStore, ExtenderError> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates(pem, "CA bundle")? {
            roots
                .add(certificate)
                .map_err(|error| self.wrong(format!("the CA bundle: {error}")))?;
        }
        Ok(roots)
    }

    fn identity(&self) -> Result<Option<Identity>, ExtenderError> {
        let certificate = self.read(&self.tls.cert_data, &self.tls.cert_file)?;
        let key = self.read(&self.tls.key_data, &self.tls.key_file)?;
        match (certificate, key) {
            (Some(certificate), Some(key)) => {
                let key = PrivateKeyDer::from_pem_slice(&key)
                    .map_err(|error| self.wrong(format!("the client key: {error}")))?;
                Ok(Some((self.certificates(&certificate, "client certificate")?, key)))
            }
            (None, None) => Ok(None),
            _ => Err(self.wrong("a client certificate needs its key and a key its certificate")),
        }
    }

    fn finish(
        &self,
        builder: ConfigBuilder<ClientConfig, WantsClientCert>,
        identity: Option<Identity>,
    ) -> Result<ClientConfig, ExtenderError> {
        match identity {
            None => Ok(builder.with_no_client_auth()),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| self.wrong(format!("the client certificate: {error}"))),
        }
    }
}

/// Takes any certificate; the handshake still proves that the server owns its key.
#[derive(Debug)]
struct Unchecked(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
