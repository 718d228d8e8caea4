//! Posting batches to an HTTP server, from a feed's own thread: with retries, within bounds.

mod endpoint;
mod retry;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

pub use endpoint::{Endpoint, EndpointError};
pub use retry::{MAX_ATTEMPTS, MAX_PAUSE};

use super::feed::State;
use crate::secret::SecretError;

/// How long one attempt may take, from the connection to the end of the answer.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a kept-alive connection may rest: less than the 5 s after which common servers close.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// What of an answer is read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Why a batch was not taken. Holds no part of the batch, the token or the answer.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// The token's reference cannot be read.
    #[error(transparent)]
    Token(#[from] SecretError),
    /// The system gives no runtime.
    #[error("no runtime for an HTTP client: {0}")]
    Runtime(#[from] io::Error),
    /// There was no answer.
    #[error("{endpoint} does not answer: {problem}")]
    NoAnswer {
        /// Where, without its query.
        endpoint: String,
        /// What the client says.
        problem: String,
    },
    /// The answer is no success.
    #[error("{endpoint} answers {status}")]
    Status {
        /// Where, without its query.
        endpoint: String,
        /// The status.
        status: u16,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// The process is stopping, and the time for that is over.
    #[error("{0} has not taken everything before the end")]
    GivenUp(String),
}

impl PostError {
    /// Whether another attempt can succeed: no answer, or one that speaks of the moment.
    fn is_passing(&self) -> bool {
        match self {
            Self::NoAnswer { .. } | Self::Token(_) => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
            Self::Runtime(_) | Self::GivenUp(_) => false,
        }
    }
}

/// A client for one endpoint. It blocks, in a feed's thread.
pub(super) struct Poster {
    endpoint: Endpoint,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Made by the first post, in the feed's own thread: a runtime must not be dropped inside
    /// another one, as it would be where the thread cannot be started.
    runtime: Option<Runtime>,
}

impl Poster {
    /// A client that has not connected yet. The token is read once here, so that a reference that
    /// leads nowhere is found at the start, and then for every attempt.
    ///
    /// # Errors
    ///
    /// [`PostError::Token`].
    pub(super) fn new(
        endpoint: Endpoint,
        tls: Arc<rustls::ClientConfig>,
    ) -> Result<Self, PostError> {
        authorization(&endpoint)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .build(HttpsConnector::from((tcp, tls)));
        Ok(Self { endpoint, client, runtime: None })
    }

    /// Posts one batch, at most [`MAX_ATTEMPTS`] times with growing pauses, and gives the answer's
    /// body. Ends early when the feed gives up.
    ///
    /// # Errors
    ///
    /// What the last attempt came to.
    pub(super) fn post(
        &mut self,
        body: Bytes,
        media_type: &'static str,
        state: &State,
    ) -> Result<Bytes, PostError> {
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        };
        let taken = runtime.block_on(async {
            tokio::select! {
                biased;
                () = state.given_up().cancelled() => {
                    Err(PostError::GivenUp(self.endpoint.to_string()))
                }
                taken = self.persist(body, media_type, state) => taken,
            }
        });
        self.runtime = Some(runtime);
        taken
    }

    async fn persist(
        &self,
        body: Bytes,
        media_type: &'static str,
        state: &State,
    ) -> Result<Bytes, PostError> {
        let mut failures = 0;
        loop {
            let error = match self.attempt(body.clone(), media_type).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            failures += 1;
            if failures == MAX_ATTEMPTS || !error.is_passing() {
                return Err(error);
            }
            state.troubled(&error);
            let asked = match &error {
                PostError::Status { retry_after, .. } => *retry_after,
                _ => None,
            };
            sleep(retry::pause(failures, asked)).await;
        }
    }

    async fn attempt(&self, body: Bytes, media_type: &'static str) -> Result<Bytes, PostError> {
        let no_answer =
            |problem: String| PostError::NoAnswer { endpoint: self.endpoint.to_string(), problem };
        let request = self.request(body, media_type)?;
        let exchange = async {
            let response = self.client.request(request).await.map_err(|e| no_answer(chain(&e)))?;
            self.judge(&response)?;
            let answer = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
            // It was taken; an answer that cannot be read says nothing against that.
            Ok(answer.map(http_body_util::Collected::to_bytes).unwrap_or_default())
        };
        timeout(ATTEMPT_TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| Err(no_answer("no answer in time".to_owned())))
    }

    fn request(
        &self,
        body: Bytes,
        media_type: &'static str,
    ) -> Result<Request<Full<Bytes>>, PostError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = hyper::Method::POST;
        *request.uri_mut() = self.endpoint.url().clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        let agent = concat!("onceward/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        if let Some(authorization) = authorization(&self.endpoint)? {
            headers.insert(AUTHORIZATION, authorization);
        }
        Ok(request)
    }

    fn judge<B>(&self, response: &Response<B>) -> Result<(), PostError> {
        if response.status().is_success() {
            return Ok(());
        }
        let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        Err(PostError::Status {
            endpoint: self.endpoint.to_string(),
            status: StatusCode::as_u16(&response.status()),
            retry_after: asked.and_then(|text| text.parse().ok()).map(Duration::from_secs),
        })
    }
}

/// The header of the token as it is now.
fn authorization(endpoint: &Endpoint) -> Result<Option<HeaderValue>, SecretError> {
    let Some(reference) = endpoint.token() else { return Ok(None) };
    let secret = reference.read()?;
    let header = HeaderValue::from_str(&format!("Bearer {}", secret.expose()));
    let mut header = header.map_err(|_| SecretError::NotPrintable(reference.clone()))?;
    header.set_sensitive(true);
    Ok(Some(header))
}

/// An error and what is under it. Neither holds more of the request than its address.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(under) = cause {
        text.push_str(": ");
        text.push_str(&under.to_string());
        cause = under.source();
    }
    text
}
