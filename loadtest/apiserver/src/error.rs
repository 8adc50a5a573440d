//! What the server answers when it refuses: the error type of the whole crate's API part and its `Status` form.
//!
//! Does not: know HTTP bodies or headers; `server` turns an [`ApiError`] into a response.

use serde_json::{Map, Value, json};

/// A refusal, as the API shows it: an HTTP code, a machine-readable reason and a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({reason}, {code})")]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// `Status.reason`, for example `NotFound`; empty where upstream gives none.
    pub reason: &'static str,
    /// `Status.message`.
    pub message: String,
    /// Seconds for `Retry-After` and `details.retryAfterSeconds`.
    pub retry_after_seconds: Option<u32>,
    /// What `details` says; boxed, because errors travel in every `Result`.
    details: Box<Details>,
}

/// The rest of `Status.details`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Details {
    /// Empty for the core group.
    group: String,
    /// Plural resource name or kind; empty: no object is named.
    resource: String,
    name: String,
    /// (reason, field, message)
    causes: Vec<(&'static str, String, String)>,
}

impl ApiError {
    /// An error without details.
    #[must_use]
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            retry_after_seconds: None,
            details: Box::default(),
        }
    }

    /// Names the object that the error is about.
    #[must_use]
    pub fn about(mut self, group: &str, resource: &str, name: &str) -> Self {
        group.clone_into(&mut self.details.group);
        resource.clone_into(&mut self.details.resource);
        name.clone_into(&mut self.details.name);
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn because(mut self, reason: &'static str, field: &str, message: &str) -> Self {
        self.details.causes.push((reason, field.to_owned(), message.to_owned()));
        self
    }

    /// 404 for an object.
    #[must_use]
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::new(
            404,
            "NotFound",
            format!("{} \"{name}\" not found", qualified(resource, group)),
        )
        .about(group, resource, name)
    }

    /// 404 for a path that serves nothing.
    #[must_use]
    pub fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// 409 for a create of something that exists.
    #[must_use]
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} \"{name}\" already exists", qualified(resource, group)),
        )
        .about(group, resource, name)
    }

    /// 409 for a write that lost against another.
    #[must_use]
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let resource_name = qualified(resource, group);
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {resource_name} \"{name}\": {why}"),
        )
        .about(group, resource, name)
    }

    /// 409 for an update with an old `resourceVersion`.
    #[must_use]
    pub fn stale(group: &str, resource: &str, name: &str) -> Self {
        Self::conflict(
            group,
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 422 for an object that breaks a rule; `field` is a path such as `spec.containers`.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, field: &str, message: &str) -> Self {
        let kind_name = qualified(kind, group);
        let message_text = format!("{kind_name} \"{name}\" is invalid: {field}: {message}");
        Self::new(422, "Invalid", message_text)
            .about(group, kind, name)
            .because("FieldValueInvalid", field, message)
    }

    /// 400 for a request that cannot be understood.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403 for a write that admission refuses.
    #[must_use]
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        Self::new(
            403,
            "Forbidden",
            format!("{} \"{name}\" is forbidden: {why}", qualified(resource, group)),
        )
        .about(group, resource, name)
    }

    /// 410 for a resource version that the history no longer holds.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 429 with a delay.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let mut error = Self::new(429, "TooManyRequests", message);
        error.retry_after_seconds = Some(retry_after_seconds);
        error
    }

    /// 405 for a verb that a resource lacks.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// The `Status` object.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut details = Map::new();
        if !self.details.resource.is_empty() {
            details.insert("name".into(), self.details.name.as_str().into());
            details.insert("kind".into(), self.details.resource.as_str().into());
            if !self.details.group.is_empty() {
                details.insert("group".into(), self.details.group.as_str().into());
            }
        }
        if let Some(seconds) = self.retry_after_seconds {
            details.insert("retryAfterSeconds".into(), seconds.into());
        }
        if !self.details.causes.is_empty() {
            let causes: Vec<Value> = self
                .details
                .causes
                .iter()
                .map(|(reason, field, message)| json!({"reason": reason, "field": field, "message": message}))
                .collect();
            details.insert("causes".into(), causes.into());
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let (false, Some(object)) = (details.is_empty(), status.as_object_mut()) {
            object.insert("details".into(), Value::Object(details));
        }
        status
    }
}

/// `pods`, or `replicasets.apps` outside the core group.
fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_names_the_object_and_the_delay() {
        let mut error = ApiError::not_found("apps", "replicasets", "a");
        error.retry_after_seconds = Some(3);
        let status = error.status();
        assert_eq!(status["message"], "replicasets.apps \"a\" not found");
        assert_eq!(
            status["details"],
            json!({"name": "a", "kind": "replicasets", "group": "apps", "retryAfterSeconds": 3})
        );
        assert_eq!(status["code"], 404);
    }
}
