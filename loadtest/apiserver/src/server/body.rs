//! Response bodies: one buffer, or a stream of buffers that ends or breaks.
//!
//! Does not: know what is in them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use serde_json::Value;

use crate::error::ApiError;

/// A body.
pub(super) enum ApiBody {
    /// All of it; `None` once sent.
    Whole(Option<Bytes>),
    /// Piece by piece.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body for ApiBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => stream
                .as_mut()
                .poll_next(context)
                .map(|next| next.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

pub(super) type ApiResponse = Response<ApiBody>;

/// A JSON answer from bytes.
pub(super) fn json_bytes(status: u16, bytes: Bytes) -> ApiResponse {
    with_type(status, "application/json", ApiBody::Whole(Some(bytes)))
}

/// A JSON answer.
pub(super) fn json(status: u16, value: &Value) -> ApiResponse {
    // A Value always serialises.
    json_bytes(status, serde_json::to_vec(value).unwrap_or_default().into())
}

/// A plain text answer.
pub(super) fn text(status: u16, text: &str) -> ApiResponse {
    with_type(
        status,
        "text/plain; charset=utf-8",
        ApiBody::Whole(Some(Bytes::copy_from_slice(text.as_bytes()))),
    )
}

/// A stream of JSON.
pub(super) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> ApiResponse {
    with_type(200, "application/json", ApiBody::Stream(Box::pin(stream)))
}

/// A refusal.
pub(super) fn error(error: &ApiError) -> ApiResponse {
    let mut response = json(error.code, &error.status());
    if let Some(seconds) = error.retry_after_seconds {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

pub(super) fn with_type(status: u16, content_type: &'static str, body: ApiBody) -> ApiResponse {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
