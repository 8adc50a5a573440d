//! What goes wrong with extenders.

use std::path::PathBuf;
use std::time::Duration;

/// Why an extender cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ExtenderError {
    /// The prefix with a verb is not a URL.
    #[error("extender {url:?} is not a URL: {source}")]
    Address {
        /// Prefix and verb.
        url: String,
        /// Why it is none.
        source: http::uri::InvalidUri,
    },
    /// A file of its `tlsConfig` cannot be read.
    #[error("extender {url:?}: file {path} cannot be read: {source}")]
    File {
        /// The extender's prefix.
        url: String,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Its `tlsConfig` does not make sense.
    #[error("extender {url:?}: tlsConfig: {message}")]
    Tls {
        /// The extender's prefix.
        url: String,
        /// What is wrong.
        message: String,
    },
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The extender cannot be reached, or broke off.
    #[error("Post {url:?}: {text}")]
    Transport { url: String, text: String },
    /// It did not answer in time.
    #[error("Post {url:?}: no answer within {after:?}")]
    Deadline { url: String, after: Duration },
    /// It answered something else than 200.
    #[error("failed {verb} with extender at URL {url}, code {code}")]
    Status { verb: String, url: String, code: u16 },
    /// The answer is longer than any that makes sense for the question.
    #[error("Post {url:?}: the answer is longer than {limit} bytes")]
    TooLong { url: String, limit: usize },
    /// The answer is not what was asked for.
    #[error("Post {url:?}: the answer cannot be read: {text}")]
    Unreadable { url: String, text: String },
    /// The question could not be put together.
    #[error("extender {url:?} cannot be asked: {text}")]
    Question { url: String, text: String },
    /// Its own words, cut to [`MAX_WORDS_BYTES`].
    #[error("{0}")]
    Said(String),
    /// It let a node pass that it was not asked about.
    #[error("extender {url:?} claims a filtered node {node:?} which is not found in the input node list")]
    UnknownNode { url: String, node: String },
    /// It wants a node cleared that it was not asked about.
    #[error("extender {url:?} claims victims on node {node:?} which is not among the candidates")]
    NoCandidate { url: String, node: String },
    /// It wants a pod evicted that is not there.
    #[error(
        "extender: {url} claims to preempt pod (UID: {uid}) on node: {node}, but the pod is not found on that node"
    )]
    UnknownVictim { url: String, uid: String, node: String },
    /// It wants a node cleared and names no victim.
    #[error("expected at least one victim pod on node {0:?}")]
    NoVictim(String),
}

/// What an extender says about its error goes into logs and into the pod's condition, and no further than this.
const MAX_WORDS_BYTES: usize = 4 << 10;

impl CallError {
    /// What the extender says.
    pub(super) fn said(mut words: String) -> Self {
        words.truncate(words.floor_char_boundary(MAX_WORDS_BYTES));
        Self::Said(words)
    }

    /// Whether the extender may have done what it was asked to do all the same.
    pub(super) const fn is_unsure(&self) -> bool {
        !matches!(self, Self::Question { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_between_letters() {
        let said = |words: &str| CallError::said(words.to_owned()).to_string();
        assert_eq!(said("no room"), "no room");
        let long = format!("{}ö{}", "x".repeat(MAX_WORDS_BYTES - 1), "y".repeat(1 << 20));
        assert_eq!(said(&long), "x".repeat(MAX_WORDS_BYTES - 1));
    }
}
