//! Which client certificates are trusted.
//!
//! A bundle comes from a file, which is read again when it changes, or from the cluster's settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::client::files::WatchedFiles;
use crate::server::certificates::{parse_certificates, read_certificates};
use crate::server::{ServerError, x509};
use crate::sync::Mutex;

/// A CA bundle that may change; empty: nobody is trusted.
#[derive(Debug)]
pub(super) struct Trust {
    file: Option<PathBuf>,
    files: Mutex<WatchedFiles>,
    /// Text of the bundle that came from the cluster, to see when it changes.
    pem: Mutex<String>,
    verifier: ArcSwapOption<Verifier>,
}

/// Sized, so that it fits an `ArcSwap`.
#[derive(Debug)]
struct Verifier(Arc<dyn ClientCertVerifier>);

impl Trust {
    /// The bundle in `file`, or an empty one to be filled from the cluster's settings.
    pub(super) fn new(file: Option<&Path>) -> Result<Self, ServerError> {
        let mut files = WatchedFiles::new(file.iter().map(|path| (*path).to_owned()).collect());
        if let Some(fingerprint) = files.changed() {
            files.take(fingerprint);
        }
        let trust = Self {
            file: file.map(Path::to_owned),
            files: Mutex::new(files),
            pem: Mutex::default(),
            verifier: ArcSwapOption::empty(),
        };
        if let Some(path) = file {
            trust.set(&read_certificates(path)?, path)?;
        }
        Ok(trust)
    }

    /// Whether the bundle comes from the cluster's settings.
    pub(super) fn follows_cluster(&self) -> bool {
        self.file.is_none()
    }

    /// Takes in the bundle of the cluster's settings.
    pub(super) fn set_pem(&self, pem: &str) {
        let mut current = self.pem.lock();
        if *current == pem {
            return;
        }
        let origin = Path::new("configmap kube-system/extension-apiserver-authentication");
        let taken = parse_certificates(pem.as_bytes(), origin).and_then(|list| self.set(&list, origin));
        match taken {
            Ok(()) => pem.clone_into(&mut current),
            Err(error) => tracing::warn!(%error, "a CA bundle is not usable, the old one stays in use"),
        }
    }

    /// Takes in the file when it changed.
    pub(super) fn refresh(&self) {
        let Some(path) = &self.file else { return };
        let mut files = self.files.lock();
        let Some(fingerprint) = files.changed() else { return };
        match read_certificates(path).and_then(|list| self.set(&list, path)) {
            Ok(()) => files.take(fingerprint),
            Err(error) => tracing::warn!(%error, "a CA bundle is not usable, the old one stays in use"),
        }
    }

    fn set(&self, certificates: &[CertificateDer<'static>], origin: &Path) -> Result<(), ServerError> {
        let invalid = |message: String| ServerError::Certificate {
            path: origin.to_owned(),
            message,
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            roots
                .add(certificate.clone())
                .map_err(|error| invalid(error.to_string()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        self.verifier.store(Some(Arc::new(Verifier(verifier))));
        Ok(())
    }

    /// Whether there is a bundle at all.
    pub(super) fn is_known(&self) -> bool {
        self.verifier.load().is_some()
    }

    /// The subject of a chain that this bundle trusts.
    pub(super) fn verify(&self, chain: &[CertificateDer<'static>]) -> Result<x509::Subject, String> {
        let Some((certificate, intermediates)) = chain.split_first() else {
            return Err("no client certificate".to_owned());
        };
        let verifier = self.verifier.load();
        let Some(verifier) = verifier.as_ref() else {
            return Err("no CA is known".to_owned());
        };
        verifier
            .0
            .verify_client_cert(certificate, intermediates, UnixTime::now())
            .map_err(|error| format!("client certificate: {error}"))?;
        x509::subject(certificate).ok_or_else(|| "client certificate without a readable subject".to_owned())
    }
}
