//! Certificates, an API server for reviews, and an HTTPS client.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rcgen::{CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::super::*;
use crate::client::{ClientSet, Source};
use crate::sync::Mutex;
use crate::telemetry::MetricsOptions;

/// A certificate authority.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, as PEM.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name = subject(name, &[]);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(super) fn issue(&self, name: &str, organizations: &[&str], hosts: &[&str]) -> Pair {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = subject(name, organizations);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

fn subject(name: &str, organizations: &[&str]) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    for organization in organizations {
        subject.push(DnType::OrganizationName, *organization);
    }
    subject
}

/// What the API server knows, and how often it was asked.
#[derive(Default)]
pub(super) struct Reviews {
    pub(super) config_map: Mutex<Option<Value>>,
    pub(super) tokens: Mutex<Vec<String>>,
    pub(super) reviewed: Mutex<Vec<Value>>,
}

/// Knows the tokens `good` (user `prometheus`) and `poor` (user `nobody`); allows `prometheus` everything.
pub(super) async fn api_server() -> (kube::Client, Arc<Reviews>) {
    let reviews = Arc::new(Reviews::default());
    let app = Router::new()
        .route("/apis/authentication.k8s.io/v1/tokenreviews", post(token_review))
        .route(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            post(access_review),
        )
        .route(
            "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
            get(config_map),
        )
        .with_state(Arc::clone(&reviews));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (ClientSet::single(&Source::Address(address), None).unwrap(), reviews)
}

async fn token_review(State(reviews): State<Arc<Reviews>>, Json(mut review): Json<Value>) -> Json<Value> {
    let token = review["spec"]["token"].as_str().unwrap().to_owned();
    review["status"] = match token.as_str() {
        "good" => json!({"authenticated": true, "user": {"username": "prometheus", "groups": ["monitoring"]}}),
        "poor" => json!({"authenticated": true, "user": {"username": "nobody"}}),
        _ => json!({"authenticated": false, "error": "unknown token"}),
    };
    reviews.tokens.lock().push(token);
    Json(review)
}

async fn access_review(State(reviews): State<Arc<Reviews>>, Json(mut review): Json<Value>) -> Json<Value> {
    reviews.reviewed.lock().push(review["spec"].clone());
    review["status"] = json!({"allowed": review["spec"]["user"] == "prometheus"});
    Json(review)
}

async fn config_map(State(reviews): State<Arc<Reviews>>) -> (StatusCode, Json<Value>) {
    match reviews.config_map.lock().clone() {
        Some(data) => {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data});
            (StatusCode::OK, Json(map))
        }
        None => (
            StatusCode::NOT_FOUND,
            Json(json!({"kind": "Status", "status": "Failure", "code": 404})),
        ),
    }
}

pub(super) fn content() -> Content {
    Content {
        health: HealthChecks::new(vec![HealthCheck::leader_election(|| Ok("leader".to_owned()))]),
        metrics: Arc::new(Metrics::new(&MetricsOptions::default())),
        resources: None,
        config: Arc::new(|| json!({"kind": "KubeSchedulerConfiguration"})),
        flags: vec![
            ("v".to_owned(), "0".to_owned()),
            ("leader-elect".to_owned(), "true".to_owned()),
        ],
        logging: None,
        component: "kube-scheduler".to_owned(),
    }
}

/// A server that runs until it is dropped.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    pub(super) cancel: CancellationToken,
    pub(super) accepted: Arc<std::sync::atomic::AtomicUsize>,
    pub(super) task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

pub(super) fn options() -> ServingOptions {
    ServingOptions {
        bind_address: IpAddr::from([127, 0, 0, 1]),
        ..ServingOptions::on_port(0)
    }
}

pub(super) async fn run(
    options: &ServingOptions,
    authentication: &AuthenticationOptions,
    authorization: &AuthorizationOptions,
) -> Running {
    let server = Server::bind(options, authentication, authorization, content())
        .await
        .unwrap();
    let cancel = CancellationToken::new();
    Running {
        address: server.local_addr(),
        accepted: server.listener.accepted(),
        task: tokio::spawn(server.run(cancel.clone())),
        cancel,
    }
}

/// Everything may be seen by everybody.
pub(super) fn open() -> AuthorizationOptions {
    AuthorizationOptions {
        always_allow_paths: vec!["*".to_owned()],
        ..AuthorizationOptions::default()
    }
}

/// What a client shows and trusts.
#[derive(Clone, Default)]
pub(super) struct Caller {
    pub(super) certificate: Option<Pair>,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) http1: bool,
}

/// An answer, with the certificate that the server showed.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) text: String,
    pub(super) version: Version,
    pub(super) headers: http::HeaderMap,
}

impl Caller {
    pub(super) fn token(token: &str) -> Self {
        Self {
            headers: vec![("authorization", format!("Bearer {token}"))],
            ..Self::default()
        }
    }

    pub(super) fn with(certificate: Pair) -> Self {
        Self {
            certificate: Some(certificate),
            ..Self::default()
        }
    }

    pub(super) async fn get(&self, address: SocketAddr, path: &str) -> Answer {
        self.send(address, "GET", path, "").await
    }

    /// Sends a request on a connection of its own; trusts any server.
    pub(super) async fn send(&self, address: SocketAddr, method: &str, path: &str, body: &'static str) -> Answer {
        let response = self
            .request(&format!("https://{address}{path}"), method, body, &Shown::default())
            .await
            .unwrap();
        answer(response).await
    }

    pub(super) async fn request(
        &self,
        uri: &str,
        method: &str,
        body: &'static str,
        shown: &Shown,
    ) -> Result<Response<hyper::body::Incoming>, hyper_util::client::legacy::Error> {
        let builder = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(shown.clone()));
        let tls = match &self.certificate {
            Some(pair) => {
                let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
                builder
                    .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap())
                    .unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_only();
        let connector = if self.http1 {
            connector.enable_http1().build()
        } else {
            connector.enable_all_versions().build()
        };
        let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        client.request(request.body(Full::from(body)).unwrap()).await
    }
}

pub(super) async fn answer(response: Response<hyper::body::Incoming>) -> Answer {
    let (parts, body) = response.into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    Answer {
        code: parts.status.as_u16(),
        text,
        version: parts.version,
        headers: parts.headers,
    }
}

/// Trusts every server and remembers what it showed.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown(pub(super) Arc<Mutex<Vec<u8>>>);

impl rustls::client::danger::ServerCertVerifier for Shown {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &rustls::pki_types::ServerName<'_>,
        _ocsp: &[u8],
        _now: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        *self.0.lock() = end_entity.to_vec();
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Writes a pair to a folder.
pub(super) fn write_pair(folder: &std::path::Path, pair: &Pair) -> (PathBuf, PathBuf) {
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    std::fs::write(&certificate, &pair.certificate).unwrap();
    std::fs::write(&key, &pair.key).unwrap();
    (certificate, key)
}
