//! Create, update and patch: the request's object through admission into the resource.
//!
//! Source for the order of steps: apiserver `registry/rest/{create,update}.go`.
//!
//! Does not: delete (`lifecycle`) or bind (`binding`).

use std::sync::Arc;

use serde_json::{Map, Value};

use super::admission;
use super::object::{Draft, EventKind, Object};
use super::patch::{self, PatchKind};
use super::resource::{Resource, key_of};
use super::{Store, kinds};
use crate::error::ApiError;
use crate::meta;

/// Attempts of one optimistic write before it answers 409. Each failure means that another write succeeded.
const MAX_ATTEMPTS: usize = 100;
/// Attempts to find a free generated name.
const MAX_NAME_ATTEMPTS: usize = 8;

/// What a write addresses.
#[derive(Debug, Clone)]
pub struct WriteTarget {
    /// The resource.
    pub resource: Arc<Resource>,
    /// Namespace, empty for cluster scope.
    pub namespace: String,
    /// Object name, empty for create.
    pub name: String,
    /// `status` or `resize`, empty for the object itself.
    pub subresource: String,
    /// Whether to answer without storing (`dryRun=All`).
    pub dry_run: bool,
}

impl WriteTarget {
    /// The object itself.
    #[must_use]
    pub fn object(resource: &Arc<Resource>, namespace: &str, name: &str) -> Self {
        Self {
            resource: Arc::clone(resource),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
            dry_run: false,
        }
    }

    /// Its status subresource.
    #[must_use]
    pub fn status(resource: &Arc<Resource>, namespace: &str, name: &str) -> Self {
        Self {
            subresource: "status".to_owned(),
            ..Self::object(resource, namespace, name)
        }
    }

    pub(super) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.resource.kind.group, &self.resource.kind.plural, &self.name)
    }

    pub(super) fn current(&self) -> Result<Arc<Object>, ApiError> {
        self.resource
            .get(&key_of(&self.namespace, &self.name))
            .ok_or_else(|| self.not_found())
    }
}

impl Store {
    /// Creates an object of a resource named by group and plural, as a client would.
    ///
    /// # Errors
    /// As the API: 404 namespace, 409 exists, 422 invalid.
    pub fn create_as(&self, group: &str, plural: &str, namespace: &str, body: Value) -> Result<Arc<Object>, ApiError> {
        let resource = self.resource(group, plural)?;
        self.create(&WriteTarget::object(&resource, namespace, ""), body)
    }

    /// Creates an object.
    ///
    /// # Errors
    /// As the API: 400 malformed, 404 namespace, 409 exists, 422 invalid.
    pub fn create(&self, target: &WriteTarget, body: Value) -> Result<Arc<Object>, ApiError> {
        let kind = &target.resource.kind;
        let mut body = self.checked_body(target, body)?;
        let prefix = prepare_name(target, &mut body)?;
        self.check_namespace(target)?;
        admission::prepare_create(self, kind, &target.namespace, &mut body)?;
        stamp_new(kind, &mut body);
        let mut body = Value::Object(body);
        for _ in 0..MAX_NAME_ATTEMPTS {
            if let Some(prefix) = &prefix {
                body["metadata"]["name"] = meta::generated_name(prefix).into();
            }
            let name = meta::text(&body, &["metadata", "name"]).unwrap_or_default();
            let draft = Draft::new(&body);
            if target.dry_run {
                return match target.resource.get(&key_of(&target.namespace, name)) {
                    Some(_) => Err(ApiError::already_exists(&kind.group, &kind.plural, name)),
                    None => Ok(unstored(target, name, &draft, self.version())),
                };
            }
            if let Some(object) = target.resource.insert(&target.namespace, name, &draft) {
                self.after_write(&target.resource, &object)?;
                return Ok(object);
            }
            if prefix.is_none() {
                break;
            }
        }
        let name = meta::text(&body, &["metadata", "name"]).unwrap_or_default();
        Err(ApiError::already_exists(&kind.group, &kind.plural, name))
    }

    /// Stores an object as it is, without admission: for a prepared cluster state (bound pods, statuses).
    ///
    /// UID and creation time are filled in where they are missing.
    ///
    /// # Errors
    /// 409 when the name is taken, 422 without a name.
    pub fn insert_raw(&self, group: &str, plural: &str, body: Value) -> Result<Arc<Object>, ApiError> {
        let resource = self.resource(group, plural)?;
        let kind = &resource.kind;
        let Value::Object(mut body) = body else {
            return Err(ApiError::bad_request("the object must be a JSON object"));
        };
        body.insert("apiVersion".into(), kind.api_version().into());
        body.insert("kind".into(), kind.kind.as_ref().into());
        let metadata = meta::section(&mut body, "metadata");
        meta::set_default(metadata, "uid", meta::new_uid());
        meta::set_default(metadata, "creationTimestamp", meta::now_seconds());
        let body = Value::Object(body);
        let name = meta::text(&body, &["metadata", "name"]).unwrap_or_default();
        let namespace = meta::text(&body, &["metadata", "namespace"]).unwrap_or_default();
        if name.is_empty() || namespace.is_empty() == kind.namespaced {
            return Err(ApiError::invalid(
                &kind.group,
                &kind.kind,
                name,
                "metadata",
                "name or namespace is missing",
            ));
        }
        let stored = resource.insert(namespace, name, &Draft::new(&body));
        stored.ok_or_else(|| ApiError::already_exists(&kind.group, &kind.plural, name))
    }

    /// Replaces an object (or one of its subresources) with `body`.
    ///
    /// # Errors
    /// As the API: 404, 409 on an old resource version or another UID, 422 invalid.
    pub fn update(&self, target: &WriteTarget, body: Value) -> Result<Arc<Object>, ApiError> {
        let body = Value::Object(self.checked_body(target, body)?);
        if meta::text(&body, &["metadata", "name"]).is_some_and(|name| name != target.name) {
            return Err(ApiError::bad_request(
                "the name of the object does not match the name on the URL",
            ));
        }
        self.write(target, |current| {
            check_uid(target, current, &body)?;
            Ok(body.clone())
        })
    }

    /// Changes an object by a patch document; with [`PatchKind::Apply`] it is created when it does not exist.
    ///
    /// # Errors
    /// As the API: 400 malformed patch, 404, 409, 415 strategic patch of a custom resource, 422 invalid.
    pub fn patch(&self, target: &WriteTarget, kind: PatchKind, document: &Value) -> Result<Arc<Object>, ApiError> {
        let exists = target.resource.get(&key_of(&target.namespace, &target.name)).is_some();
        if kind == PatchKind::Apply && !exists && target.subresource.is_empty() {
            let mut body = document.clone();
            if let Value::Object(map) = &mut body {
                let metadata = meta::section(map, "metadata");
                metadata.insert("name".into(), target.name.as_str().into());
            }
            return self.create(target, body);
        }
        let custom = target.resource.kind.custom;
        self.write(target, |current| patch::apply(kind, custom, current, document))
    }

    /// The optimistic loop: compute the new object from the stored one, check it, replace.
    pub(super) fn write(
        &self,
        target: &WriteTarget,
        change: impl Fn(&Value) -> Result<Value, ApiError>,
    ) -> Result<Arc<Object>, ApiError> {
        let kind = &target.resource.kind;
        for _ in 0..MAX_ATTEMPTS {
            let current = target.current()?;
            let old = current.value();
            let new = change(&old)?;
            check_preconditions(target, &current, &new)?;
            let new = admission::prepare_update(self, target, &old, new)?;
            if new == old {
                return Ok(current);
            }
            let draft = Draft::new(&new);
            if target.dry_run {
                return Ok(unstored(target, &target.name, &draft, current.rv));
            }
            let stored = if admission::is_released(&new) {
                target.resource.remove(&current, &draft)
            } else {
                target.resource.replace(&current, &draft)
            };
            if let Some(object) = stored {
                self.after_write(&target.resource, &object)?;
                return Ok(object);
            }
        }
        Err(ApiError::stale(&kind.group, &kind.plural, &target.name))
    }

    fn checked_body(&self, target: &WriteTarget, body: Value) -> Result<Map<String, Value>, ApiError> {
        let kind = &target.resource.kind;
        let Value::Object(mut body) = body else {
            return Err(ApiError::bad_request("the request body must be a JSON object"));
        };
        if let Some(other) = body
            .get("kind")
            .and_then(Value::as_str)
            .filter(|other| *other != kind.kind)
        {
            let message = format!("{other} in the body does not match the expected kind {}", kind.kind);
            return Err(ApiError::bad_request(message));
        }
        if let Some(version) = body.get("apiVersion").and_then(Value::as_str)
            && !serves(kind, version)
        {
            let message = format!(
                "the API version in the data ({version}) does not match {}",
                kind.api_version()
            );
            return Err(ApiError::bad_request(message));
        }
        body.insert("apiVersion".into(), kind.api_version().into());
        body.insert("kind".into(), kind.kind.as_ref().into());
        let metadata = meta::section(&mut body, "metadata");
        metadata.remove("managedFields");
        metadata.remove("selfLink");
        if kind.namespaced {
            let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
            if !namespace.is_empty() && namespace != target.namespace {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            metadata.insert("namespace".into(), target.namespace.as_str().into());
        } else {
            metadata.remove("namespace");
        }
        Ok(body)
    }

    fn check_namespace(&self, target: &WriteTarget) -> Result<(), ApiError> {
        if !target.resource.kind.namespaced {
            return Ok(());
        }
        let namespaces = self.resource("", "namespaces")?;
        let Some(namespace) = namespaces.get(&key_of("", &target.namespace)) else {
            return Err(ApiError::not_found("", "namespaces", &target.namespace));
        };
        if namespace.index.deleting {
            let kind = &target.resource.kind;
            let why = format!(
                "unable to create new content in namespace {} because it is being terminated",
                target.namespace
            );
            return Err(ApiError::forbidden(&kind.group, &kind.plural, "", &why));
        }
        Ok(())
    }

    /// Definitions of custom resources take effect when they are written.
    fn after_write(&self, resource: &Arc<Resource>, object: &Arc<Object>) -> Result<(), ApiError> {
        if resource.kind.plural == "customresourcedefinitions" && object.stored_kind() != EventKind::Deleted {
            self.establish(&object.value())?;
        }
        Ok(())
    }
}

fn serves(kind: &kinds::Kind, api_version: &str) -> bool {
    let in_own_group = kind
        .versions
        .iter()
        .any(|version| kinds::group_version(&kind.group, version) == api_version);
    in_own_group || (kind.kind == "Event" && api_version == "events.k8s.io/v1")
}

/// Checks the name, or returns the prefix of the name to generate.
fn prepare_name(target: &WriteTarget, body: &mut Map<String, Value>) -> Result<Option<String>, ApiError> {
    let kind = &target.resource.kind;
    let metadata = meta::section(body, "metadata");
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
        if prefix.is_empty() {
            return Err(ApiError::invalid(
                &kind.group,
                &kind.kind,
                "",
                "metadata.name",
                "Required value: name or generateName is required",
            ));
        }
        return Ok(Some(prefix.to_owned()));
    }
    let lenient = kind.group == "rbac.authorization.k8s.io";
    if !meta::is_valid_name(name, lenient) {
        let message = format!("Invalid value: {name:?}: not a lower case RFC 1123 subdomain");
        return Err(ApiError::invalid(
            &kind.group,
            &kind.kind,
            name,
            "metadata.name",
            &message,
        ));
    }
    Ok(None)
}

fn stamp_new(kind: &kinds::Kind, body: &mut Map<String, Value>) {
    let metadata = meta::section(body, "metadata");
    for key in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "generation",
    ] {
        metadata.remove(key);
    }
    metadata.insert("uid".into(), meta::new_uid().into());
    metadata.insert("creationTimestamp".into(), meta::now_seconds().into());
    if kind.has_generation {
        metadata.insert("generation".into(), 1.into());
    }
}

fn check_preconditions(target: &WriteTarget, current: &Object, new: &Value) -> Result<(), ApiError> {
    let kind = &target.resource.kind;
    let version = meta::text(new, &["metadata", "resourceVersion"]).unwrap_or_default();
    if !version.is_empty() && version != "0" && version != current.rv.to_string() {
        return Err(ApiError::stale(&kind.group, &kind.plural, &target.name));
    }
    let uid = meta::text(new, &["metadata", "uid"]).unwrap_or_default();
    if !uid.is_empty() && uid != current.uid() {
        let why = format!("Invalid value: {uid:?}: field is immutable");
        return Err(ApiError::invalid(
            &kind.group,
            &kind.kind,
            &target.name,
            "metadata.uid",
            &why,
        ));
    }
    Ok(())
}

/// The UID in a whole object is a precondition (409); in a patch it is a change that is not allowed (422, above).
fn check_uid(target: &WriteTarget, current: &Value, new: &Value) -> Result<(), ApiError> {
    let uid = |object: &Value| meta::text(object, &["metadata", "uid"]).unwrap_or_default().to_owned();
    let (wanted, found) = (uid(new), uid(current));
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    let kind = &target.resource.kind;
    let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}");
    Err(ApiError::conflict(&kind.group, &kind.plural, &target.name, &why))
}

/// The answer of a dry run.
fn unstored(target: &WriteTarget, name: &str, draft: &Draft, rv: u64) -> Arc<Object> {
    let key = key_of(&target.namespace, name).into();
    Arc::new(draft.finish(key, target.namespace.len(), EventKind::Added, rv))
}
