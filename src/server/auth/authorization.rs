//! What may be seen: paths open to all, `system:masters`, and what a SubjectAccessReview allows.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};

use super::cache::Cache;
use super::{AuthorizationOptions, UserInfo};
use crate::clock::Clock;

/// Members may see everything.
const PRIVILEGED_GROUP: &str = "system:masters";

/// Longest wait for one SubjectAccessReview.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest path that is asked about; longer ones name nothing that is served.
const MAX_PATH_BYTES: usize = 1024;

/// Whether a request passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Allow,
    Deny,
}

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
pub(super) enum AuthorizationError {
    #[error("subject access review failed")]
    Review(#[source] Box<kube::Error>),
    #[error("subject access review: no answer within {0:?}")]
    Timeout(Duration),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    user: UserInfo,
    verb: String,
    path: String,
}

/// Decides, and remembers decisions for a while.
pub(super) struct Authorization {
    client: Option<Client>,
    always_allowed: Vec<PathPattern>,
    authorized_ttl: Duration,
    unauthorized_ttl: Duration,
    decisions: Cache<Key, Decision>,
}

impl std::fmt::Debug for Authorization {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Authorization")
            .field("always_allowed", &self.always_allowed)
            .finish_non_exhaustive()
    }
}

/// A path without its first slash.
#[derive(Debug, PartialEq, Eq)]
enum PathPattern {
    Whole(String),
    Prefix(String),
}

impl PathPattern {
    fn parse(path: &str) -> Self {
        let path = path.trim_start_matches('/');
        match path.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Whole(path.to_owned()),
        }
    }

    fn matches(&self, path: &str) -> bool {
        let path = path.trim_start_matches('/');
        match self {
            Self::Whole(whole) => path == whole,
            Self::Prefix(prefix) => path.starts_with(prefix.as_str()),
        }
    }
}

impl Authorization {
    pub(super) fn new(options: &AuthorizationOptions) -> Self {
        if options.client.is_none() {
            tracing::warn!("no client for SubjectAccessReviews: only paths that are always allowed are open");
        }
        Self {
            client: options.client.clone(),
            always_allowed: options
                .always_allow_paths
                .iter()
                .map(|path| PathPattern::parse(path))
                .collect(),
            authorized_ttl: options.authorized_ttl,
            unauthorized_ttl: options.unauthorized_ttl,
            decisions: Cache::new(Clock::Real),
        }
    }

    /// Whether `user` may use `verb` (an HTTP method in lower case) on `path`.
    pub(super) async fn decide(&self, user: &UserInfo, verb: &str, path: &str) -> Result<Decision, AuthorizationError> {
        let open = self.always_allowed.iter().any(|pattern| pattern.matches(path));
        if open || user.groups.iter().any(|group| group == PRIVILEGED_GROUP) {
            return Ok(Decision::Allow);
        }
        let Some(client) = self.client.as_ref().filter(|_| path.len() <= MAX_PATH_BYTES) else {
            return Ok(Decision::Deny);
        };
        let key = Key {
            user: user.clone(),
            verb: verb.to_owned(),
            path: path.to_owned(),
        };
        if let Some(decision) = self.decisions.get(&key) {
            return Ok(decision);
        }
        let decision = review(client, &key).await?;
        let ttl = match decision {
            Decision::Allow => self.authorized_ttl,
            Decision::Deny => self.unauthorized_ttl,
        };
        self.decisions.put(key, decision, ttl);
        Ok(decision)
    }
}

async fn review(client: &Client, key: &Key) -> Result<Decision, AuthorizationError> {
    let Key { user, verb, path } = key;
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.name.clone()),
            uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.iter().cloned().collect()).filter(|_| !user.extra.is_empty()),
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.clone()),
                verb: Some(verb.clone()),
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let api = Api::<SubjectAccessReview>::all(client.clone());
    let answer = tokio::time::timeout(REVIEW_TIMEOUT, api.create(&PostParams::default(), &review))
        .await
        .map_err(|_elapsed| AuthorizationError::Timeout(REVIEW_TIMEOUT))?
        .map_err(|source| AuthorizationError::Review(Box::new(source)))?;
    let allowed = answer
        .status
        .is_some_and(|status| status.allowed && status.denied != Some(true));
    Ok(if allowed { Decision::Allow } else { Decision::Deny })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_paths_match_whole_or_by_prefix() {
        let pattern = PathPattern::parse("/healthz");
        assert!(pattern.matches("/healthz") && !pattern.matches("/healthz/ping") && !pattern.matches("/"));
        let pattern = PathPattern::parse("/debug/*");
        assert!(pattern.matches("/debug/flags/v") && !pattern.matches("/metrics"));
        assert!(PathPattern::parse("*").matches("/anything"));
    }

    #[tokio::test]
    async fn without_a_client_only_open_paths_and_masters_pass() {
        let authorization = Authorization::new(&AuthorizationOptions::default());
        let anonymous = UserInfo {
            name: "system:anonymous".to_owned(),
            ..UserInfo::default()
        };
        let master = UserInfo {
            groups: vec![PRIVILEGED_GROUP.to_owned()],
            ..UserInfo::default()
        };
        assert_eq!(
            authorization.decide(&anonymous, "get", "/livez").await.unwrap(),
            Decision::Allow
        );
        assert_eq!(
            authorization.decide(&anonymous, "get", "/metrics").await.unwrap(),
            Decision::Deny
        );
        assert_eq!(
            authorization.decide(&master, "get", "/metrics").await.unwrap(),
            Decision::Allow
        );
    }
}
