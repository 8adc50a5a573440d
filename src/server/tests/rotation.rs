//! The API client against this server: HTTP/2, connections in use, client certificates that change on disk.

use std::collections::HashSet;

use http::Request;

use super::super::*;
use super::support::*;
use crate::client::{ClientSet, Source};

fn kubeconfig(folder: &std::path::Path, address: SocketAddr) -> PathBuf {
    let path = folder.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: k\n  cluster: {{server: 'https://{address}', \
         certificate-authority: ca.crt}}\nusers:\n- name: u\n  user: {{client-certificate: tls.crt, client-key: \
         tls.key}}\ncontexts:\n- name: c\n  context: {{cluster: k, user: u}}\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

async fn server(authority: &Authority, folder: &std::path::Path) -> Running {
    let files = tempfile::tempdir().unwrap();
    let (certificate, key) = write_pair(files.path(), &authority.issue("server", &[], &["127.0.0.1"]));
    let ca = folder.join("ca.crt");
    std::fs::write(&ca, authority.pem()).unwrap();
    let options = ServingOptions {
        certificate: CertificateSource::Files { certificate, key },
        ..options()
    };
    let authentication = AuthenticationOptions {
        client_ca_file: Some(ca),
        ..AuthenticationOptions::default()
    };
    run(&options, &authentication, &AuthorizationOptions::default()).await
}

/// The name under which the server knows the client.
async fn name(client: &kube::Client) -> String {
    let request = Request::get("/metrics").body(Vec::new()).unwrap();
    let error = client.request_text(request).await.unwrap_err().to_string();
    error.split('"').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn a_client_certificate_that_changes_on_disk_is_shown_from_the_next_call_on() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    write_pair(folder.path(), &authority.issue("one", &[], &[]));
    let server = server(&authority, folder.path()).await;
    let path = kubeconfig(folder.path(), server.address);
    let client = ClientSet::eager(&Source::from_flags(path.to_str(), None), 2).unwrap();
    for _ in 0..4 {
        assert_eq!(name(&client).await, "one");
    }
    let renewed = authority.issue("two", &[], &[]);
    // The certificate alone does not fit the old key: nothing changes until the pair is whole.
    std::fs::write(folder.path().join("tls.crt"), &renewed.certificate).unwrap();
    assert_eq!(name(&client).await, "one");
    std::fs::write(folder.path().join("tls.key"), &renewed.key).unwrap();
    for _ in 0..4 {
        assert_eq!(name(&client).await, "two");
    }
}

#[tokio::test]
async fn a_burst_of_calls_shares_the_connections_that_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    write_pair(folder.path(), &authority.issue("one", &[], &[]));
    let server = server(&authority, folder.path()).await;
    let path = kubeconfig(folder.path(), server.address);
    let client = ClientSet::eager(&Source::from_flags(path.to_str(), None), 3).unwrap();
    let calls = (0..200).map(|_| name(&client));
    let names: HashSet<String> = futures::future::join_all(calls).await.into_iter().collect();
    assert_eq!(names, HashSet::from(["one".to_owned()]));
    // One connection learnt the version, three carry the calls.
    let accepted = server.accepted.load(std::sync::atomic::Ordering::Relaxed);
    assert!(accepted <= 4, "{accepted} connections");
}
