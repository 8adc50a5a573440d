//! Where the API server is and who we are to it.
//!
//! Source of the order: client-go `clientcmd` as kube-scheduler calls it: a kubeconfig file, its server replaced by
//! `--master`; with neither, the pod's service account.

use std::path::{Path, PathBuf};

use http::Uri;
use http::header::{HeaderValue, USER_AGENT};
use kube::config::{Config, Kubeconfig};

use super::{ClientError, user_agent};

/// Where address and credentials come from.
#[derive(Debug, Clone, Default)]
pub enum Source {
    /// The pod's service account.
    #[default]
    InCluster,
    /// A kubeconfig file and, when set, an address that replaces its server's (`--master`).
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Replaces the server's address.
        master: Option<String>,
    },
    /// An address alone, without credentials (`--master` without a kubeconfig).
    Address(String),
    /// A configuration made in code (an embedded API server, tests).
    Config(Box<Config>),
}

impl Source {
    /// The source that the flags mean; empty texts count as absent.
    #[must_use]
    pub fn from_flags(kubeconfig: Option<&str>, master: Option<&str>) -> Self {
        let kubeconfig = kubeconfig.filter(|path| !path.is_empty());
        let master = master.filter(|address| !address.is_empty()).map(str::to_owned);
        match (kubeconfig, master) {
            (Some(path), master) => Self::Kubeconfig {
                path: PathBuf::from(path),
                master,
            },
            (None, Some(address)) => Self::Address(address),
            (None, None) => Self::InCluster,
        }
    }

    /// Reads the source.
    pub(super) fn load(&self) -> Result<Target, ClientError> {
        let (mut config, files) = match self {
            Self::InCluster => in_cluster()?,
            Self::Kubeconfig { path, master } => kubeconfig(path, master.as_deref())?,
            Self::Address(address) => (Config::new(parse_address(address)?), CredentialFiles::default()),
            Self::Config(config) => ((**config).clone(), CredentialFiles::default()),
        };
        // The callers own retries; kube's policy would repeat a bind up to 15 times.
        config.default_retry = false;
        let agent = HeaderValue::try_from(user_agent()).map_err(|_invalid| ClientError::Header {
            what: "the user agent".to_owned(),
        })?;
        config.headers.push((USER_AGENT, agent));
        Ok(Target { config, files })
    }
}

/// A server with the files that its credentials come from.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) config: Config,
    pub(super) files: CredentialFiles,
}

impl Target {
    /// `host:port`.
    pub(super) fn authority(&self) -> &str {
        self.config
            .cluster_url
            .authority()
            .map_or("", |authority| authority.as_str())
    }
}

/// Files that may change while we run.
#[derive(Debug, Clone, Default)]
pub(super) struct CredentialFiles {
    /// CA bundle.
    pub(super) ca: Option<PathBuf>,
    /// Client certificate and key.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
    /// Bearer token.
    pub(super) token: Option<PathBuf>,
}

fn in_cluster() -> Result<(Config, CredentialFiles), ClientError> {
    let mut config = Config::incluster().map_err(|source| ClientError::NotInCluster(Box::new(source)))?;
    let files = CredentialFiles {
        ca: config.root_cert_file.take(),
        identity: None,
        token: config.auth_info.token_file.take().map(PathBuf::from),
    };
    Ok((config, files))
}

fn kubeconfig(path: &Path, master: Option<&str>) -> Result<(Config, CredentialFiles), ClientError> {
    let wrap = |source| ClientError::Kubeconfig {
        path: path.to_owned(),
        source: Box::new(source),
    };
    let mut file = Kubeconfig::read_from(path).map_err(wrap)?;
    let context = file.current_context.clone();
    let context = file
        .contexts
        .iter()
        .find(|named| Some(&named.name) == context.as_ref())
        .and_then(|named| named.context.clone());
    let cluster_name = context.as_ref().map(|context| context.cluster.clone());
    let mut files = CredentialFiles::default();
    for named in &mut file.clusters {
        let Some(cluster) = named
            .cluster
            .as_mut()
            .filter(|_| Some(&named.name) == cluster_name.as_ref())
        else {
            continue;
        };
        if let Some(proxy) = cluster.proxy_url.as_ref().filter(|proxy| !proxy.is_empty()) {
            return Err(ClientError::Proxy(proxy.clone()));
        }
        if let Some(address) = master {
            cluster.server = Some(address.to_owned());
        }
        if cluster.certificate_authority_data.is_none() {
            files.ca = cluster.certificate_authority.as_ref().map(PathBuf::from);
        }
    }
    let mut config = Config::try_from(file).map_err(wrap)?;
    if config.proxy_url.take().is_some() {
        tracing::warn!("the proxy of the environment is not used: connections to the API server are direct");
    }
    let user = &mut config.auth_info;
    if let (Some(certificate), Some(key), None, None) = (
        &user.client_certificate,
        &user.client_key,
        &user.client_certificate_data,
        &user.client_key_data,
    ) {
        files.identity = Some((PathBuf::from(certificate), PathBuf::from(key)));
    }
    if user.token.is_none() {
        files.token = user.token_file.take().map(PathBuf::from);
    }
    Ok((config, files))
}

/// Parses an address the way `--master` is written: with or without a scheme.
fn parse_address(address: &str) -> Result<Uri, ClientError> {
    let wrap = |source| ClientError::Address {
        address: address.to_owned(),
        source,
    };
    let with_scheme = if address.contains("://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    };
    with_scheme.parse::<Uri>().map_err(wrap)
}
