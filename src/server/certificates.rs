//! The server's certificates: from files, from a folder, or made here; by name where a client names a server.
//!
//! Threads: handshakes read the set in use through an `ArcSwap`; one task ([`Certificates::follow`]) looks at the files
//! every ten seconds and swaps the set when they changed and can be used.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::ServerError;
use crate::client::files::{self, WatchedFiles};
use crate::sync::Mutex;

/// Name of the pair in `--cert-dir`, as kube-scheduler names it.
const PAIR_NAME: &str = "kube-scheduler";

/// Where the server's certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// Made at start and kept in memory, for `localhost`, the loopback addresses and these names.
    SelfSigned {
        /// Further names and addresses.
        hosts: Vec<String>,
    },
    /// `--tls-cert-file` and `--tls-private-key-file`.
    Files {
        /// Certificate, followed by its chain.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// `--cert-dir`: the pair in this folder, made and stored there when it is missing.
    Folder {
        /// The folder.
        path: PathBuf,
        /// Names and addresses for a pair that is made.
        hosts: Vec<String>,
    },
}

/// `--tls-sni-cert-key`: a certificate for clients that ask for one of these names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SniCertificate {
    /// Certificate, followed by its chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Names, also with `*.` at the start; empty: those of the certificate.
    pub names: Vec<String>,
}

/// A certificate with the names that it is meant for; none: those in it.
type Named = (Vec<String>, Arc<CertifiedKey>);

#[derive(Debug)]
struct Set {
    default: Arc<CertifiedKey>,
    named: Vec<Named>,
}

/// The certificates in use.
#[derive(Debug)]
pub(super) struct Certificates {
    /// Files to read again; `None` for the certificate made in memory.
    default: Option<(PathBuf, PathBuf)>,
    sni: Vec<SniCertificate>,
    set: ArcSwap<Set>,
    files: Mutex<WatchedFiles>,
}

impl Certificates {
    /// Reads or makes all certificates.
    pub(super) fn load(source: &CertificateSource, sni: &[SniCertificate]) -> Result<Self, ServerError> {
        let (default, generated) = match source {
            CertificateSource::SelfSigned { hosts } => (None, Some(self_signed(hosts)?.1)),
            CertificateSource::Files { certificate, key } => (Some((certificate.clone(), key.clone())), None),
            CertificateSource::Folder { path, hosts } => (Some(pair_in(path, hosts)?), None),
        };
        let paths = default
            .iter()
            .flat_map(|(certificate, key)| [certificate, key])
            .chain(sni.iter().flat_map(|entry| [&entry.certificate, &entry.key]))
            .cloned()
            .collect();
        let mut files = WatchedFiles::new(paths);
        if let Some(fingerprint) = files.changed() {
            files.take(fingerprint);
        }
        let default_key = match (&default, generated) {
            (Some((certificate, key)), _) => read_pair(certificate, key)?,
            (None, Some(generated)) => generated,
            (None, None) => self_signed(&[])?.1,
        };
        let set = Set {
            default: Arc::new(default_key),
            named: read_named(sni)?,
        };
        Ok(Self {
            default,
            sni: sni.to_vec(),
            set: ArcSwap::from_pointee(set),
            files: Mutex::new(files),
        })
    }

    /// Looks at the files for ever.
    pub(super) async fn follow(&self) {
        loop {
            tokio::time::sleep(files::CHECK_INTERVAL).await;
            self.refresh();
        }
    }

    /// Takes in files that changed; a pair that does not fit together (half written) is tried again the next time.
    pub(super) fn refresh(&self) {
        let mut files = self.files.lock();
        let Some(fingerprint) = files.changed() else { return };
        match self.read_again() {
            Ok(set) => {
                self.set.store(Arc::new(set));
                files.take(fingerprint);
                tracing::info!("new serving certificates are in use");
            }
            Err(error) => tracing::warn!(%error, "new serving certificates are not usable, the old ones stay in use"),
        }
    }

    fn read_again(&self) -> Result<Set, ServerError> {
        let default = match &self.default {
            Some((certificate, key)) => Arc::new(read_pair(certificate, key)?),
            None => Arc::clone(&self.set.load().default),
        };
        Ok(Set {
            default,
            named: read_named(&self.sni)?,
        })
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let set = self.set.load();
        let named = client_hello.server_name().and_then(|name| {
            set.named
                .iter()
                .find(|(names, key)| serves(names, key, name))
                .map(|(_, key)| Arc::clone(key))
        });
        Some(named.unwrap_or_else(|| Arc::clone(&set.default)))
    }
}

/// Whether a certificate is meant for `name`.
fn serves(names: &[String], key: &CertifiedKey, name: &str) -> bool {
    if names.is_empty() {
        let Some(certificate) = key.cert.first() else {
            return false;
        };
        let (Ok(certificate), Ok(name)) = (ParsedCertificate::try_from(certificate), ServerName::try_from(name)) else {
            return false;
        };
        return verify_server_name(&certificate, &name).is_ok();
    }
    names.iter().any(|pattern| match pattern.strip_prefix("*.") {
        Some(domain) => name
            .split_once('.')
            .is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(domain)),
        None => pattern.eq_ignore_ascii_case(name),
    })
}

fn read_named(sni: &[SniCertificate]) -> Result<Vec<Named>, ServerError> {
    sni.iter()
        .map(|entry| {
            Ok((
                entry.names.clone(),
                Arc::new(read_pair(&entry.certificate, &entry.key)?),
            ))
        })
        .collect()
}

fn read_file(path: &Path) -> Result<Vec<u8>, ServerError> {
    files::read(path).map_err(|source| ServerError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Reads certificates from a PEM file.
pub(super) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    parse_certificates(&read_file(path)?, path)
}

/// Reads certificates from PEM text; `origin` names it in errors.
pub(super) fn parse_certificates(pem: &[u8], origin: &Path) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    let invalid = |message: String| ServerError::Certificate {
        path: origin.to_owned(),
        message,
    };
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match parsed {
        Ok(list) if list.is_empty() => Err(invalid("holds no certificate".to_owned())),
        Ok(list) => Ok(list),
        Err(error) => Err(invalid(error.to_string())),
    }
}

fn read_pair(certificate: &Path, key: &Path) -> Result<CertifiedKey, ServerError> {
    let chain = read_certificates(certificate)?;
    let private = PrivateKeyDer::from_pem_slice(&read_file(key)?).map_err(|error| ServerError::Certificate {
        path: key.to_owned(),
        message: format!("holds no private key: {error}"),
    })?;
    CertifiedKey::from_der(chain, private, &rustls::crypto::ring::default_provider()).map_err(|error| {
        ServerError::Certificate {
            path: certificate.to_owned(),
            message: format!("does not fit the key {}: {error}", key.display()),
        }
    })
}

/// The pair in a folder, made when either half is missing.
fn pair_in(folder: &Path, hosts: &[String]) -> Result<(PathBuf, PathBuf), ServerError> {
    let certificate = folder.join(format!("{PAIR_NAME}.crt"));
    let key = folder.join(format!("{PAIR_NAME}.key"));
    if certificate.exists() && key.exists() {
        return Ok((certificate, key));
    }
    let (pem, _) = self_signed(hosts)?;
    let wrap = |path: &Path| {
        let path = path.to_owned();
        move |source| ServerError::Read { path, source }
    };
    std::fs::create_dir_all(folder).map_err(wrap(folder))?;
    write_private(&key, pem.key.as_bytes()).map_err(wrap(&key))?;
    std::fs::write(&certificate, pem.certificate).map_err(wrap(&certificate))?;
    Ok((certificate, key))
}

/// Writes a file that only we may read.
fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(content)
}

struct PemPair {
    certificate: String,
    key: String,
}

/// Makes a certificate for `localhost`, the loopback addresses and `hosts`. It has no end in practice (rcgen's default),
/// because nobody renews what lives in memory.
fn self_signed(hosts: &[String]) -> Result<(PemPair, CertifiedKey), ServerError> {
    let failed = |message: String| ServerError::Certificate {
        path: PathBuf::from("self-signed certificate"),
        message,
    };
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    names.extend(
        hosts
            .iter()
            .filter(|host| !host.is_empty() && !names.contains(host))
            .cloned()
            .collect::<Vec<_>>(),
    );
    let mut params = rcgen::CertificateParams::new(names).map_err(|error| failed(error.to_string()))?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "supercargo");
    let signing_key = rcgen::KeyPair::generate().map_err(|error| failed(error.to_string()))?;
    let certificate = params
        .self_signed(&signing_key)
        .map_err(|error| failed(error.to_string()))?;
    let pem = PemPair {
        certificate: certificate.pem(),
        key: signing_key.serialize_pem(),
    };
    let private = PrivateKeyDer::from_pem_slice(pem.key.as_bytes()).map_err(|error| failed(error.to_string()))?;
    let chain = vec![certificate.der().clone()];
    let key = CertifiedKey::from_der(chain, private, &rustls::crypto::ring::default_provider())
        .map_err(|error| failed(error.to_string()))?;
    Ok((pem, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(key: &CertifiedKey, names: &[&str]) -> Vec<bool> {
        names.iter().map(|name| serves(&[], key, name)).collect()
    }

    #[test]
    fn a_folder_is_given_a_pair_once() {
        let folder = tempfile::tempdir().unwrap();
        let source = CertificateSource::Folder {
            path: folder.path().join("pki"),
            hosts: vec!["one.example".to_owned()],
        };
        let first = Certificates::load(&source, &[]).unwrap();
        let second = Certificates::load(&source, &[]).unwrap();
        assert_eq!(first.set.load().default.cert, second.set.load().default.cert);
        assert_eq!(
            names_of(&first.set.load().default, &["one.example", "localhost", "other"]),
            [true, true, false]
        );
        let mode = std::os::unix::fs::MetadataExt::mode(
            &std::fs::metadata(folder.path().join("pki/kube-scheduler.key")).unwrap(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn names_match_whole_or_by_one_leading_label() {
        let (_, key) = self_signed(&[]).unwrap();
        let names = ["a.example".to_owned(), "*.b.example".to_owned()];
        let matches: Vec<bool> = ["A.example", "x.b.example", "b.example", "x.y.b.example", ".b.example"]
            .iter()
            .map(|name| serves(&names, &key, name))
            .collect();
        assert_eq!(matches, [true, true, false, false, false]);
    }

    #[test]
    fn files_are_read_again_when_they_fit_together() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let write = |pair: &PemPair| {
            std::fs::write(&certificate, &pair.certificate).unwrap();
            std::fs::write(&key, &pair.key).unwrap();
        };
        let (first, second) = (
            self_signed(&[]).unwrap().0,
            self_signed(&["two.example".to_owned()]).unwrap().0,
        );
        write(&first);
        let source = CertificateSource::Files {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        let certificates = Certificates::load(&source, &[]).unwrap();
        std::fs::write(&certificate, &second.certificate).unwrap();
        certificates.refresh();
        assert_eq!(names_of(&certificates.set.load().default, &["two.example"]), [false]);
        write(&second);
        certificates.refresh();
        assert_eq!(names_of(&certificates.set.load().default, &["two.example"]), [true]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let source = |certificate: &Path, key: &Path| CertificateSource::Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        };
        let error = Certificates::load(&source(Path::new("/nowhere/a"), Path::new("/nowhere/b")), &[]).unwrap_err();
        assert!(error.to_string().starts_with("cannot read /nowhere/a: "), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        let error = Certificates::load(&source(&empty, &empty), &[])
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("empty: holds no certificate"), "{error}");
    }
}
