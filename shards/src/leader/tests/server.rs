//! One Lease in memory with optimistic concurrency, and clients whose calls can be made to fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, Request, Response};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tower_test::mock;

/// Time until an answer.
const LATENCY: Duration = Duration::from_millis(5);

/// What happens to calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// They are served.
    None,
    /// They are not served and never answered.
    Hang,
    /// They are served and never answered.
    ApplyAndHang,
    /// They are answered with 500.
    Error,
    /// Writes are answered with 409.
    Conflict,
}

/// The server's state; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Store(Arc<Mutex<Option<Lease>>>);

/// One client's faults.
#[derive(Debug, Clone)]
pub(super) struct Replica(Arc<Mutex<Plan>>);

#[derive(Debug)]
struct Plan {
    fault: Fault,
    once: Option<Fault>,
}

impl Replica {
    /// All calls from now on.
    pub(super) fn set(&self, fault: Fault) {
        self.0.lock().fault = fault;
    }

    /// The next call alone.
    pub(super) fn set_once(&self, fault: Fault) {
        self.0.lock().once = Some(fault);
    }

    fn next(&self) -> Fault {
        let mut plan = self.0.lock();
        plan.once.take().unwrap_or(plan.fault)
    }
}

impl Store {
    /// A client of this server, served by a task that ends with the client.
    pub(super) fn client(&self) -> (Client, Replica) {
        let (service, handle) = mock::pair::<Request<Body>, Response<Body>>();
        let replica = Replica(Arc::new(Mutex::new(Plan {
            fault: Fault::None,
            once: None,
        })));
        tokio::spawn(serve(self.clone(), replica.clone(), handle));
        (Client::new(service, "default"), replica)
    }

    pub(super) fn spec(&self) -> Option<LeaseSpec> {
        self.0.lock().clone()?.spec
    }

    pub(super) fn delete(&self) {
        self.0.lock().take();
    }

    /// Changes the record as `kubectl edit` would.
    pub(super) fn edit(&self, change: impl FnOnce(&mut LeaseSpec)) {
        let mut lease = self.0.lock();
        let Some(lease) = lease.as_mut() else { return };
        change(lease.spec.get_or_insert_default());
        bump(lease);
    }

    /// Makes a record.
    pub(super) fn put(&self, change: impl FnOnce(&mut LeaseSpec)) {
        self.0.lock().get_or_insert_default();
        self.edit(change);
    }

    fn handle(&self, method: &Method, body: &[u8]) -> Response<Body> {
        let mut stored = self.0.lock();
        match (method, stored.as_mut()) {
            (&Method::GET, Some(lease)) => json(200, lease),
            (&Method::POST, None) => {
                let mut lease: Lease = serde_json::from_slice(body).unwrap();
                bump(&mut lease);
                json(201, stored.insert(lease))
            }
            (&Method::POST, Some(_)) => status(409, "AlreadyExists"),
            (&Method::PUT, Some(lease)) => {
                let new: Lease = serde_json::from_slice(body).unwrap();
                if new.metadata.resource_version != lease.metadata.resource_version {
                    return status(409, "Conflict");
                }
                *lease = new;
                bump(lease);
                json(200, lease)
            }
            _ => status(404, "NotFound"),
        }
    }
}

/// Versions never repeat, also when a Lease is deleted and made again.
fn bump(lease: &mut Lease) {
    static VERSION: AtomicU64 = AtomicU64::new(1);
    lease.metadata.resource_version = Some(VERSION.fetch_add(1, Ordering::Relaxed).to_string());
}

async fn serve(store: Store, replica: Replica, mut handle: mock::Handle<Request<Body>, Response<Body>>) {
    let mut unanswered = Vec::new();
    while let Some((request, answer)) = handle.next_request().await {
        tokio::time::sleep(LATENCY).await;
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let response = match replica.next() {
            Fault::None => store.handle(&parts.method, &body),
            Fault::Error => status(500, "InternalError"),
            Fault::Conflict if parts.method != Method::GET => status(409, "Conflict"),
            Fault::Conflict => store.handle(&parts.method, &body),
            Fault::ApplyAndHang => {
                store.handle(&parts.method, &body);
                unanswered.push(answer);
                continue;
            }
            Fault::Hang => {
                unanswered.push(answer);
                continue;
            }
        };
        answer.send_response(response);
    }
}

fn json(code: u16, lease: &Lease) -> Response<Body> {
    Response::builder()
        .status(code)
        .body(Body::from(serde_json::to_vec(lease).unwrap()))
        .unwrap()
}

fn status(code: u16, reason: &str) -> Response<Body> {
    let body = serde_json::json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason,
    });
    Response::builder()
        .status(code)
        .body(Body::from(body.to_string().into_bytes()))
        .unwrap()
}
