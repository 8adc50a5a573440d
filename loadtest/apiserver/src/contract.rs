//! API semantics as tests for any server: the embedded one and a real kube-apiserver must pass the same list.
//!
//! Each test gets a namespace of its own and cleans up what is cluster-scoped. Nothing is assumed beyond an API server
//! with administrator rights: no controllers, no kubelets, no scheduler.
//!
//! Does not: measure; test faults (a real server has none on demand).
//!
//! Children: `objects`, `patching`, `binding`, `deleting`, `reading`, `watching`, `kinds`.

use std::pin::Pin;
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use crate::meta;

mod binding;
mod deleting;
mod kinds;
mod objects;
mod patching;
mod reading;
mod watching;

/// Longest time that one test may take.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a test failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ContractError(String);

impl ContractError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The outcome of a test.
pub type ContractResult = Result<(), ContractError>;
type TestFuture = Pin<Box<dyn Future<Output = ContractResult> + Send>>;

/// A test of the contract.
#[derive(Debug, Clone, Copy)]
pub struct ContractTest {
    /// Its name: the behaviour that it asks for.
    pub name: &'static str,
    run: fn(Context) -> TestFuture,
}

impl ContractTest {
    const fn new(name: &'static str, run: fn(Context) -> TestFuture) -> Self {
        Self { name, run }
    }

    /// Runs the test in a fresh namespace.
    ///
    /// # Errors
    /// When the server does not behave as asked; the message says what it did.
    pub async fn run(&self, client: Client) -> ContractResult {
        let run = async {
            let context = Context::create(client).await?;
            let outcome = (self.run)(context.clone()).await;
            context.clean_up().await;
            outcome
        };
        match tokio::time::timeout(TEST_TIMEOUT, run).await {
            Ok(outcome) => outcome.map_err(|error| ContractError(format!("{}: {error}", self.name))),
            Err(_) => Err(ContractError(format!("{}: not done after {TEST_TIMEOUT:?}", self.name))),
        }
    }
}

/// A client for the tests from a kubeconfig's text. It does not retry: refusals are what the tests look at.
///
/// # Errors
/// When the kubeconfig is not complete.
pub async fn client(kubeconfig: &str) -> Result<Client, ContractError> {
    let failed = |error: &dyn std::fmt::Display| ContractError(format!("the kubeconfig cannot be used: {error}"));
    let kubeconfig = kube::config::Kubeconfig::from_yaml(kubeconfig).map_err(|error| failed(&error))?;
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| failed(&error))?;
    config.default_retry = false;
    Client::try_from(config).map_err(|error| failed(&error))
}

/// All tests, in reading order.
#[must_use]
pub fn all() -> Vec<ContractTest> {
    [
        objects::tests(),
        patching::tests(),
        binding::tests(),
        deleting::tests(),
        reading::tests(),
        watching::tests(),
        kinds::tests(),
    ]
    .concat()
}

/// Runs all tests one after the other and returns the failures. The client should not retry: see [`client`].
pub async fn run_all(client: &Client) -> Vec<ContractError> {
    let mut failures = Vec::new();
    for test in all() {
        if let Err(error) = test.run(client.clone()).await {
            failures.push(error);
        }
    }
    failures
}

/// A refusal of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    code: u16,
    reason: String,
    message: String,
}

/// What a test works with.
#[derive(Clone)]
pub(crate) struct Context {
    client: Client,
    namespace: String,
}

/// Asks for a condition, or fails the test with a message.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::contract::ContractError::new(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;

/// Makes the list of a module's tests.
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        pub(super) fn tests() -> Vec<$crate::contract::ContractTest> {
            vec![$($crate::contract::ContractTest::new(stringify!($name), |context| Box::pin($name(context)))),+]
        }
    };
}
pub(crate) use tests;

impl Context {
    async fn create(client: Client) -> Result<Self, ContractError> {
        let mut context = Self {
            client,
            namespace: String::new(),
        };
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "contract-"}});
        let created = context.post("/api/v1/namespaces", &body).await?;
        text(&created, &["metadata", "name"]).clone_into(&mut context.namespace);
        Ok(context)
    }

    async fn clean_up(&self) {
        // Pods first: a real server without controllers never empties a namespace.
        for path in [self.pods(), format!("/api/v1/namespaces/{}", self.namespace)] {
            let request = self
                .call("DELETE", &format!("{path}?gracePeriodSeconds=0"), "", None)
                .await;
            if let Err(refusal) = request {
                tracing::debug!(code = refusal.code, message = refusal.message, "clean-up was refused");
            }
        }
    }

    /// Path of the namespace's pods.
    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    /// Path of a pod.
    fn pod(&self, name: &str) -> String {
        format!("{}/{name}", self.pods())
    }

    /// Path of a named resource in the namespace.
    fn in_group(&self, group_version: &str, plural: &str) -> String {
        format!("/apis/{group_version}/namespaces/{}/{plural}", self.namespace)
    }

    /// One request. Failures of the transport count as code 0.
    async fn call(&self, method: &str, path: &str, content_type: &str, body: Option<&Value>) -> Result<Value, Refusal> {
        let transport = |message: String| Refusal {
            code: 0,
            reason: "Transport".to_owned(),
            message,
        };
        let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let mut request = http::Request::builder().method(method).uri(path);
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        let request = request.body(bytes).map_err(|error| transport(error.to_string()))?;
        self.client
            .request::<Value>(request)
            .await
            .map_err(|error| match error {
                kube::Error::Api(status) => Refusal {
                    code: status.code,
                    reason: status.reason.clone(),
                    message: status.message.clone(),
                },
                other => transport(other.to_string()),
            })
    }

    async fn get(&self, path: &str) -> Result<Value, ContractError> {
        accepted("get", path, self.call("GET", path, "", None).await)
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, ContractError> {
        accepted(
            "create",
            path,
            self.call("POST", path, "application/json", Some(body)).await,
        )
    }

    async fn put(&self, path: &str, body: &Value) -> Result<Value, ContractError> {
        accepted(
            "update",
            path,
            self.call("PUT", path, "application/json", Some(body)).await,
        )
    }

    async fn patch(&self, path: &str, kind: &str, body: &Value) -> Result<Value, ContractError> {
        let content_type = format!("application/{kind}");
        accepted("patch", path, self.call("PATCH", path, &content_type, Some(body)).await)
    }

    async fn delete(&self, path: &str, options: &Value) -> Result<Value, ContractError> {
        accepted(
            "delete",
            path,
            self.call("DELETE", path, "application/json", Some(options)).await,
        )
    }

    /// A request that must be refused with a code.
    async fn refused(
        &self,
        code: u16,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Refusal, ContractError> {
        self.refused_as(code, method, path, "application/json", body).await
    }

    async fn refused_as(
        &self,
        code: u16,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Refusal, ContractError> {
        match self.call(method, path, content_type, body).await {
            Err(refusal) if refusal.code == code => Ok(refusal),
            Err(refusal) => Err(ContractError(format!(
                "{method} {path}: refused with {refusal:?}, {code} expected"
            ))),
            Ok(answer) => Err(ContractError(format!(
                "{method} {path}: accepted with {answer}, {code} expected"
            ))),
        }
    }

    /// Creates a plain pod.
    async fn create_pod(&self, name: &str) -> Result<Value, ContractError> {
        self.post(&self.pods(), &pod(name)).await
    }

    /// Binds a pod.
    async fn bind(&self, name: &str, node: &str) -> Result<Value, ContractError> {
        self.post(&format!("{}/binding", self.pod(name)), &binding(name, node))
            .await
    }
}

fn accepted(verb: &str, path: &str, answer: Result<Value, Refusal>) -> Result<Value, ContractError> {
    answer.map_err(|refusal| ContractError(format!("{verb} {path}: refused with {refusal:?}")))
}

/// A plain pod with a label.
fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "contract"}},
        "spec": {"containers": [{"name": "c", "image": "registry.example.com/none:v1"}]},
    })
}

/// A Binding.
fn binding(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    })
}

fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    meta::text(value, path).unwrap_or_default()
}

fn version(value: &Value) -> &str {
    text(value, &["metadata", "resourceVersion"])
}

/// A condition of an object's status.
fn condition<'a>(value: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = meta::get(value, &["status", "conditions"]).and_then(Value::as_array)?;
    conditions.iter().find(|condition| text(condition, &["type"]) == kind)
}

/// Names of a list's items.
fn names(list: &Value) -> Vec<&str> {
    let items = list.get("items").and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .map(|item| text(item, &["metadata", "name"]))
        .collect()
}
