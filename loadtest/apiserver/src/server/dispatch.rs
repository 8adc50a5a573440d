//! One request: which part answers it, under which faults, in which form.
//!
//! Does not: hold state; everything is in `Shared`.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Limited};
use hyper::Method;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::body::{self, ApiResponse};
use super::path::{self, Query, ResourcePath};
use super::view::View;
use super::{MAX_BODY_BYTES, Shared, Stats, admin, auth, discovery, openapi, protobuf, reads, watching};
use crate::error::ApiError;
use crate::faults::FaultAction;
use crate::meta;
use crate::store::{
    BindRequest, DeleteOptions, Deleted, FieldSelector, LabelSelector, PatchKind, Resource, Selectors, WriteTarget,
};

/// The connection must break: hyper closes it (or resets the HTTP/2 stream) on this error.
#[derive(Debug, thiserror::Error)]
#[error("the connection is broken on purpose")]
pub(super) struct Broken;

/// Answers a request.
pub(super) async fn handle(shared: Arc<Shared>, request: Request<Incoming>) -> Result<ApiResponse, Broken> {
    Stats::add(&shared.stats.requests, 1);
    let response = match route(&shared, request).await {
        Ok(response) => response,
        Err(Outcome::Refused(error)) => body::error(&error),
        Err(Outcome::Broken) => return Err(Broken),
    };
    if response.status().as_u16() >= 400 {
        Stats::add(&shared.stats.errors, 1);
    }
    Ok(response)
}

/// Why there is no ordinary answer.
#[derive(Debug)]
enum Outcome {
    Refused(ApiError),
    Broken,
}

impl From<ApiError> for Outcome {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

async fn route(shared: &Arc<Shared>, request: Request<Incoming>) -> Result<ApiResponse, Outcome> {
    let (parts, incoming) = request.into_parts();
    let path_text = parts.uri.path();
    if let Some(addressed) = ResourcePath::parse(path_text).filter(|path| !path.plural.is_empty()) {
        auth::authenticate(shared, &parts.headers)?;
        let query = Query::parse(&parts.uri);
        let verb = path::verb(&parts.method, &addressed, &query);
        let call = Call {
            shared,
            path: addressed,
            query,
            verb,
            headers: &parts.headers,
        };
        return call.with_faults(incoming).await;
    }
    if matches!(path_text, "/healthz" | "/livez" | "/readyz") {
        return Ok(body::text(200, "ok"));
    }
    if path_text.starts_with("/supercargo/") {
        let bytes = read_body(incoming).await?;
        return Ok(body::json(
            200,
            &admin::answer(shared, &parts.method, path_text, &bytes)?,
        ));
    }
    auth::authenticate(shared, &parts.headers)?;
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Err(ApiError::no_such_path().into());
    }
    let accept = parts
        .headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if path_text == "/openapi/v2" && accept.contains("protobuf") {
        let document = body::ApiBody::Whole(Some(Bytes::from_static(openapi::V2_DOCUMENT)));
        return Ok(body::with_type(200, openapi::V2_PROTOBUF, document));
    }
    if let Some(answer) = openapi::answer(&shared.store, path_text) {
        return Ok(body::json(200, &answer));
    }
    let (content_type, answer) = discovery::answer(shared, path_text, &parts.headers)?;
    let bytes = super::view::to_bytes(&answer);
    Ok(body::with_type(200, content_type, body::ApiBody::Whole(Some(bytes))))
}

async fn read_body(incoming: Incoming) -> Result<Bytes, ApiError> {
    let limited = Limited::new(incoming, MAX_BODY_BYTES);
    match limited.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            "the request body is too large",
        )),
        Err(error) => Err(ApiError::bad_request(format!(
            "the request body cannot be read: {error}"
        ))),
    }
}

/// A request to a resource.
pub(super) struct Call<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) path: ResourcePath,
    pub(super) query: Query,
    pub(super) verb: &'static str,
    pub(super) headers: &'a HeaderMap,
}

impl Call<'_> {
    async fn with_faults(&self, incoming: Incoming) -> Result<ApiResponse, Outcome> {
        let decision = self
            .shared
            .faults
            .decide(self.verb, &self.path.plural, &self.path.subresource);
        // The body is read first: a client must not see its request half sent.
        let bytes = if matches!(self.verb, "get" | "list" | "watch") {
            Bytes::new()
        } else {
            read_body(incoming).await?
        };
        if !decision.latency.is_zero() {
            tokio::time::sleep(decision.latency).await;
        }
        match decision.action {
            None => Ok(self.answer(&bytes)?),
            Some(FaultAction::ResetBefore) => Err(Outcome::Broken),
            Some(FaultAction::ResetAfter) => {
                drop(self.answer(&bytes));
                Err(Outcome::Broken)
            }
            Some(FaultAction::Expired) if self.verb == "watch" => Ok(watching::error_stream(&ApiError::expired(
                "the history was cut on purpose",
            ))),
            Some(FaultAction::Expired) => Err(ApiError::expired("the history was cut on purpose").into()),
            Some(FaultAction::Status {
                code,
                retry_after_seconds,
            }) => {
                let reason = match code {
                    429 => "TooManyRequests",
                    503 => "ServiceUnavailable",
                    504 => "Timeout",
                    409 => "Conflict",
                    404 => "NotFound",
                    403 => "Forbidden",
                    _ => "InternalError",
                };
                let mut error = ApiError::new(code, reason, "refused on purpose");
                error.retry_after_seconds = retry_after_seconds;
                Err(error.into())
            }
        }
    }

    fn answer(&self, bytes: &Bytes) -> Result<ApiResponse, ApiError> {
        let path = &self.path;
        if self.verb == "create" {
            let binding = match path.subresource.as_str() {
                "binding" if path.plural == "pods" => true,
                "" => path.plural == "bindings" && path.group.is_empty(),
                _ => false,
            };
            if binding {
                return self.bind(bytes);
            }
            if auth::REVIEWS
                .iter()
                .any(|(group, plural, ..)| *group == path.group && *plural == path.plural)
            {
                let answer = auth::review(self.shared, path, self.headers, &self.document(bytes)?)?;
                return answer
                    .map(|answer| body::json(201, &answer))
                    .ok_or_else(ApiError::no_such_path);
            }
        }
        let resource = self.resource()?;
        let view = View::of(path, &resource.kind, self.headers, &self.query.include_object)?;
        match self.verb {
            "get" | "list" | "watch" => {
                self.check_subresource(&resource, &["status", "resize"])?;
                match self.verb {
                    "get" => reads::get(self, &resource, &view),
                    "list" => reads::list(self, &resource, &view),
                    _ => watching::watch(self, &resource, view),
                }
            }
            "create" => self.create(&resource, &view, bytes),
            "update" => {
                self.check_subresource(&resource, &["status", "resize", "finalize"])?;
                let document = view.stored(path, self.document(bytes)?);
                let object = self.shared.store.update(&self.target(&resource), document)?;
                self.count_write(&resource);
                Ok(body::json_bytes(200, view.object(&resource.kind, &object)))
            }
            "patch" => self.patch(&resource, &view, bytes),
            "delete" => self.delete(&resource, &view, bytes),
            "deletecollection" => self.delete_collection(&resource, &view, bytes),
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    fn resource(&self) -> Result<Arc<Resource>, ApiError> {
        let path = &self.path;
        let resource = self.shared.store.resource(&path.group, &path.plural)?;
        let kind = &resource.kind;
        let event = path.group == crate::store::kinds::EVENTS_GROUP && path.version == "v1";
        if !event && !kind.versions.iter().any(|version| *version == path.version) {
            return Err(ApiError::no_such_path());
        }
        let named = !path.name.is_empty() || self.verb == "create" || self.verb == "deletecollection";
        if (kind.namespaced && path.namespace.is_empty() && named) || (!kind.namespaced && !path.namespace.is_empty()) {
            return Err(ApiError::no_such_path());
        }
        Ok(resource)
    }

    pub(super) fn selectors(&self, resource: &Resource) -> Result<Selectors, ApiError> {
        Ok(Selectors {
            labels: LabelSelector::parse(&self.query.label_selector)?,
            fields: FieldSelector::parse(&self.query.field_selector, &resource.kind)?,
        })
    }

    fn check_subresource(&self, resource: &Resource, allowed: &[&str]) -> Result<(), ApiError> {
        let kind = &resource.kind;
        let subresource = self.path.subresource.as_str();
        let exists = match subresource {
            "" => true,
            "status" => kind.has_status,
            "resize" | "eviction" => kind.kind == "Pod",
            "finalize" => kind.kind == "Namespace",
            _ => false,
        };
        if exists && (subresource.is_empty() || allowed.contains(&subresource)) {
            Ok(())
        } else {
            Err(ApiError::no_such_path())
        }
    }

    fn target(&self, resource: &Arc<Resource>) -> WriteTarget {
        let mut target = WriteTarget::object(resource, &self.path.namespace, &self.path.name);
        target.subresource.clone_from(&self.path.subresource);
        target.dry_run = self.query.dry_run;
        target
    }

    /// The body as JSON.
    fn document(&self, bytes: &Bytes) -> Result<Value, ApiError> {
        let content_type = self
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if content_type.contains("protobuf")
            && let Some(document) = protobuf::decode(bytes)
        {
            return Ok(document);
        }
        if content_type.contains("protobuf") || content_type.contains("cbor") {
            let message =
                "the body of the request was in an unknown format - accepted media types include: application/json";
            return Err(ApiError::new(415, "UnsupportedMediaType", message));
        }
        serde_json::from_slice(bytes)
            .map_err(|error| ApiError::bad_request(format!("the body of the request is not valid JSON: {error}")))
    }

    fn count_write(&self, resource: &Resource) {
        if resource.kind.plural == "events" {
            Stats::add(&self.shared.stats.events_written, 1);
        } else if self.path.subresource == "status" {
            Stats::add(&self.shared.stats.status_writes, 1);
        }
    }

    fn bind(&self, bytes: &Bytes) -> Result<ApiResponse, ApiError> {
        let content_type = self
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let parsed = if content_type.contains("protobuf") {
            serde_json::from_value(self.document(bytes)?)
        } else {
            serde_json::from_slice(bytes)
        };
        let request: BindRequest = parsed
            .map_err(|error| ApiError::bad_request(format!("the body of the request is not a Binding: {error}")))?;
        let name = if self.path.subresource.is_empty() {
            &request.metadata.name
        } else {
            &self.path.name
        };
        if !request.metadata.name.is_empty() && request.metadata.name != *name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Binding object",
            ));
        }
        if !request.metadata.namespace.is_empty() && request.metadata.namespace != self.path.namespace {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::bad_request(message));
        }
        if !self.query.dry_run {
            self.shared.store.bind(&self.path.namespace, name, &request)?;
            Stats::add(&self.shared.stats.bindings, 1);
        }
        const BOUND: &[u8] =
            b"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Success\",\"code\":201}";
        Ok(body::json_bytes(201, Bytes::from_static(BOUND)))
    }

    fn create(&self, resource: &Arc<Resource>, view: &View, bytes: &Bytes) -> Result<ApiResponse, ApiError> {
        if self.path.subresource == "eviction" {
            self.check_subresource(resource, &["eviction"])?;
            return self.evict(resource, bytes);
        }
        if !self.path.name.is_empty() {
            return Err(ApiError::method_not_allowed());
        }
        let document = view.stored(&self.path, self.document(bytes)?);
        let object = self.shared.store.create(&self.target(resource), document)?;
        self.count_write(resource);
        Ok(body::json_bytes(201, view.object(&resource.kind, &object)))
    }

    fn patch(&self, resource: &Arc<Resource>, view: &View, bytes: &Bytes) -> Result<ApiResponse, ApiError> {
        self.check_subresource(resource, &["status", "resize"])?;
        let content_type = self
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let kind = PatchKind::from_content_type(content_type).ok_or_else(|| {
            ApiError::new(
                415,
                "UnsupportedMediaType",
                format!("the patch type {content_type:?} is not supported"),
            )
        })?;
        let document = self.document(bytes)?;
        let document = if kind == PatchKind::Json {
            document
        } else {
            view.stored(&self.path, document)
        };
        let target = self.target(resource);
        let existed = resource
            .get(&crate::store::key_of(&target.namespace, &target.name))
            .is_some();
        let object = self.shared.store.patch(&target, kind, &document)?;
        self.count_write(resource);
        Ok(body::json_bytes(
            if existed { 200 } else { 201 },
            view.object(&resource.kind, &object),
        ))
    }

    fn delete_options(&self, bytes: &Bytes) -> Result<DeleteOptions, ApiError> {
        let mut options: DeleteOptions = if bytes.is_empty() {
            DeleteOptions::default()
        } else {
            let document = self.document(bytes)?;
            serde_json::from_value(document)
                .map_err(|error| ApiError::bad_request(format!("the body is not DeleteOptions: {error}")))?
        };
        options.grace_period_seconds = options.grace_period_seconds.or(self.query.grace_period_seconds);
        if self.query.dry_run {
            options.dry_run = Some(vec!["All".to_owned()]);
        }
        options.dry_run = options.dry_run.filter(|list| !list.is_empty());
        Ok(options)
    }

    fn evict(&self, resource: &Arc<Resource>, bytes: &Bytes) -> Result<ApiResponse, ApiError> {
        let document = self.document(bytes)?;
        if meta::text(&document, &["metadata", "name"]).is_some_and(|name| !name.is_empty() && name != self.path.name) {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        let options = document
            .get("deleteOptions")
            .filter(|options| !options.is_null())
            .cloned();
        let options = options.map_or_else(|| Ok(DeleteOptions::default()), serde_json::from_value);
        let options = options.map_err(|error| ApiError::bad_request(format!("deleteOptions: {error}")))?;
        let mut target = self.target(resource);
        target.subresource.clear();
        self.shared.store.evict(&target, &options)?;
        Ok(body::json(
            201,
            &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
        ))
    }

    fn delete(&self, resource: &Arc<Resource>, view: &View, bytes: &Bytes) -> Result<ApiResponse, ApiError> {
        self.check_subresource(resource, &[])?;
        let options = self.delete_options(bytes)?;
        let kind = &resource.kind;
        let deleted = self.shared.store.delete(&self.target(resource), &options)?;
        let returns_object = matches!(
            kind.kind.as_ref(),
            "Pod" | "Service" | "PersistentVolume" | "PersistentVolumeClaim" | "ServiceAccount" | "ResourceClaim"
        );
        match deleted {
            Deleted::Gone(object) if !returns_object => Ok(body::json(
                200,
                &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": {
                    "name": object.name(), "group": kind.group, "kind": kind.plural, "uid": object.uid()}}),
            )),
            Deleted::Gone(object) | Deleted::Waiting(object) => Ok(body::json_bytes(200, view.object(kind, &object))),
        }
    }

    fn delete_collection(&self, resource: &Arc<Resource>, view: &View, bytes: &Bytes) -> Result<ApiResponse, ApiError> {
        let options = self.delete_options(bytes)?;
        let selectors = self.selectors(resource)?;
        let objects = self
            .shared
            .store
            .delete_collection(&self.target(resource), selectors, &options)?;
        let rv = self.shared.store.version();
        Ok(reads::list_response(&resource.kind, view, objects, rv, None, None))
    }
}
