//! Get and list.
//!
//! Does not: cache answers; a long list streams the stored buffers in pieces.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream;
use serde_json::{Value, json};

use super::body::{self, ApiResponse};
use super::dispatch::Call;
use super::table;
use super::view::View;
use crate::error::ApiError;
use crate::store::{Continue, Kind, ListQuery, Object, Resource, key_of};

/// Size of one piece of a streamed list.
const PIECE_BYTES: usize = 256 << 10;

/// One object.
pub(super) fn get(call: &Call<'_>, resource: &Resource, view: &View) -> Result<ApiResponse, ApiError> {
    let kind = &resource.kind;
    let stored = resource.get(&key_of(&call.path.namespace, &call.path.name));
    let object = stored.ok_or_else(|| ApiError::not_found(&kind.group, &kind.plural, &call.path.name))?;
    Ok(body::json_bytes(200, view.object(kind, &object)))
}

/// A list.
pub(super) fn list(call: &Call<'_>, resource: &Resource, view: &View) -> Result<ApiResponse, ApiError> {
    let query = &call.query;
    let version = parse_version(&query.resource_version)?;
    let exact = version_rule(
        query.resource_version_match.as_str(),
        version,
        query.limit,
        !query.resume.is_empty(),
    )?;
    let resume = if query.resume.is_empty() {
        None
    } else {
        Some(Continue::decode(&query.resume)?)
    };
    let list = ListQuery {
        namespace: (!call.path.namespace.is_empty()).then(|| call.path.namespace.clone()),
        selectors: call.selectors(resource)?,
        limit: query.limit,
        resume,
        exact,
        not_older_than: version.unwrap_or_default(),
    };
    let page = resource.list(&list)?;
    let next = page.next.as_ref().map(Continue::encode);
    Ok(list_response(
        &resource.kind,
        view,
        page.objects,
        page.rv,
        next,
        page.remaining,
    ))
}

pub(super) fn parse_version(text: &str) -> Result<Option<u64>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = text
        .parse()
        .map_err(|_| ApiError::bad_request(format!("Invalid value: {text:?}: strconv.ParseUint")))?;
    Ok(Some(parsed))
}

/// The exact version that a list must show, if it must.
///
/// Source: apimachinery `apis/internalversion/validation` and the table in the API concepts page.
fn version_rule(rule: &str, version: Option<u64>, limit: usize, resumed: bool) -> Result<Option<u64>, ApiError> {
    if resumed {
        return match version {
            None | Some(0) => Ok(None),
            Some(_) => Err(ApiError::bad_request(
                "resourceVersion: Forbidden: not allowed when using continue",
            )),
        };
    }
    match (rule, version) {
        ("", None | Some(0)) => Ok(None),
        // With a limit the older, exact meaning applies.
        ("", Some(version)) => Ok((limit > 0).then_some(version)),
        (_, None) => Err(ApiError::bad_request(
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        )),
        ("NotOlderThan", Some(_)) => Ok(None),
        ("Exact", Some(0)) => Err(ApiError::bad_request(
            "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
        )),
        ("Exact", Some(version)) => Ok(Some(version)),
        (other, _) => Err(ApiError::bad_request(format!(
            "resourceVersionMatch: Unsupported value: {other:?}"
        ))),
    }
}

/// A list in a client's form.
pub(super) fn list_response(
    kind: &Kind,
    view: &View,
    objects: Vec<Arc<Object>>,
    rv: u64,
    next: Option<String>,
    remaining: Option<usize>,
) -> ApiResponse {
    let mut metadata = json!({"resourceVersion": rv.to_string()});
    if let Some(next) = next {
        metadata["continue"] = next.into();
    }
    if let Some(remaining) = remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    if let View::Table(include) = view {
        return body::json(
            200,
            &table::of(kind, objects.iter().map(Arc::as_ref), include, &metadata),
        );
    }
    let (list_kind, api_version) = view.list_head(kind);
    let head = json_head(&list_kind, &api_version, &metadata);
    let total: usize = objects.iter().map(|object| object.size()).sum();
    if total <= PIECE_BYTES {
        let mut out = BytesMut::with_capacity(total + head.len() + 2);
        out.put_slice(head.as_bytes());
        for (position, object) in objects.iter().enumerate() {
            put_item(&mut out, kind, view, object, position == 0);
        }
        out.put_slice(b"]}");
        return body::json_bytes(200, out.freeze());
    }
    streamed(kind.clone(), view.clone(), objects, head)
}

fn json_head(list_kind: &str, api_version: &str, metadata: &Value) -> String {
    format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        json!(list_kind),
        json!(api_version)
    )
}

fn put_item(out: &mut BytesMut, kind: &Kind, view: &View, object: &Object, first: bool) {
    if !first {
        out.put_u8(b',');
    }
    out.put_slice(&view.object(kind, object));
}

fn streamed(kind: Kind, view: View, objects: Vec<Arc<Object>>, head: String) -> ApiResponse {
    let state = (objects.into_iter(), Some(head), true);
    body::stream(stream::unfold(state, move |(mut objects, mut head, mut first)| {
        let piece = next_piece(&mut objects, &mut head, &mut first, &kind, &view);
        futures::future::ready(piece.map(|piece| (piece, (objects, head, first))))
    }))
}

fn next_piece(
    objects: &mut std::vec::IntoIter<Arc<Object>>,
    head: &mut Option<String>,
    first: &mut bool,
    kind: &Kind,
    view: &View,
) -> Option<Bytes> {
    // The head is there until the first piece; `first` with no head and no objects left means that all is sent.
    let mut out = BytesMut::with_capacity(PIECE_BYTES + (PIECE_BYTES >> 4));
    let mut first_item = false;
    if let Some(head) = head.take() {
        out.put_slice(head.as_bytes());
        first_item = true;
    } else if !*first {
        return None;
    }
    for object in objects.by_ref() {
        put_item(&mut out, kind, view, &object, first_item);
        first_item = false;
        if out.len() >= PIECE_BYTES {
            return Some(out.freeze());
        }
    }
    out.put_slice(b"]}");
    *first = false;
    Some(out.freeze())
}
