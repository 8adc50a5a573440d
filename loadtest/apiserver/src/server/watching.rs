//! Watches as response bodies: batches of the history, bookmarks, the end by time, errors as events.
//!
//! A watch under load writes at most once a flush interval (1 ms by default): at 10,000 changes a second that is ten events
//! a write instead of a system call for each.
//!
//! Does not: filter; that is the store's [`Watcher`].

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream;
use serde_json::json;
use tokio::time::Instant;

use super::body::{self, ApiResponse};
use super::dispatch::Call;
use super::reads::parse_version;
use super::view::{View, to_bytes};
use super::{Shared, Stats, table};
use crate::error::ApiError;
use crate::meta;
use crate::store::{Poll, Resource, WatchBatch, WatchItem, WatchStart, Watcher};

/// Upstream ends a watch without `timeoutSeconds` after 30 to 60 minutes.
const DEFAULT_TIMEOUT_SECONDS: std::ops::Range<u64> = 1_800..3_600;

/// Starts a watch.
pub(super) fn watch(call: &Call<'_>, resource: &Arc<Resource>, view: View) -> Result<ApiResponse, ApiError> {
    let query = &call.query;
    let mut selectors = call.selectors(resource)?;
    if !call.path.name.is_empty() {
        let by_name = format!("metadata.name={}", call.path.name);
        selectors.fields = crate::store::FieldSelector::parse(&by_name, &resource.kind)?;
    }
    let version = parse_version(&query.resource_version)?;
    let start = match (query.send_initial_events, version) {
        (Some(true), _) if query.resource_version_match != "NotOlderThan" => {
            let why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return Err(ApiError::invalid(
                "meta.k8s.io",
                "ListOptions",
                "",
                "resourceVersionMatch",
                why,
            ));
        }
        (Some(true), _) if query.allow_bookmarks => WatchStart::ExistingThenBookmark,
        (Some(true), _) => WatchStart::Existing,
        (Some(false), None | Some(0)) => WatchStart::Now,
        (None, None | Some(0)) => WatchStart::Existing,
        (_, Some(version)) => WatchStart::After(version),
    };
    let namespace = (!call.path.namespace.is_empty()).then(|| call.path.namespace.clone());
    let watcher = match Watcher::open(resource, namespace, selectors, start) {
        Ok(watcher) => watcher,
        // As upstream, an old version is told on the stream.
        Err(error) if error.code == 410 => return Ok(error_stream(&error)),
        Err(error) => return Err(error),
    };
    let shared = call.shared;
    let seconds = query
        .timeout_seconds
        .unwrap_or_else(|| meta::random_in(DEFAULT_TIMEOUT_SECONDS));
    let now = Instant::now();
    Stats::add(&shared.stats.open_watches, 1);
    let body = WatchBody {
        sent_rv: watcher.seen_rv(),
        watcher,
        view,
        shared: Arc::clone(shared),
        bookmarks: query.allow_bookmarks,
        next_bookmark: now + shared.config.bookmark_interval,
        deadline: now + Duration::from_secs(seconds.min(86_400)),
        last_write: None,
        ended: false,
        columns_sent: false,
    };
    Ok(body::stream(stream::unfold(body, |mut body| async move {
        body.next().await.map(|bytes| (bytes, body))
    })))
}

/// A watch whose only event is an error.
pub(super) fn error_stream(error: &ApiError) -> ApiResponse {
    let line = error_line(error);
    body::stream(stream::once(futures::future::ready(line)))
}

fn error_line(error: &ApiError) -> Bytes {
    let mut line = BytesMut::from(to_bytes(&json!({"type": "ERROR", "object": error.status()})).as_ref());
    line.put_u8(b'\n');
    line.freeze()
}

struct WatchBody {
    watcher: Watcher,
    view: View,
    shared: Arc<Shared>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    last_write: Option<Instant>,
    /// The newest version that the client knows of.
    sent_rv: u64,
    ended: bool,
    columns_sent: bool,
}

impl Drop for WatchBody {
    fn drop(&mut self) {
        self.shared
            .stats
            .open_watches
            .fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl WatchBody {
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        self.pace().await;
        loop {
            let until = if self.bookmarks {
                self.next_bookmark.min(self.deadline)
            } else {
                self.deadline
            };
            let stopping = self.shared.stopping.clone();
            let batch = tokio::select! {
                biased;
                () = stopping.cancelled() => return None,
                batch = self.watcher.next() => batch,
                () = tokio::time::sleep_until(until) => {
                    if let Some(bytes) = self.on_time() {
                        return Some(bytes);
                    }
                    if self.ended {
                        return None;
                    }
                    continue;
                }
            };
            let bytes = match batch {
                Ok(Some(WatchBatch::Events(items))) => self.events(&items),
                Ok(Some(WatchBatch::InitialEventsEnd(rv))) => self.bookmark(rv, true),
                Ok(None) => return None,
                Err(error) => {
                    self.ended = true;
                    error_line(&error)
                }
            };
            self.last_write = Some(Instant::now());
            return Some(bytes);
        }
    }

    /// Waits until the flush interval since the last write is over.
    async fn pace(&self) {
        let interval = self.shared.config.watch_flush_interval;
        if let Some(last) = self.last_write.filter(|_| !interval.is_zero())
            && last.elapsed() < interval
        {
            tokio::time::sleep_until(last + interval).await;
        }
    }

    /// A bookmark is due, or the watch is over. What happened meanwhile goes first.
    fn on_time(&mut self) -> Option<Bytes> {
        let now = Instant::now();
        self.next_bookmark = now + self.shared.config.bookmark_interval;
        match self.watcher.poll() {
            Ok(Poll::Ready(WatchBatch::Events(items))) => return Some(self.events(&items)),
            Ok(Poll::Ready(WatchBatch::InitialEventsEnd(rv))) => return Some(self.bookmark(rv, true)),
            // Idle: everything up to the newest version has been sent.
            Ok(Poll::Idle) => self.ended = now >= self.deadline,
            Ok(Poll::Ended) => self.ended = true,
            Err(error) => {
                self.ended = true;
                return Some(error_line(&error));
            }
        }
        let rv = self.watcher.seen_rv();
        (self.bookmarks && rv > self.sent_rv).then(|| self.bookmark(rv, false))
    }

    fn bookmark(&mut self, rv: u64, initial_end: bool) -> Bytes {
        self.sent_rv = self.sent_rv.max(rv);
        let kind = &self.watcher.resource().kind;
        let api_version = match &self.view {
            View::Version(api_version) => api_version.clone(),
            _ => kind.api_version(),
        };
        let mut metadata = json!({"resourceVersion": rv.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match &self.view {
            View::Table(include) => table::of(kind, [], include, &metadata),
            View::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            _ => json!({"kind": kind.kind, "apiVersion": api_version, "metadata": metadata}),
        };
        let mut line = BytesMut::from(to_bytes(&json!({"type": "BOOKMARK", "object": object})).as_ref());
        line.put_u8(b'\n');
        line.freeze()
    }

    fn events(&mut self, items: &[WatchItem]) -> Bytes {
        Stats::add(&self.shared.stats.watch_events, items.len() as u64);
        self.sent_rv = self.watcher.seen_rv().max(self.sent_rv);
        if let ([item], View::Stored) = (items, &self.view) {
            return item.line();
        }
        let size: usize = items.iter().map(|item| item.object.size()).sum();
        let mut out = BytesMut::with_capacity(size + 64);
        for item in items {
            match &self.view {
                View::Stored => out.put_slice(&item.line()),
                view => {
                    let object = shown(view, &self.watcher.resource().kind, item, self.columns_sent);
                    out.put_slice(&to_bytes(&json!({"type": item.kind.as_str(), "object": object})));
                    out.put_u8(b'\n');
                    self.columns_sent = true;
                }
            }
        }
        out.freeze()
    }
}

fn shown(view: &View, kind: &crate::store::Kind, item: &WatchItem, columns_sent: bool) -> serde_json::Value {
    let rv = item.rv.to_string();
    if let View::Table(include) = view {
        let mut table = table::of(kind, [item.object.as_ref()], include, &json!({"resourceVersion": rv}));
        if columns_sent {
            table["columnDefinitions"] = serde_json::Value::Null;
        }
        return table;
    }
    let mut value = item.object.value();
    value["metadata"]["resourceVersion"] = rv.into();
    view.value(value)
}
