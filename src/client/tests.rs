//! Clients against small HTTP servers on loopback.

use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use super::*;
use crate::sync::Mutex;

#[derive(Debug, Default, Clone)]
struct Seen(Arc<Mutex<Vec<HeaderMap>>>);

/// Answers every namespace and remembers the headers.
async fn server(seen: Seen) -> (std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route(
        "/api/v1/namespaces/{name}",
        get(move |headers: HeaderMap| async move {
            seen.0.lock().push(headers);
            r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}"#
        }),
    );
    (
        address,
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }),
    )
}

fn write_kubeconfig(folder: &std::path::Path, server: &str, user: &str) -> PathBuf {
    let path = folder.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: k\n  cluster: {{server: '{server}'}}\n\
         users:\n- name: u\n  user: {user}\ncontexts:\n- name: c\n  context: {{cluster: k, user: u}}\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn install_ring() {
    // Another test of the process may have installed it already.
    drop(rustls::crypto::ring::default_provider().install_default());
}

#[tokio::test]
async fn a_token_file_is_trimmed_and_read_again_when_it_changes() {
    install_ring();
    let seen = Seen::default();
    let (address, task) = server(seen.clone()).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "first\n").unwrap();
    let path = write_kubeconfig(folder.path(), &format!("http://{address}"), "{tokenFile: token}");
    let client = ClientSet::eager(&Source::from_flags(path.to_str(), None), 1).unwrap();
    let api: Api<Namespace> = Api::all(client);
    api.get("n").await.unwrap();
    std::fs::write(folder.path().join("token"), "second").unwrap();
    api.get("n").await.unwrap();
    std::fs::remove_file(folder.path().join("token")).unwrap();
    api.get("n").await.unwrap();
    let headers = seen.0.lock();
    let tokens: Vec<_> = headers
        .iter()
        .map(|headers| headers.get("authorization").unwrap().to_str().unwrap())
        .collect();
    assert_eq!(tokens, ["Bearer first", "Bearer second", "Bearer second"]);
    let agent = headers.first().unwrap().get("user-agent").unwrap().to_str().unwrap();
    assert!(
        agent.starts_with(concat!("supercargo/", env!("CARGO_PKG_VERSION"), " (")),
        "{agent}"
    );
    task.abort();
}

#[tokio::test]
async fn every_client_of_a_set_reaches_the_server_and_requests_are_counted() {
    install_ring();
    let (address, task) = server(Seen::default()).await;
    let metrics = Arc::new(Metrics::new(&crate::telemetry::MetricsOptions::default()));
    let options = ClientOptions {
        source: Source::from_flags(None, Some(&address.to_string())),
        rate: Some(RateLimit { qps: 1000.0, burst: 10 }),
        binds_in_flight: 400,
    };
    let set = ClientSet::new(&options, Some(&metrics)).unwrap();
    assert_eq!(set.server(), address.to_string());
    for client in [&set.bind, &set.watch, &set.lease, &set.status] {
        Api::<Namespace>::all(client.clone()).get("n").await.unwrap();
    }
    let page = metrics.exposition();
    let line = format!("rest_client_requests_total{{code=\"200\",host=\"{address}\",method=\"GET\"}} 4");
    assert!(page.contains(&line), "{page}");
    task.abort();
}

#[test]
fn an_unreadable_kubeconfig_is_named() {
    let error = Source::from_flags(Some("/nowhere/config"), None)
        .load()
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("kubeconfig /nowhere/config: cannot be read: "),
        "{error}"
    );
}

#[test]
fn a_kubeconfig_without_its_context_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(
        &path,
        "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\ncurrent-context: x\n",
    )
    .unwrap();
    let error = Source::from_flags(path.to_str(), None).load().unwrap_err().to_string();
    assert!(error.contains("failed to load current context: x"), "{error}");
}

#[test]
fn master_replaces_the_server_of_the_kubeconfig() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_kubeconfig(folder.path(), "https://one:6443", "{token: t}");
    let target = Source::from_flags(path.to_str(), Some("https://two:6443"))
        .load()
        .unwrap();
    assert_eq!(target.authority(), "two:6443");
    assert!(!target.config.default_retry);
}

#[test]
fn a_proxy_of_the_kubeconfig_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_kubeconfig(
        folder.path(),
        "https://one:6443', proxy-url: 'http://proxy:1",
        "{token: t}",
    );
    let error = Source::from_flags(path.to_str(), None).load().unwrap_err();
    assert!(matches!(error, ClientError::Proxy(proxy) if proxy == "http://proxy:1"));
}

#[test]
fn a_missing_ca_file_is_an_error_with_its_path() {
    install_ring();
    let folder = tempfile::tempdir().unwrap();
    let path = write_kubeconfig(
        folder.path(),
        "https://one:6443', certificate-authority: 'ca.crt",
        "{token: t}",
    );
    let error = ClientSet::single(&Source::from_flags(path.to_str(), None), None)
        .err()
        .map(|error| error.to_string());
    assert!(
        error.as_ref().is_some_and(|error| error.contains("ca.crt")),
        "{error:?}"
    );
}
