//! The admin paths under `/supercargo/`: faults and counters, for harnesses in other processes.
//!
//! | request | effect |
//! | --- | --- |
//! | `GET /supercargo/faults` | the rules, with ids |
//! | `POST /supercargo/faults` with a rule | adds it; the answer has its `id` |
//! | `DELETE /supercargo/faults` or `/supercargo/faults/ID` | removes all, or one |
//! | `POST /supercargo/hide/PLURAL.GROUP`, `…/show/PLURAL.GROUP` | a kind goes missing, or comes back (core: `PLURAL.`) |
//! | `POST /supercargo/drop-watches` or `…/PLURAL` | ends open watches |
//! | `POST /supercargo/compact` or `…/PLURAL` | forgets history: 410 for old versions |
//! | `GET /supercargo/stats` | counters |
//!
//! Does not: ask for permission; the server listens on loopback.

use hyper::Method;
use serde_json::{Value, json};

use super::Shared;
use crate::error::ApiError;
use crate::faults::FaultRule;

/// Answers an admin request.
pub(super) fn answer(shared: &Shared, method: &Method, path: &str, body: &[u8]) -> Result<Value, ApiError> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').skip(1).collect();
    let faults = &shared.faults;
    let done = || Ok(json!({"done": true}));
    match (method.as_str(), parts.as_slice()) {
        ("GET", ["stats"]) => Ok(json!(shared.stats.snapshot(&shared.store))),
        ("GET", ["faults"]) => {
            let rules: Vec<Value> = faults
                .rules()
                .into_iter()
                .map(|(id, rule)| json!({"id": id, "rule": rule}))
                .collect();
            Ok(json!({"faults": rules}))
        }
        ("POST", ["faults"]) => {
            let rule: FaultRule = serde_json::from_slice(body)
                .map_err(|error| ApiError::bad_request(format!("the fault rule cannot be read: {error}")))?;
            Ok(json!({"id": faults.add(rule)?}))
        }
        ("DELETE", ["faults"]) => {
            faults.clear();
            done()
        }
        ("DELETE", ["faults", id]) => match id.parse().is_ok_and(|id| faults.remove(id)) {
            true => done(),
            false => Err(ApiError::no_such_path()),
        },
        ("POST", [verb @ ("hide" | "show"), resource]) => {
            let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
            match *verb {
                "hide" => faults.hide(group, plural)?,
                _ => faults.show(group, plural)?,
            }
            done()
        }
        ("POST", ["drop-watches", plural @ ..]) => {
            faults.drop_watches(plural.first().copied().unwrap_or_default());
            done()
        }
        ("POST", ["compact", plural @ ..]) => {
            faults.compact(plural.first().copied().unwrap_or_default());
            done()
        }
        _ => Err(ApiError::no_such_path()),
    }
}
