//! Keys, tokens and kubeconfig files of one control plane.
//!
//! The server's certificate is signed by an authority made for this one start; users hold bearer tokens. The scheduler
//! is never `system:masters`: what its RBAC forbids must fail here too.
//!
//! Does not: rotate anything.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::client::Endpoint;
use crate::process::{random_bytes, write_private};

/// Who speaks to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// `system:masters`: may do everything and is exempt from priority and fairness.
    Admin,
    /// `system:kube-scheduler`, with the rights that Kubernetes ships for that name.
    Scheduler,
    /// `system:kube-controller-manager`.
    ControllerManager,
    /// kwok's controller; in `system:masters`, as its own deployment exempts it too.
    Kwok,
    /// Somebody without any right.
    Nobody,
}

impl User {
    /// Every user.
    pub const ALL: [Self; 5] = [
        Self::Admin,
        Self::Scheduler,
        Self::ControllerManager,
        Self::Kwok,
        Self::Nobody,
    ];

    /// The kubeconfig file's stem.
    #[must_use]
    pub fn file_stem(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Scheduler => "scheduler",
            Self::ControllerManager => "controller-manager",
            Self::Kwok => "kwok",
            Self::Nobody => "nobody",
        }
    }

    fn name_and_groups(self) -> (&'static str, &'static str) {
        match self {
            Self::Admin => ("admin", "system:masters"),
            Self::Scheduler => ("system:kube-scheduler", ""),
            Self::ControllerManager => ("system:kube-controller-manager", ""),
            Self::Kwok => ("kwok", "system:masters"),
            Self::Nobody => ("nobody", ""),
        }
    }
}

/// The files of one control plane and what is in them.
#[derive(Debug)]
pub struct Credentials {
    dir: PathBuf,
    url: String,
    port: u16,
    ca_pem: String,
    tokens: [String; User::ALL.len()],
}

impl Credentials {
    /// Makes all keys, tokens and files in `dir` for a server on 127.0.0.1:`port`.
    ///
    /// # Errors
    /// When a key cannot be made or a file not be written.
    pub fn create(dir: &Path, port: u16) -> Result<Self> {
        let (ca_pem, certificate, key) = certificates().context("cannot make certificates")?;
        let service_account_key = KeyPair::generate().context("cannot make a key")?;
        let mut tokens: [String; User::ALL.len()] = Default::default();
        for token in &mut tokens {
            *token = random_bytes()?.iter().map(|byte| format!("{byte:02x}")).collect();
        }
        let this = Self {
            dir: dir.to_owned(),
            url: format!("https://127.0.0.1:{port}"),
            port,
            ca_pem,
            tokens,
        };
        let mut table = String::new();
        for user in User::ALL {
            let (name, groups) = user.name_and_groups();
            table.push_str(&format!("{},{name},{name},\"{groups}\"\n", this.token(user)));
            write_private(&this.kubeconfig(user), &this.kubeconfig_text(user))?;
        }
        write_private(&this.tokens_file(), &table)?;
        write_private(&this.ca_file(), &this.ca_pem)?;
        write_private(&this.certificate_file(), &certificate)?;
        write_private(&this.key_file(), &key)?;
        write_private(&this.service_account_key_file(), &service_account_key.serialize_pem())?;
        write_private(
            &this.service_account_public_key_file(),
            &service_account_key.public_key_pem(),
        )?;
        Ok(this)
    }

    /// The server's port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server as a user reaches it.
    #[must_use]
    pub fn endpoint(&self, user: User) -> Endpoint {
        Endpoint {
            url: self.url.clone(),
            token: Some(self.token(user).to_owned()),
            ca_pem: Some(self.ca_pem.clone().into_bytes()),
        }
    }

    /// A user's kubeconfig file.
    #[must_use]
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        self.dir.join(format!("{}.kubeconfig", user.file_stem()))
    }

    /// The authority's certificate.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// The server's certificate.
    #[must_use]
    pub fn certificate_file(&self) -> PathBuf {
        self.dir.join("server.crt")
    }

    /// The server's private key.
    #[must_use]
    pub fn key_file(&self) -> PathBuf {
        self.dir.join("server.key")
    }

    /// The key that signs service account tokens.
    #[must_use]
    pub fn service_account_key_file(&self) -> PathBuf {
        self.dir.join("service-account.key")
    }

    /// Its public half: kube-apiserver reads no elliptic curve public key out of a PKCS #8 private one.
    #[must_use]
    pub fn service_account_public_key_file(&self) -> PathBuf {
        self.dir.join("service-account.pub")
    }

    /// The table of tokens for `--token-auth-file`.
    #[must_use]
    pub fn tokens_file(&self) -> PathBuf {
        self.dir.join("tokens.csv")
    }

    fn token(&self, user: User) -> &str {
        let index = User::ALL.iter().position(|one| *one == user);
        index
            .and_then(|index| self.tokens.get(index))
            .map_or("", String::as_str)
    }

    fn kubeconfig_text(&self, user: User) -> String {
        kubeconfig(
            &self.url,
            Some(&self.ca_file()),
            Some((user.file_stem(), self.token(user))),
        )
    }
}

/// The text of a kubeconfig file with one context.
#[must_use]
pub fn kubeconfig(url: &str, ca_file: Option<&Path>, user: Option<(&str, &str)>) -> String {
    let authority = ca_file.map_or_else(String::new, |file| {
        format!(", certificate-authority: {:?}", file.display().to_string())
    });
    let (name, token) = user.unwrap_or(("anonymous", ""));
    let credentials = if token.is_empty() {
        "{}".to_owned()
    } else {
        format!("{{token: {token:?}}}")
    };
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: loopback\n\
         clusters:\n- name: loopback\n  cluster: {{server: {url:?}{authority}}}\n\
         users:\n- name: {name}\n  user: {credentials}\n\
         contexts:\n- name: loopback\n  context: {{cluster: loopback, user: {name}}}\n"
    )
}

/// An authority's certificate, a server certificate for loopback that it signed, and that certificate's key, all PEM.
fn certificates() -> Result<(String, String, String), rcgen::Error> {
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name
        .push(rcgen::DnType::CommonName, "supercargo loopback authority");
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    let key = KeyPair::generate()?;
    let names = ["127.0.0.1", "10.0.0.1", "localhost", "kubernetes.default.svc"];
    let mut server = CertificateParams::new(names.map(str::to_owned))?;
    server
        .distinguished_name
        .push(rcgen::DnType::CommonName, "kube-apiserver");
    let certificate = server.signed_by(&key, &Issuer::new(ca, ca_key))?;
    Ok((ca_pem, certificate.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_has_a_token_of_its_own_and_files_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let credentials = Credentials::create(dir.path(), 6443).unwrap();
        let table = std::fs::read_to_string(credentials.tokens_file()).unwrap();
        assert_eq!(table.lines().count(), User::ALL.len());
        for user in User::ALL {
            assert!(table.contains(credentials.token(user)));
            let config = kube::config::Kubeconfig::read_from(credentials.kubeconfig(user)).unwrap();
            assert_eq!(
                config.clusters[0].cluster.as_ref().unwrap().server.as_deref(),
                Some("https://127.0.0.1:6443")
            );
        }
        crate::client::ApiClient::new(&credentials.endpoint(User::Admin)).unwrap();
    }
}
