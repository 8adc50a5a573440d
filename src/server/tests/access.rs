//! Who may see what.

use std::time::Duration;

use serde_json::json;

use super::super::*;
use super::support::*;

async fn delegated() -> (Running, Arc<Reviews>) {
    let (client, reviews) = api_server().await;
    let server = run(
        &options(),
        &AuthenticationOptions {
            client: Some(client.clone()),
            ..AuthenticationOptions::default()
        },
        &AuthorizationOptions {
            client: Some(client),
            ..AuthorizationOptions::default()
        },
    )
    .await;
    (server, reviews)
}

#[tokio::test]
async fn anonymous_callers_see_health_and_nothing_else() {
    let (server, reviews) = delegated().await;
    let caller = Caller::default();
    for (path, code) in [
        ("/healthz", 200),
        ("/livez", 200),
        ("/readyz?verbose", 200),
        ("/healthz/leaderElection", 403),
    ] {
        assert_eq!(caller.get(server.address, path).await.code, code, "{path}");
    }
    let answer = caller.get(server.address, "/metrics").await;
    assert_eq!(answer.code, 403);
    expect_test::expect![[r#"{"apiVersion":"v1","code":403,"kind":"Status","message":"forbidden: User \"system:anonymous\" cannot get path \"/metrics\"","metadata":{},"reason":"Forbidden","status":"Failure"}"#]]
        .assert_eq(&serde_json::from_str::<serde_json::Value>(&answer.text).unwrap().to_string());
    assert!(reviews.tokens.lock().is_empty());
    assert_eq!(
        reviews.reviewed.lock().last().unwrap(),
        &json!({
            "user": "system:anonymous",
            "groups": ["system:unauthenticated"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        })
    );
}

#[tokio::test]
async fn a_known_token_that_is_allowed_sees_metrics_and_is_asked_about_once() {
    let (server, reviews) = delegated().await;
    for _ in 0..3 {
        assert_eq!(Caller::token("good").get(server.address, "/metrics").await.code, 200);
    }
    assert_eq!(*reviews.tokens.lock(), ["good"]);
    assert_eq!(reviews.reviewed.lock().len(), 1);
    assert_eq!(
        reviews.reviewed.lock().first().unwrap().get("groups").unwrap(),
        &json!(["monitoring", "system:authenticated"])
    );
}

#[tokio::test]
async fn a_known_token_that_is_not_allowed_is_forbidden_and_an_unknown_one_unauthorized() {
    let (server, reviews) = delegated().await;
    for _ in 0..2 {
        assert_eq!(Caller::token("poor").get(server.address, "/metrics").await.code, 403);
        let answer = Caller::token("wrong").get(server.address, "/healthz").await;
        assert_eq!(answer.code, 401);
        assert!(answer.text.contains("\"Unauthorized\""), "{}", answer.text);
    }
    assert_eq!(*reviews.tokens.lock(), ["poor", "wrong"]);
}

#[tokio::test]
async fn answers_are_asked_for_again_when_they_are_not_kept() {
    let (client, reviews) = api_server().await;
    let server = run(
        &options(),
        &AuthenticationOptions {
            client: Some(client.clone()),
            token_cache_ttl: Duration::ZERO,
            ..AuthenticationOptions::default()
        },
        &AuthorizationOptions {
            client: Some(client),
            authorized_ttl: Duration::ZERO,
            ..AuthorizationOptions::default()
        },
    )
    .await;
    for _ in 0..2 {
        assert_eq!(Caller::token("good").get(server.address, "/metrics").await.code, 200);
    }
    assert_eq!((reviews.tokens.lock().len(), reviews.reviewed.lock().len()), (2, 2));
}

#[tokio::test]
async fn without_a_kubeconfig_tokens_are_not_looked_at() {
    let server = run(
        &options(),
        &AuthenticationOptions::default(),
        &AuthorizationOptions::default(),
    )
    .await;
    assert_eq!(Caller::token("good").get(server.address, "/healthz").await.code, 200);
    assert_eq!(Caller::token("good").get(server.address, "/metrics").await.code, 403);
}

#[tokio::test]
async fn client_certificates_of_the_cluster_are_users_and_others_are_refused() {
    let (client, reviews) = api_server().await;
    let (ours, others) = (Authority::new("cluster"), Authority::new("elsewhere"));
    *reviews.config_map.lock() = Some(json!({"client-ca-file": ours.pem()}));
    let server = run(
        &options(),
        &AuthenticationOptions {
            client: Some(client.clone()),
            ..AuthenticationOptions::default()
        },
        &AuthorizationOptions {
            client: Some(client),
            ..AuthorizationOptions::default()
        },
    )
    .await;
    let get = async |pair: Pair, path: &str| Caller::with(pair).get(server.address, path).await.code;
    assert_eq!(
        get(ours.issue("admin", &["system:masters"], &[]), "/metrics").await,
        200
    );
    assert!(reviews.reviewed.lock().is_empty());
    assert_eq!(get(ours.issue("prometheus", &[], &[]), "/metrics").await, 200);
    assert_eq!(get(ours.issue("guest", &["guests"], &[]), "/metrics").await, 403);
    assert_eq!(
        get(others.issue("admin", &["system:masters"], &[]), "/healthz").await,
        401
    );
    // A good token makes up for a certificate that is not known.
    let both = Caller {
        certificate: Some(others.issue("x", &[], &[])),
        ..Caller::token("good")
    };
    assert_eq!(both.get(server.address, "/metrics").await.code, 200);
}

#[tokio::test]
async fn a_ca_file_takes_the_place_of_the_cluster_s() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.crt");
    let authority = Authority::new("file");
    std::fs::write(&path, authority.pem()).unwrap();
    let authentication = AuthenticationOptions {
        client_ca_file: Some(path),
        ..AuthenticationOptions::default()
    };
    let server = run(&options(), &authentication, &AuthorizationOptions::default()).await;
    let admin = Caller::with(authority.issue("admin", &["system:masters"], &[]));
    assert_eq!(admin.get(server.address, "/metrics").await.code, 200);
}

#[tokio::test]
async fn a_front_proxy_names_the_user_when_it_is_an_allowed_one() {
    let (client, reviews) = api_server().await;
    let proxies = Authority::new("proxies");
    *reviews.config_map.lock() = Some(json!({
        "requestheader-client-ca-file": proxies.pem(),
        "requestheader-allowed-names": "[\"front-proxy-client\"]",
        "requestheader-username-headers": "[\"X-Remote-User\"]",
        "requestheader-group-headers": "[\"X-Remote-Group\"]",
        "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
    }));
    let server = run(
        &options(),
        &AuthenticationOptions {
            client: Some(client.clone()),
            ..AuthenticationOptions::default()
        },
        &AuthorizationOptions {
            client: Some(client),
            ..AuthorizationOptions::default()
        },
    )
    .await;
    let caller = |name: &str| Caller {
        certificate: Some(proxies.issue(name, &[], &[])),
        headers: vec![
            ("x-remote-user", "prometheus".to_owned()),
            ("x-remote-group", "g".to_owned()),
            ("x-remote-extra-scope", "all".to_owned()),
        ],
        ..Caller::default()
    };
    assert_eq!(
        caller("front-proxy-client").get(server.address, "/metrics").await.code,
        200
    );
    assert_eq!(
        reviews.reviewed.lock().first().unwrap(),
        &json!({
            "user": "prometheus",
            "groups": ["g", "system:authenticated"],
            "extra": {"scope": ["all"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        })
    );
    assert_eq!(caller("somebody").get(server.address, "/metrics").await.code, 401);
    // Headers without the proxy's certificate mean nothing.
    let liar = Caller {
        certificate: None,
        ..caller("front-proxy-client")
    };
    assert_eq!(liar.get(server.address, "/metrics").await.code, 403);
}

#[tokio::test]
async fn settings_that_must_be_read_and_cannot_stop_the_server() {
    let (client, _reviews) = api_server().await;
    let authentication = AuthenticationOptions {
        client: Some(client),
        tolerate_lookup_failure: false,
        ..AuthenticationOptions::default()
    };
    let error = Server::bind(&options(), &authentication, &open(), content())
        .await
        .unwrap_err();
    assert!(matches!(error, ServerError::Lookup(_)), "{error}");
}

#[tokio::test]
async fn a_review_that_fails_is_an_error_and_not_a_pass() {
    let unreachable = crate::client::Source::Address("127.0.0.1:1".to_owned());
    let client = crate::client::ClientSet::single(&unreachable, None).unwrap();
    let authorization = AuthorizationOptions {
        client: Some(client),
        ..AuthorizationOptions::default()
    };
    let server = run(&options(), &AuthenticationOptions::default(), &authorization).await;
    assert_eq!(Caller::default().get(server.address, "/metrics").await.code, 500);
    assert_eq!(Caller::default().get(server.address, "/healthz").await.code, 200);
}
