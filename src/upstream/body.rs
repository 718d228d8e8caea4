//! The body of a reply, chunk by chunk.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};

use super::failure::{AmbiguousCause, Failure};
use super::pool::Lease;
use crate::patience::within;

/// The body of an upstream's reply. Dropping it before its end closes the connection.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    /// Until the end of the body.
    lease: Option<Lease>,
    idle: Duration,
}

impl Body {
    pub(super) fn new(incoming: Incoming, lease: Lease, idle: Duration) -> Self {
        Self { incoming, lease: Some(lease), idle }
    }

    /// The next part of the body, never empty, or `None` at its end. Trailers are left out.
    ///
    /// # Errors
    ///
    /// [`AmbiguousCause::Timeout`] when nothing came for the idle time-out, and
    /// [`AmbiguousCause::Disconnected`] when the body broke off: a body that is shorter than its
    /// `Content-Length`, or chunked without its last chunk, is never a clean end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = within(self.idle, self.incoming.frame())
                .await
                .map_err(|_| Failure::Ambiguous(AmbiguousCause::Timeout))?;
            let Some(frame) = frame else {
                self.give_back();
                return Ok(None);
            };
            let frame = frame.map_err(|error| {
                tracing::debug!(%error, "the upstream's body broke off");
                Failure::Ambiguous(AmbiguousCause::Disconnected)
            })?;
            match frame.into_data() {
                Ok(data) if !data.is_empty() => return Ok(Some(data)),
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// The bytes still to come, where the reply says so (`Content-Length`, or a status that has no
    /// body); `None` for a chunked body and for one that the connection's end delimits.
    pub fn expected_len(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    fn give_back(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }
}

/// A reader that knows the length need not ask for the end.
impl Drop for Body {
    fn drop(&mut self) {
        if self.incoming.is_end_stream() {
            self.give_back();
        }
    }
}
