//! Errors as one line for logs and terminals.
//!
//! Does not: translate or shorten what an API server said.

use std::error::Error;

/// How kube begins the debug form of a Status that it prints behind the Status's message.
const STATUS_DUMP: &str = " (Status {";

/// The error with all its sources, each told once: many libraries repeat the source in their own message.
///
/// kube shows an API server's answer as `ApiError: MESSAGE: REASON (Status { … })`; the dump says nothing more and is
/// left out.
#[must_use]
pub fn error_text(error: &(dyn Error + 'static)) -> String {
    let mut text = own_text(error);
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = own_text(inner);
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}

fn own_text(error: &dyn Error) -> String {
    let text = error.to_string();
    match text.split_once(STATUS_DUMP) {
        Some((told, _dump)) => told.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot list: {0}")]
    struct Outer(#[source] kube::Error);

    #[test]
    fn a_refusal_of_the_api_server_is_told_once_and_without_its_dump() {
        let status = kube::core::Status::failure("pods is forbidden", "Forbidden").with_code(403);
        let error = Outer(kube::Error::Api(Box::new(status)));
        assert_eq!(
            error_text(&error),
            "cannot list: ApiError: pods is forbidden: Forbidden"
        );
    }

    #[test]
    fn sources_that_are_not_told_yet_follow() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot start")]
        struct Quiet(#[source] std::io::Error);
        let error = Quiet(std::io::Error::other("disk full"));
        assert_eq!(error_text(&error), "cannot start: disk full");
    }
}
