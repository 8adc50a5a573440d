//! Defaults and checks of extenders.
//!
//! Source: `apis/config/validation/validation.go`, `validateExtenders`.

use super::check::Cx;
use crate::base64;
use crate::decode::item;
use crate::duration::GoDuration;
use crate::error::FieldError;
use crate::extender::{Extender, ExtenderTls, ManagedResource};
use crate::names::is_extended_resource;
use crate::wire::{WireExtender, WireExtenderTls, WireManagedResource};

/// Largest weight: upstream multiplies it by 10 and adds it up with all other scores in 64 bits.
const MAX_WEIGHT: i64 = i64::MAX / 10_000;

/// The effective extenders.
pub(super) fn check(wires: Vec<WireExtender>, cx: &mut Cx<'_>) -> Vec<Extender> {
    let binders = wires
        .iter()
        .filter(|wire| wire.bind_verb.as_ref().is_some_and(|verb| !verb.is_empty()))
        .count();
    if binders > 1 {
        let value = format!("found {binders} extenders implementing bind");
        cx.invalid("extenders", &value, "only one extender can implement bind");
    }
    let mut resources: Vec<String> = Vec::new();
    let check = |(index, wire)| extender(wire, &item("extenders", index), &mut resources, cx);
    wires.into_iter().enumerate().map(check).collect()
}

fn extender(wire: WireExtender, path: &str, resources: &mut Vec<String>, cx: &mut Cx<'_>) -> Extender {
    let url_prefix = wire.url_prefix.unwrap_or_default();
    if url_prefix.is_empty() {
        cx.push(FieldError::required(
            format!("{path}.urlPrefix"),
            "the extender's address, http:// or https://",
        ));
    } else if !url_prefix.starts_with("http://") && !url_prefix.starts_with("https://") {
        cx.invalid(
            &format!("{path}.urlPrefix"),
            &url_prefix,
            "must start with http:// or https://",
        );
    }
    let prioritize_verb = wire.prioritize_verb.unwrap_or_default();
    let weight = wire.weight.unwrap_or(0);
    if !prioritize_verb.is_empty() && weight <= 0 {
        cx.invalid(
            &format!("{path}.weight"),
            weight,
            "must have a positive weight applied to it",
        );
    } else if weight > MAX_WEIGHT {
        cx.invalid(
            &format!("{path}.weight"),
            weight,
            format!("total score could overflow; at most {MAX_WEIGHT}"),
        );
    }
    let http_timeout = wire.http_timeout.filter(|timeout| *timeout != GoDuration(0));
    let http_timeout = http_timeout.unwrap_or_else(|| Extender::DEFAULT_TIMEOUT.into());
    let managed = wire.managed_resources.unwrap_or_default();
    Extender {
        url_prefix,
        filter_verb: wire.filter_verb.unwrap_or_default(),
        preempt_verb: wire.preempt_verb.unwrap_or_default(),
        prioritize_verb,
        weight,
        bind_verb: wire.bind_verb.unwrap_or_default(),
        enable_https: wire.enable_https.unwrap_or(false),
        tls: wire
            .tls_config
            .map(|tls| extender_tls(tls, &format!("{path}.tlsConfig"), cx)),
        http_timeout: cx.not_negative(&format!("{path}.httpTimeout"), http_timeout, "must not be negative"),
        node_cache_capable: wire.node_cache_capable.unwrap_or(false),
        managed_resources: managed_resources(managed, &format!("{path}.managedResources"), resources, cx),
        ignorable: wire.ignorable.unwrap_or(false),
    }
}

fn managed_resources(
    wires: Vec<WireManagedResource>,
    path: &str,
    seen: &mut Vec<String>,
    cx: &mut Cx<'_>,
) -> Vec<ManagedResource> {
    let mut managed = Vec::with_capacity(wires.len());
    for (index, wire) in wires.into_iter().enumerate() {
        let path = format!("{}.name", item(path, index));
        let name = wire.name.unwrap_or_default();
        if !is_extended_resource(&name) {
            cx.invalid(
                &path,
                &name,
                "is an invalid extended resource name; write domain/name outside kubernetes.io",
            );
        } else if seen.contains(&name) {
            cx.invalid(&path, &name, "duplicate extender managed resource name");
        } else {
            seen.push(name.clone());
        }
        managed.push(ManagedResource {
            name,
            ignored_by_scheduler: wire.ignored_by_scheduler.unwrap_or(false),
        });
    }
    managed
}

fn extender_tls(wire: WireExtenderTls, path: &str, cx: &mut Cx<'_>) -> ExtenderTls {
    let mut bytes = |field: &str, text: Option<String>| {
        let text = text.unwrap_or_default();
        base64::decode(&text).unwrap_or_else(|| {
            cx.invalid(&format!("{path}.{field}"), "…", "is not base64");
            Vec::new()
        })
    };
    ExtenderTls {
        cert_data: bytes("certData", wire.cert_data),
        key_data: bytes("keyData", wire.key_data),
        ca_data: bytes("caData", wire.ca_data),
        insecure: wire.insecure.unwrap_or(false),
        server_name: wire.server_name.unwrap_or_default(),
        cert_file: wire.cert_file.unwrap_or_default(),
        key_file: wire.key_file.unwrap_or_default(),
        ca_file: wire.ca_file.unwrap_or_default(),
    }
}
