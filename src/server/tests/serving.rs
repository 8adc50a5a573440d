//! Ports, certificates, versions of HTTP, pages.

use std::time::Duration;

use expect_test::expect;
use http::Version;

use super::super::*;
use super::support::*;

#[tokio::test]
async fn pages_answer_over_http2_and_http1_with_a_certificate_of_our_own() {
    let server = run(&options(), &AuthenticationOptions::default(), &open()).await;
    let caller = Caller::default();
    let answer = caller.get(server.address, "/healthz").await;
    assert_eq!(
        (answer.code, answer.text.as_str(), answer.version),
        (200, "ok", Version::HTTP_2)
    );
    assert_eq!(answer.headers.get("x-content-type-options").unwrap(), "nosniff");
    let http1 = Caller {
        http1: true,
        ..Caller::default()
    };
    assert_eq!(http1.get(server.address, "/livez").await.version, Version::HTTP_11);
    let verbose = caller.get(server.address, "/readyz?verbose").await;
    expect![[r#"
        [+]leaderElection ok
        info: leader
        readyz check passed
    "#]]
    .assert_eq(&verbose.text);
    assert_eq!(caller.get(server.address, "/readyz/leaderElection").await.text, "ok");
    assert_eq!(caller.get(server.address, "/livez/ping").await.text, "ok");
    let metrics = caller.get(server.address, "/metrics").await;
    assert_eq!(
        metrics.headers.get("content-type").unwrap(),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    assert!(
        metrics.text.contains("scheduler_pending_pods{queue=\"active\"} 0"),
        "{}",
        metrics.text
    );
    let slis = caller.get(server.address, "/metrics/slis").await;
    assert!(
        slis.text
            .contains("kubernetes_healthcheck{name=\"leaderElection\",type=\"readyz\"} 1"),
        "{}",
        slis.text
    );
    let resources = caller.get(server.address, "/metrics/resources").await;
    assert_eq!((resources.code, resources.text.as_str()), (200, ""));
    let configz = caller.get(server.address, "/configz").await;
    assert_eq!(
        configz.text,
        r#"{"componentconfig":{"kind":"KubeSchedulerConfiguration"}}"#
    );
    let flagz = caller.get(server.address, "/flagz").await.text;
    assert!(
        flagz.starts_with("\nkube-scheduler flagz\n") && flagz.ends_with("\n\nv=0\nleader-elect=true\n"),
        "{flagz}"
    );
    let statusz = caller.get(server.address, "/statusz").await.text;
    assert!(
        statusz.contains("\nUp: 0 hr 00 min ")
            && statusz.contains("\nEmulation version: 1.36\n")
            && statusz.contains(" /metrics /metrics/resources /metrics/slis "),
        "{statusz}"
    );
    assert!(
        caller
            .get(server.address, "/version")
            .await
            .text
            .contains("\"gitVersion\":\"v")
    );
    for absent in ["/debug/pprof/", "/debug/pprof/profile", "/debug/flags/v", "/", "/api"] {
        assert_eq!(caller.get(server.address, absent).await.code, 404, "{absent}");
    }
    assert_eq!(caller.send(server.address, "POST", "/healthz", "").await.code, 405);
}

#[tokio::test]
async fn log_verbosity_is_changed_by_put_alone() {
    let (guard, _in_use) = TelemetryGuard::of_this_thread();
    let guard = Arc::new(guard);
    let content = Content {
        logging: Some(Arc::clone(&guard)),
        ..content()
    };
    let server = Server::bind(&options(), &AuthenticationOptions::default(), &open(), content)
        .await
        .unwrap();
    let (address, cancel) = (server.local_addr(), CancellationToken::new());
    let task = tokio::spawn(server.run(cancel.clone()));
    let caller = Caller::default();
    let answer = caller.send(address, "PUT", "/debug/flags/v", "5\n").await;
    assert_eq!(
        (answer.code, answer.text.as_str()),
        (200, "successfully set klog.logging.verbosity to 5")
    );
    assert_eq!(guard.verbosity(), 5);
    assert_eq!(caller.send(address, "PUT", "/debug/flags/v", "many").await.code, 400);
    assert_eq!(caller.get(address, "/debug/flags/v").await.code, 406);
    assert_eq!(guard.verbosity(), 5);
    cancel.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn http2_can_be_turned_off() {
    let options = ServingOptions {
        http2: Http2::Disabled,
        ..options()
    };
    let server = run(&options, &AuthenticationOptions::default(), &open()).await;
    assert_eq!(
        Caller::default().get(server.address, "/healthz").await.version,
        Version::HTTP_11
    );
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_that_names_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let options = ServingOptions { port, ..options() };
    let error = Server::bind(&options, &AuthenticationOptions::default(), &open(), content())
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("cannot listen on 127.0.0.1:{port}: ")),
        "{text}"
    );
}

#[tokio::test]
async fn a_certificate_that_changes_on_disk_is_shown_to_new_connections() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    let (certificate, key) = write_pair(folder.path(), &authority.issue("one", &[], &["localhost"]));
    let options = ServingOptions {
        certificate: CertificateSource::Files { certificate, key },
        ..options()
    };
    let server = Server::bind(&options, &AuthenticationOptions::default(), &open(), content())
        .await
        .unwrap();
    let certificates = Arc::clone(&server.certificates);
    let (address, cancel) = (server.local_addr(), CancellationToken::new());
    let task = tokio::spawn(server.run(cancel.clone()));
    let name = async || {
        let shown = Shown::default();
        Caller::default()
            .request(&format!("https://{address}/healthz"), "GET", "", &shown)
            .await
            .unwrap();
        let der = shown.0.lock().clone();
        x509::subject(&der).unwrap().common_name
    };
    assert_eq!(name().await, "one");
    write_pair(folder.path(), &authority.issue("two", &[], &["localhost"]));
    certificates.refresh();
    assert_eq!(name().await, "two");
    cancel.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_client_that_names_a_server_is_shown_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = write_pair(folder.path(), &Authority::new("ca").issue("named", &[], &["localhost"]));
    let options = ServingOptions {
        sni: vec![SniCertificate {
            certificate,
            key,
            names: Vec::new(),
        }],
        ..options()
    };
    let server = run(&options, &AuthenticationOptions::default(), &open()).await;
    let name = async |host: &str| {
        let shown = Shown::default();
        let uri = format!("https://{host}:{}/healthz", server.address.port());
        Caller::default().request(&uri, "GET", "", &shown).await.unwrap();
        let der = shown.0.lock().clone();
        x509::subject(&der).unwrap().common_name
    };
    assert_eq!(name("localhost").await, "named");
    assert_eq!(name("127.0.0.1").await, "supercargo");
}

#[tokio::test]
async fn a_cancelled_server_closes_its_port_and_ends() {
    let mut server = run(&options(), &AuthenticationOptions::default(), &open()).await;
    let address = server.address;
    Caller::default().get(address, "/healthz").await;
    // A connection that never says anything does not hold the end up.
    let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
    server.cancel.cancel();
    tokio::time::timeout(Duration::from_secs(4), &mut server.task)
        .await
        .unwrap()
        .unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn bad_tls_settings_are_refused_before_anything_listens() {
    let check = async |tls: TlsOptions| {
        let options = ServingOptions { tls, ..options() };
        Server::bind(&options, &AuthenticationOptions::default(), &open(), content())
            .await
            .unwrap_err()
            .to_string()
    };
    let version = TlsOptions {
        min_version: "TLS13".to_owned(),
        ..TlsOptions::default()
    };
    assert_eq!(check(version).await, "unknown tls version \"TLS13\"");
    let suites = TlsOptions {
        cipher_suites: vec!["X".to_owned()],
        ..TlsOptions::default()
    };
    assert_eq!(check(suites).await, "cipher suite X not supported or doesn't exist");
}
