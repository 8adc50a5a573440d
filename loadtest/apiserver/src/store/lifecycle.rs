//! Deletion: grace, finalizers, preconditions, collections, namespaces, and eviction under disruption budgets.
//!
//! Source: apiserver `registry/rest/delete.go`, `pkg/registry/core/pod/strategy.go` (`CheckGracefulDelete`),
//! `pkg/registry/core/pod/storage/eviction.go`.
//!
//! Does not: collect garbage by owner (propagation policies are accepted and ignored), nor run pods (`hollow` does).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::admission;
use super::object::{Draft, Object};
use super::selector::{LabelSelector, Selectors};
use super::writes::WriteTarget;
use super::{ListQuery, Store};
use crate::error::ApiError;
use crate::meta;

const MAX_ATTEMPTS: usize = 100;
/// Grace of a pod that names none.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// `metav1.DeleteOptions`, as far as it is used.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Seconds until the object may go; absent: the kind's default.
    pub grace_period_seconds: Option<i64>,
    /// What the object must be.
    pub preconditions: Option<Preconditions>,
    /// `["All"]`: answer without deleting.
    pub dry_run: Option<Vec<String>>,
}

/// Preconditions of a deletion.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Preconditions {
    /// The object's UID.
    pub uid: Option<String>,
    /// The object's version.
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// Without grace, and only if the UID is this one.
    #[must_use]
    pub fn now(uid: &str) -> Self {
        let preconditions = Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        };
        Self {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            dry_run: None,
        }
    }
}

/// What a deletion did.
#[derive(Debug, Clone)]
pub enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Arc<Object>),
    /// The object waits for its grace or finalizers.
    Waiting(Arc<Object>),
}

impl Deleted {
    /// The object's newest state.
    #[must_use]
    pub const fn object(&self) -> &Arc<Object> {
        match self {
            Self::Gone(object) | Self::Waiting(object) => object,
        }
    }
}

impl Store {
    /// Deletes an object.
    ///
    /// # Errors
    /// 404 when it does not exist, 409 when a precondition fails.
    pub fn delete(&self, target: &WriteTarget, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        let kind = &target.resource.kind;
        let is_pod = kind.kind == "Pod" && !kind.custom;
        let mut marked: Option<Arc<Object>> = None;
        for _ in 0..MAX_ATTEMPTS {
            let current = match (target.current(), marked) {
                (Ok(current), _) => current,
                // A kubelet was faster with the second step.
                (Err(_), Some(marked)) => return Ok(Deleted::Gone(marked)),
                (Err(error), None) => return Err(error),
            };
            check_preconditions(target, &current, options)?;
            if target.dry_run || options.dry_run.is_some() {
                return Ok(Deleted::Gone(current));
            }
            let old = current.value();
            let grace = if is_pod { pod_grace(&old, options) } else { 0 };
            let free = grace == 0 && !admission::has_finalizers(&old);
            // A pod always shows its deletion time before it goes, as upstream's graceful deletion has it.
            let new = if free && !is_pod {
                old.clone()
            } else {
                mark_deleted(&old, grace)
            };
            if new != old {
                marked = target.resource.replace(&current, &Draft::new(&new));
                match &marked {
                    Some(waiting) if !free => return Ok(Deleted::Waiting(Arc::clone(waiting))),
                    _ => continue,
                }
            }
            if !free {
                return Ok(Deleted::Waiting(current));
            }
            if let Some(gone) = target.resource.remove(&current, &Draft::same_as(&current)) {
                self.after_delete(target, &gone)?;
                return Ok(Deleted::Gone(gone));
            }
            marked = None;
        }
        Err(ApiError::stale(&kind.group, &kind.plural, &target.name))
    }

    /// Deletes an object named by group and plural without grace, for tests and hollow nodes.
    ///
    /// # Errors
    /// As [`Store::delete`].
    pub fn delete_now(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Result<Deleted, ApiError> {
        let target = WriteTarget::object(&self.resource(group, plural)?, namespace, name);
        self.delete(
            &target,
            &DeleteOptions {
                grace_period_seconds: Some(0),
                ..DeleteOptions::default()
            },
        )
    }

    /// Deletes everything that a list would show; returns the deleted objects.
    ///
    /// # Errors
    /// As [`Store::delete`], except that an object that went meanwhile is no error.
    pub fn delete_collection(
        &self,
        target: &WriteTarget,
        selectors: Selectors,
        options: &DeleteOptions,
    ) -> Result<Vec<Arc<Object>>, ApiError> {
        let namespace = (!target.namespace.is_empty()).then(|| target.namespace.clone());
        let page = target.resource.list(&ListQuery {
            namespace,
            selectors,
            ..ListQuery::default()
        })?;
        let mut deleted = Vec::with_capacity(page.objects.len());
        for object in page.objects {
            let mut one = WriteTarget::object(&target.resource, object.namespace(), object.name());
            one.dry_run = target.dry_run;
            match self.delete(&one, options) {
                Ok(outcome) => deleted.push(Arc::clone(outcome.object())),
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }

    /// Evicts a pod if its disruption budget allows it.
    ///
    /// # Errors
    /// 404 when the pod is gone, 409 on a failed precondition, 429 when the budget is used up, 500 when several
    /// budgets match.
    pub fn evict(&self, target: &WriteTarget, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        let pod = target.current()?;
        check_preconditions(target, &pod, options)?;
        let unprotected = pod.index.deleting || matches!(pod.index.phase, "Pending" | "Succeeded" | "Failed");
        if !unprotected {
            self.charge_budget(target, &pod)?;
        }
        let mut options = options.clone();
        options
            .preconditions
            .get_or_insert_default()
            .uid
            .get_or_insert_with(|| pod.uid().to_owned());
        self.delete(target, &options)
    }

    fn charge_budget(&self, target: &WriteTarget, pod: &Object) -> Result<(), ApiError> {
        let budgets = self.resource("policy", "poddisruptionbudgets")?;
        let query = ListQuery {
            namespace: Some(pod.namespace().to_owned()),
            ..ListQuery::default()
        };
        let matching: Vec<Arc<Object>> = budgets
            .list(&query)?
            .objects
            .into_iter()
            .filter(|budget| {
                let value = budget.value();
                LabelSelector::from_object(meta::get(&value, &["spec", "selector"]))
                    .is_some_and(|selector| selector.matches(&pod.index))
            })
            .collect();
        let budget = match matching.as_slice() {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                let why =
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(ApiError::new(500, "InternalError", why));
            }
        };
        if target.dry_run {
            return Ok(());
        }
        let status = WriteTarget::status(&budgets, budget.namespace(), budget.name());
        self.write(&status, |old| charged(old, pod.name(), budget.name()))?;
        Ok(())
    }

    /// What goes with an object: a namespace takes its contents, a definition its custom objects.
    fn after_delete(&self, target: &WriteTarget, gone: &Arc<Object>) -> Result<(), ApiError> {
        match target.resource.kind.plural.as_ref() {
            "customresourcedefinitions" => self.retire(&gone.value()),
            "namespaces" => self.empty_namespace(gone.name())?,
            _ => {}
        }
        Ok(())
    }

    fn empty_namespace(&self, namespace: &str) -> Result<(), ApiError> {
        let now = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        for resource in self.all_resources() {
            if resource.kind.namespaced {
                let target = WriteTarget::object(&resource, namespace, "");
                self.delete_collection(&target, Selectors::default(), &now)?;
            }
        }
        Ok(())
    }
}

fn check_preconditions(target: &WriteTarget, current: &Object, options: &DeleteOptions) -> Result<(), ApiError> {
    let Some(preconditions) = &options.preconditions else {
        return Ok(());
    };
    let kind = &target.resource.kind;
    let failed = |what: &str, wanted: &str, found: &str| {
        let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
        Err(ApiError::conflict(&kind.group, &kind.plural, &target.name, &why))
    };
    if let Some(uid) = preconditions.uid.as_deref().filter(|uid| *uid != current.uid()) {
        return failed("UID", uid, current.uid());
    }
    let version = current.rv.to_string();
    match preconditions
        .resource_version
        .as_deref()
        .filter(|wanted| *wanted != version)
    {
        Some(wanted) => failed("ResourceVersion", wanted, &version),
        None => Ok(()),
    }
}

/// A pod that no kubelet runs needs no grace; a second deletion can only shorten it.
fn pod_grace(pod: &Value, options: &DeleteOptions) -> i64 {
    let unassigned = meta::text(pod, &["spec", "nodeName"]).is_none_or(str::is_empty);
    let ended = matches!(meta::text(pod, &["status", "phase"]), Some("Succeeded" | "Failed"));
    if unassigned || ended {
        return 0;
    }
    let own = meta::get(pod, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
    let asked = options.grace_period_seconds.or(own).unwrap_or(DEFAULT_GRACE_SECONDS);
    let asked = if asked < 0 { 1 } else { asked };
    let already = meta::get(pod, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null());
    let before = meta::get(pod, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    match before.filter(|_| already) {
        Some(before) => before.min(asked),
        None => asked,
    }
}

fn mark_deleted(old: &Value, grace: i64) -> Value {
    let mut new = old.clone();
    let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) else {
        return new;
    };
    let before = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    let marked = metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null());
    if marked && before == Some(grace) {
        return new;
    }
    let at = Timestamp::now()
        .saturating_add(SignedDuration::from_secs(grace))
        .unwrap_or(Timestamp::MAX);
    metadata.insert("deletionTimestamp".into(), meta::format_seconds(at).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    if let (false, Some(generation)) = (marked, metadata.get("generation").and_then(Value::as_i64)) {
        metadata.insert("generation".into(), generation.saturating_add(1).into());
    }
    new
}

/// The budget after one more disruption.
fn charged(budget: &Value, pod: &str, name: &str) -> Result<Value, ApiError> {
    let number = |path: &[&str]| meta::get(budget, path).and_then(Value::as_i64).unwrap_or_default();
    let refuse = |message: String| {
        let text = "Cannot evict pod as it would violate the pod's disruption budget.";
        ApiError::new(429, "TooManyRequests", text).because("DisruptionBudget", "", &message)
    };
    if number(&["status", "observedGeneration"]) < number(&["metadata", "generation"]) {
        let mut error = refuse(format!(
            "The disruption budget {name} is still being processed by the server."
        ));
        error.retry_after_seconds = Some(10);
        return Err(error);
    }
    let allowed = number(&["status", "disruptionsAllowed"]);
    if allowed <= 0 {
        let (desired, healthy) = (
            number(&["status", "desiredHealthy"]),
            number(&["status", "currentHealthy"]),
        );
        return Err(refuse(format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )));
    }
    let mut budget = budget.clone();
    budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
    if !budget["status"]["disruptedPods"].is_object() {
        budget["status"]["disruptedPods"] = json!({});
    }
    budget["status"]["disruptedPods"][pod] = meta::now_seconds().into();
    Ok(budget)
}
