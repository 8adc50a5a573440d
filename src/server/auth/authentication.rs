//! Who asks: front proxy's headers, client certificate, bearer token, or nobody.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use rustls::pki_types::CertificateDer;

use super::cache::Cache;
use super::settings::ClusterSettings;
use super::trust::Trust;
use super::{AUTHENTICATED, AuthenticationOptions, UserInfo};
use crate::client::files;
use crate::clock::Clock;
use crate::server::ServerError;
use crate::server::listen::PeerCertificates;
use crate::telemetry::error_text;

/// Longest wait for one TokenReview.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the cluster's settings are read again.
const SETTINGS_INTERVAL: Duration = Duration::from_secs(60);

/// Names that front proxies send, and from whom they are believed.
#[derive(Debug, Default)]
struct ProxyHeaders {
    allowed_names: Vec<String>,
    username: Vec<String>,
    uid: Vec<String>,
    group: Vec<String>,
    extra_prefixes: Vec<String>,
}

/// Recognises callers.
pub(in crate::server) struct Authentication {
    client: Option<Client>,
    lookup: bool,
    client_ca: Trust,
    proxy_ca: Trust,
    proxy: ArcSwap<ProxyHeaders>,
    tokens: Cache<Box<str>, Option<Arc<UserInfo>>>,
    token_ttl: Duration,
}

impl std::fmt::Debug for Authentication {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Authentication")
            .field("client_ca", &self.client_ca)
            .finish_non_exhaustive()
    }
}

impl Authentication {
    /// Reads the CA files and, unless that is skipped, the cluster's settings.
    pub(in crate::server) async fn new(options: &AuthenticationOptions) -> Result<Self, ServerError> {
        let header = &options.request_header;
        let authentication = Self {
            client: options.client.clone(),
            lookup: options.client.is_some() && !options.skip_lookup,
            client_ca: Trust::new(options.client_ca_file.as_deref())?,
            proxy_ca: Trust::new(header.ca_file.as_deref())?,
            proxy: ArcSwap::from_pointee(ProxyHeaders {
                allowed_names: header.allowed_names.clone(),
                username: header.username_headers.clone(),
                uid: header.uid_headers.clone(),
                group: header.group_headers.clone(),
                extra_prefixes: header.extra_prefixes.clone(),
            }),
            tokens: Cache::new(Clock::Real),
            token_ttl: options.token_cache_ttl,
        };
        if let Err(error) = authentication.look_up().await {
            if !options.tolerate_lookup_failure {
                return Err(ServerError::Lookup(Box::new(error)));
            }
            let error = error_text(&error);
            tracing::warn!(
                error,
                "the cluster's authentication settings cannot be read; trying again later"
            );
        }
        Ok(authentication)
    }

    /// Follows files and the cluster's settings for ever.
    pub(in crate::server) async fn follow(&self) {
        let follow_files = async {
            loop {
                tokio::time::sleep(files::CHECK_INTERVAL).await;
                self.client_ca.refresh();
                self.proxy_ca.refresh();
            }
        };
        let follow_settings = async {
            loop {
                tokio::time::sleep(SETTINGS_INTERVAL).await;
                if let Err(error) = self.look_up().await {
                    tracing::debug!(%error, "the cluster's authentication settings cannot be read");
                }
            }
        };
        tokio::join!(follow_files, follow_settings);
    }

    async fn look_up(&self) -> Result<(), kube::Error> {
        let Some(client) = self.client.as_ref().filter(|_| self.lookup) else {
            return Ok(());
        };
        let settings = ClusterSettings::read(client).await?;
        if let Some(pem) = settings.client_ca.as_ref().filter(|_| self.client_ca.follows_cluster()) {
            self.client_ca.set_pem(pem);
        }
        if let Some(pem) = settings
            .request_header_ca
            .as_ref()
            .filter(|_| self.proxy_ca.follows_cluster())
        {
            self.proxy_ca.set_pem(pem);
            self.proxy.store(Arc::new(ProxyHeaders {
                allowed_names: settings.allowed_names,
                username: settings.username_headers,
                uid: settings.uid_headers,
                group: settings.group_headers,
                extra_prefixes: settings.extra_prefixes,
            }));
        }
        Ok(())
    }

    /// Finds out who asks; the error says why a shown credential is refused (for the log, not for the caller).
    pub(super) async fn authenticate(&self, headers: &HeaderMap, peer: &PeerCertificates) -> Result<UserInfo, String> {
        let mut refused = Vec::new();
        if !peer.0.is_empty() {
            match self.by_proxy(headers, &peer.0) {
                Ok(Some(user)) => return Ok(user),
                Ok(None) => {}
                Err(reason) => refused.push(reason),
            }
            match self.by_certificate(&peer.0) {
                Ok(Some(user)) => return Ok(user),
                Ok(None) => {}
                Err(reason) => refused.push(reason),
            }
        }
        if let (Some(client), Some(token)) = (&self.client, bearer_token(headers)) {
            match self.by_token(client, token).await? {
                Some(user) => return Ok((*user).clone()),
                None => refused.push("invalid bearer token".to_owned()),
            }
        }
        if refused.is_empty() {
            return Ok(UserInfo {
                name: "system:anonymous".to_owned(),
                groups: vec!["system:unauthenticated".to_owned()],
                ..UserInfo::default()
            });
        }
        Err(refused.join("; "))
    }

    /// A front proxy that says who asks. A certificate of somebody else is no error as long as no user is named.
    fn by_proxy(&self, headers: &HeaderMap, chain: &[CertificateDer<'static>]) -> Result<Option<UserInfo>, String> {
        if !self.proxy_ca.is_known() {
            return Ok(None);
        }
        let proxy = self.proxy.load();
        let named = |names: &[String]| {
            names
                .iter()
                .find_map(|name| headers.get(name.as_str())?.to_str().ok())
                .filter(|value| !value.is_empty())
        };
        let Some(name) = named(&proxy.username) else {
            return Ok(None);
        };
        let subject = self
            .proxy_ca
            .verify(chain)
            .map_err(|reason| format!("front proxy: {reason}"))?;
        if !proxy.allowed_names.is_empty() && !proxy.allowed_names.contains(&subject.common_name) {
            return Err(format!("front proxy {:?} is not an allowed one", subject.common_name));
        }
        let groups = proxy
            .group
            .iter()
            .flat_map(|header| headers.get_all(header.as_str()))
            .filter_map(|value| value.to_str().ok().map(str::to_owned))
            .collect();
        Ok(Some(authenticated(UserInfo {
            name: name.to_owned(),
            uid: named(&proxy.uid).unwrap_or_default().to_owned(),
            groups,
            extra: extra(headers, &proxy.extra_prefixes),
        })))
    }

    fn by_certificate(&self, chain: &[CertificateDer<'static>]) -> Result<Option<UserInfo>, String> {
        if !self.client_ca.is_known() {
            return Ok(None);
        }
        let subject = self.client_ca.verify(chain)?;
        if subject.common_name.is_empty() {
            return Ok(None);
        }
        let user = UserInfo {
            name: subject.common_name,
            groups: subject.organizations,
            ..UserInfo::default()
        };
        Ok(Some(authenticated(user)))
    }

    /// Asks the API server, or remembers what it said. `None`: it does not know the token.
    async fn by_token(&self, client: &Client, token: &str) -> Result<Option<Arc<UserInfo>>, String> {
        if let Some(known) = self.tokens.get(token) {
            return Ok(known);
        }
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let api = Api::<TokenReview>::all(client.clone());
        let reviewed = tokio::time::timeout(REVIEW_TIMEOUT, api.create(&PostParams::default(), &review))
            .await
            .map_err(|_elapsed| "token review: no answer in time".to_owned())?
            .map_err(|error| format!("token review: {error}"))?;
        let user = reviewed
            .status
            .filter(|status| status.authenticated == Some(true))
            .and_then(|status| status.user);
        let user = user.map(|user| {
            Arc::new(authenticated(UserInfo {
                name: user.username.unwrap_or_default(),
                uid: user.uid.unwrap_or_default(),
                groups: user.groups.unwrap_or_default(),
                extra: user.extra.unwrap_or_default().into_iter().collect(),
            }))
        });
        self.tokens.put(token.into(), user.clone(), self.token_ttl);
        Ok(user)
    }
}

fn authenticated(mut user: UserInfo) -> UserInfo {
    if !user.groups.iter().any(|group| group == AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

/// The token of an `Authorization: Bearer` header.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Headers with one of the prefixes; names are lower case and percent-decoded, as client-go sends them.
fn extra(headers: &HeaderMap, prefixes: &[String]) -> Vec<(String, Vec<String>)> {
    let mut extra: Vec<(String, Vec<String>)> = Vec::new();
    for name in headers.keys() {
        let Some(key) = prefixes
            .iter()
            .find_map(|prefix| name.as_str().strip_prefix(&prefix.to_ascii_lowercase()))
        else {
            continue;
        };
        let values: Vec<String> = headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok().map(str::to_owned))
            .collect();
        extra.push((percent_decoded(key), values));
    }
    extra.sort_unstable();
    extra
}

/// Decodes `%XX`; a text that is not valid is kept as it is.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let decoded = (first == b'%')
            .then(|| tail.split_at_checked(2))
            .flatten()
            .and_then(|(hex, after)| Some((u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?, after)));
        let (byte, after) = decoded.unwrap_or((first, tail));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).unwrap_or_else(|_invalid| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_tokens_are_found() {
        let token = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            bearer_token(&headers).map(str::to_owned)
        };
        assert_eq!(token("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token("bearer  abc ").as_deref(), Some("abc"));
        assert_eq!(token("Basic abc"), None);
        assert_eq!(token("Bearer "), None);
    }

    #[test]
    fn extra_headers_lose_their_prefix_and_escapes() {
        let mut headers = HeaderMap::new();
        headers.append("x-remote-extra-acme.com%2fproject", "a".parse().unwrap());
        headers.append("x-remote-extra-acme.com%2fproject", "b".parse().unwrap());
        headers.append("x-remote-extra-odd%2", "c".parse().unwrap());
        assert_eq!(
            extra(&headers, &["X-Remote-Extra-".to_owned()]),
            [
                ("acme.com/project".to_owned(), vec!["a".to_owned(), "b".to_owned()]),
                ("odd%2".to_owned(), vec!["c".to_owned()]),
            ]
        );
    }
}
