//! Pauses, and watches of a server that forgets.

use serde_json::json;

use super::*;

#[cfg(feature = "demo")]
mod forgetful;
#[cfg(feature = "demo")]
mod paging;

#[test]
fn pauses_double_and_are_limited() {
    let mut pauses = Pauses::default();
    let millis: Vec<u128> = pauses.by_ref().take(7).map(|pause| pause.as_millis()).collect();
    assert_eq!(millis, [200, 400, 800, 1600, 3200, 5000, 5000]);
    pauses.reset();
    assert_eq!(pauses.next(), Some(FIRST_PAUSE));
}

#[test]
fn only_a_version_that_cannot_be_gone_on_from_leads_to_a_new_list() {
    let status = |code: u16, message: &str| {
        let status = json!({"status": "Failure", "code": code, "message": message, "reason": ""});
        Box::new(serde_json::from_value::<kube::core::Status>(status).unwrap())
    };
    let too_large = "Timeout: Too large resource version: 5000, current: 3000";
    let table = [
        (410, "too old resource version: 7 (9)", true, false),
        (504, too_large, true, true),
        (504, "the load balancer lost patience", false, false),
        (503, "etcdserver: no leader", false, false),
        (403, "pods is forbidden", false, false),
    ];
    for (code, message, at_start, inside) in table {
        let start = watcher::Error::WatchStartFailed(kube::Error::Api(status(code, message)));
        let within = watcher::Error::WatchError(status(code, message));
        let list = watcher::Error::InitialListFailed(kube::Error::Api(status(code, message)));
        assert_eq!(
            [&start, &within, &list].map(is_lost),
            [at_start, inside, false],
            "{code} {message}"
        );
    }
}

/// A server that has fallen behind may answer any other list with less than was seen before.
#[test]
fn no_list_may_be_older_than_what_was_seen() {
    let config = list_config(Some("spec.nodeName="));
    assert_eq!(config.list_semantic, watcher::ListSemantic::MostRecent);
    assert_eq!(config.page_size, Some(PAGE_SIZE));
    assert_eq!(config.field_selector.as_deref(), Some("spec.nodeName="));
}
