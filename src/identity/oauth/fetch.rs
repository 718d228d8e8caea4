//! Asking an issuer over HTTP: bounded in time and size, and never sent anywhere else.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use tokio::time::timeout;

use crate::upstream::{Client, Failure, Response, Timeouts, Trust};
use crate::urls::shown;

/// The most bytes of an issuer's answer.
pub(super) const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// From the start of one exchange to the end of its answer.
pub(super) const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(4);

/// Each part of an exchange.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(2),
    response: EXCHANGE_TIMEOUT,
    idle: EXCHANGE_TIMEOUT,
};

/// Why an issuer gave no usable answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// No connection, or one that broke.
    #[error("{url} could not be asked: {1}", url = shown(.0))]
    Failed(Uri, Failure),
    /// No answer in time.
    #[error("{url} did not answer within {limit}s", url = shown(.0), limit = EXCHANGE_TIMEOUT.as_secs())]
    Slow(Uri),
    /// Another status than 200. Redirects are not followed.
    #[error("{url} answered with status {1}", url = shown(.0))]
    Status(Uri, u16),
    /// More than anybody needs.
    #[error("the answer of {url} exceeds {MAX_ANSWER_BYTES} bytes", url = shown(.0))]
    TooLarge(Uri),
}

/// Asks issuers. Each exchange has a connection of its own: there are few, and they begin on
/// whichever worker needs them.
#[derive(Debug, Clone)]
pub(super) struct Fetcher {
    trust: Trust,
}

impl Fetcher {
    /// A fetcher that trusts these roots.
    pub(super) fn new(trust: Trust) -> Self {
        Self { trust }
    }

    /// The body of a document.
    pub(super) async fn get(&self, url: &Uri) -> Result<Bytes, FetchError> {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = url.clone();
        self.ask(request).await
    }

    /// The answer to a form, sent with the credential.
    pub(super) async fn post(
        &self,
        url: &Uri,
        credential: HeaderValue,
        form: String,
    ) -> Result<Bytes, FetchError> {
        let mut request = Request::new(Full::new(Bytes::from(form)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = url.clone();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(CONTENT_TYPE, form);
        request.headers_mut().insert(AUTHORIZATION, credential);
        self.ask(request).await
    }

    async fn ask(&self, mut request: Request<Full<Bytes>>) -> Result<Bytes, FetchError> {
        let url = request.uri().clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let agent = concat!("onceward/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        let client = Client::new(TIMEOUTS, &self.trust);
        let exchange = async {
            let failed = |failure| FetchError::Failed(url.clone(), failure);
            let response = client.send(request).await.map_err(failed)?;
            match response.status {
                200 => body(response, &url).await,
                status => Err(FetchError::Status(url.clone(), status)),
            }
        };
        timeout(EXCHANGE_TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| Err(FetchError::Slow(url.clone())))
    }
}

async fn body(mut response: Response, url: &Uri) -> Result<Bytes, FetchError> {
    let mut body = Vec::new();
    let failed = |failure| FetchError::Failed(url.clone(), failure);
    while let Some(chunk) = response.body.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(FetchError::TooLarge(url.clone()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.into())
}
