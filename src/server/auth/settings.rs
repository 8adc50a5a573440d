//! The cluster's settings for delegated authentication: ConfigMap `kube-system/extension-apiserver-authentication`.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// What the ConfigMap says; absent keys are empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterSettings {
    pub(super) client_ca: Option<String>,
    pub(super) request_header_ca: Option<String>,
    pub(super) allowed_names: Vec<String>,
    pub(super) username_headers: Vec<String>,
    pub(super) uid_headers: Vec<String>,
    pub(super) group_headers: Vec<String>,
    pub(super) extra_prefixes: Vec<String>,
}

impl ClusterSettings {
    /// Reads the ConfigMap.
    pub(super) async fn read(client: &Client) -> Result<Self, kube::Error> {
        let map = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE)
            .get(NAME)
            .await?;
        Ok(Self::parse(&map))
    }

    fn parse(map: &ConfigMap) -> Self {
        let text = |key: &str| {
            map.data
                .as_ref()
                .and_then(|data| data.get(key))
                .filter(|value| !value.trim().is_empty())
                .cloned()
        };
        // Lists are JSON; one that is not is treated as empty, and with it no proxy is believed.
        let list = |key: &str| {
            text(key)
                .and_then(|value| match serde_json::from_str(&value) {
                    Ok(list) => Some(list),
                    Err(error) => {
                        tracing::warn!(key, %error, "a list of the cluster's authentication settings is malformed");
                        None
                    }
                })
                .unwrap_or_default()
        };
        Self {
            client_ca: text("client-ca-file"),
            request_header_ca: text("requestheader-client-ca-file"),
            allowed_names: list("requestheader-allowed-names"),
            username_headers: list("requestheader-username-headers"),
            uid_headers: list("requestheader-uid-headers"),
            group_headers: list("requestheader-group-headers"),
            extra_prefixes: list("requestheader-extra-headers-prefix"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_json_and_absent_keys_are_empty() {
        let map: ConfigMap = serde_json::from_value(serde_json::json!({
            "data": {
                "client-ca-file": "PEM",
                "requestheader-allowed-names": "[\"front-proxy-client\"]",
                "requestheader-username-headers": "[\"X-Remote-User\"]",
                "requestheader-group-headers": "not json",
            }
        }))
        .unwrap();
        let settings = ClusterSettings::parse(&map);
        assert_eq!(settings.client_ca.as_deref(), Some("PEM"));
        assert_eq!(settings.request_header_ca, None);
        assert_eq!(settings.allowed_names, ["front-proxy-client"]);
        assert_eq!(settings.username_headers, ["X-Remote-User"]);
        assert!(settings.group_headers.is_empty());
    }
}
