//! Lists: the newest state, or the state at an older resource version as far as the history reaches.
//!
//! An older state is the newest one with the changes after that version undone, key by key; so a list in pages is
//! consistent without keeping snapshots. When the history no longer reaches back, the answer is 410.
//!
//! Does not: serialise.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::object::Object;
use super::resource::{Resource, State};
use super::selector::Selectors;
use crate::error::ApiError;

/// What a list asks for.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Only this namespace; `None`: all.
    pub namespace: Option<String>,
    /// Label and field selectors.
    pub selectors: Selectors,
    /// Most objects in the answer; 0: all.
    pub limit: usize,
    /// Continue after an earlier page.
    pub resume: Option<Continue>,
    /// Exactly this version's state (`resourceVersionMatch=Exact`).
    pub exact: Option<u64>,
    /// At least this version's state; higher than the newest is refused.
    pub not_older_than: u64,
}

/// The contents of a continue token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continue {
    /// Resource version of the list.
    pub rv: u64,
    /// Key of the last object of the page before.
    pub after: String,
    /// Objects in the pages before.
    pub served: usize,
}

impl Continue {
    /// As opaque text.
    #[must_use]
    pub fn encode(&self) -> String {
        let plain = format!("v1 {} {} {}", self.rv, self.served, self.after);
        plain.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    /// From opaque text.
    ///
    /// # Errors
    /// 400 when the text is not a token.
    pub fn decode(token: &str) -> Result<Self, ApiError> {
        let bad = || ApiError::bad_request("continue key is not valid");
        let digits: Vec<u8> = token
            .bytes()
            .map(|byte| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect::<Option<_>>()
            .ok_or_else(bad)?;
        let bytes: Vec<u8> = digits
            .chunks_exact(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect();
        let plain = String::from_utf8(bytes).map_err(|_| bad())?;
        let mut words = plain.splitn(4, ' ');
        if words.next() != Some("v1") {
            return Err(bad());
        }
        let rv = words.next().and_then(|word| word.parse().ok()).ok_or_else(bad)?;
        let served = words.next().and_then(|word| word.parse().ok()).ok_or_else(bad)?;
        let after = words.next().ok_or_else(bad)?.to_owned();
        Ok(Self { rv, after, served })
    }
}

/// A list's answer.
#[derive(Debug, Clone)]
pub struct ListPage {
    /// Objects in key order.
    pub objects: Vec<Arc<Object>>,
    /// Version that the list shows.
    pub rv: u64,
    /// Where the next page starts, if there is one.
    pub next: Option<Continue>,
    /// Objects in later pages, known only without selectors. O(those) within a namespace, O(1) else.
    pub remaining: Option<usize>,
}

impl Resource {
    /// Lists objects.
    ///
    /// # Errors
    /// 410 when the asked version has left the history, 504 when it lies in the future.
    pub fn list(&self, query: &ListQuery) -> Result<ListPage, ApiError> {
        let state = self.state.read();
        let current = self.current_rv();
        if query.not_older_than > current || query.exact.is_some_and(|rv| rv > current) {
            return Err(too_large(
                query.not_older_than.max(query.exact.unwrap_or_default()),
                current,
            ));
        }
        let rv = query
            .resume
            .as_ref()
            .map(|resume| resume.rv)
            .or(query.exact)
            .unwrap_or(current);
        let overlay = self.overlay(&state, rv, query.resume.is_some())?;
        let mut page = Page {
            query,
            rv,
            objects: Vec::new(),
            more: false,
        };
        if query.limit == 0 && query.resume.is_none() && query.selectors.is_empty() && query.namespace.is_none() {
            page.objects.reserve(state.objects.len());
        }
        match exact_key(query) {
            Some(key) => {
                let stored = state.objects.get(key.as_str());
                page.offer(overlay.get(key.as_str()).map_or(stored, Option::as_ref));
            }
            None => page.fill(&state, &overlay),
        }
        let served = query.resume.as_ref().map_or(0, |resume| resume.served) + page.objects.len();
        let next = page.objects.last().filter(|_| page.more).map(|last| Continue {
            rv,
            after: last.key().to_owned(),
            served,
        });
        let is_known = query.selectors.is_empty() && overlay.is_empty();
        let remaining = next.as_ref().filter(|_| is_known).map(|next| match query.namespace {
            None => state.objects.len().saturating_sub(served),
            Some(_) => {
                let after = Bound::Excluded(next.after.as_str());
                let end = page.range().1;
                state
                    .objects
                    .range::<str, _>((after, end.as_ref().map(String::as_str)))
                    .count()
            }
        });
        Ok(ListPage {
            objects: page.objects,
            rv,
            next,
            remaining,
        })
    }

    /// For each key that changed after `rv`, what it was at `rv`.
    fn overlay(&self, state: &State, rv: u64, resumed: bool) -> Result<Overlay, ApiError> {
        let mut overlay = BTreeMap::new();
        if rv == self.current_rv() {
            return Ok(overlay);
        }
        if rv < state.oldest_rv {
            let what = if resumed {
                "The provided continue parameter"
            } else {
                "The resourceVersion for the provided list"
            };
            return Err(ApiError::expired(format!("{what} is too old.")));
        }
        for event in state.ring.iter().rev().take_while(|event| event.object.rv > rv) {
            overlay.insert(event.object.shared_key(), event.previous.clone());
        }
        Ok(overlay)
    }
}

type Overlay = BTreeMap<Arc<str>, Option<Arc<Object>>>;

/// 504 for a version that does not exist yet.
pub(super) fn too_large(rv: u64, current: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {rv}, current: {current}");
    let mut error = ApiError::new(504, "Timeout", message)
        .about("", "resourceVersion", "")
        .because("ResourceVersionTooLarge", "", "Too large resource version");
    error.retry_after_seconds = Some(1);
    error
}

fn exact_key(query: &ListQuery) -> Option<String> {
    if query.resume.is_some() {
        return None;
    }
    let name = query.selectors.fields.exact_name()?;
    Some(super::key_of(query.namespace.as_deref()?, name))
}

struct Page<'a> {
    query: &'a ListQuery,
    rv: u64,
    objects: Vec<Arc<Object>>,
    more: bool,
}

impl Page<'_> {
    /// Takes an object if it belongs to the list; false once the page is full.
    fn offer(&mut self, object: Option<&Arc<Object>>) -> bool {
        let Some(object) = object else { return true };
        debug_assert!(object.rv <= self.rv, "a list shows nothing newer than its version");
        if !self.query.selectors.matches(object) {
            return true;
        }
        if self.query.limit > 0 && self.objects.len() == self.query.limit {
            self.more = true;
            return false;
        }
        self.objects.push(Arc::clone(object));
        true
    }

    fn fill(&mut self, state: &State, overlay: &Overlay) {
        let (start, end) = self.range();
        let bounds = (start.as_ref().map(String::as_str), end.as_ref().map(String::as_str));
        let mut changed = overlay.range::<str, _>(bounds).peekable();
        for (key, object) in state.objects.range::<str, _>(bounds) {
            while let Some((_, old)) = changed.next_if(|(other, _)| *other < key) {
                if !self.offer(old.as_ref()) {
                    return;
                }
            }
            let old = changed.next_if(|(other, _)| *other == key);
            if !self.offer(old.map_or(Some(object), |(_, old)| old.as_ref())) {
                return;
            }
        }
        for (_, old) in changed {
            if !self.offer(old.as_ref()) {
                return;
            }
        }
    }

    fn range(&self) -> (Bound<String>, Bound<String>) {
        let (mut start, end) = match &self.query.namespace {
            // '0' follows '/': the range holds exactly the keys that start with "namespace/".
            Some(namespace) => (
                Bound::Included(format!("{namespace}/")),
                Bound::Excluded(format!("{namespace}0")),
            ),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        if let Some(resume) = &self.query.resume {
            start = Bound::Excluded(resume.after.clone());
        }
        (start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip_and_garbage_is_refused() {
        let token = Continue {
            rv: 7,
            after: "ns/a b".to_owned(),
            served: 3,
        };
        assert_eq!(Continue::decode(&token.encode()).unwrap(), token);
        for garbage in ["zz", "00", "7631", ""] {
            assert!(Continue::decode(garbage).is_err(), "{garbage}");
        }
    }
}
