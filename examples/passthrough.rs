//! The bar that `scripts/bench` measures the gateway against: what actix-web and hyper-util cost by
//! themselves. It forwards method, path, headers and body, and relays the reply; it reads nothing,
//! decides nothing and records nothing.
//!
//!     cargo run --release --example passthrough -- LISTEN UPSTREAM WORKERS

use actix_web::body::SizedStream;
use actix_web::http::StatusCode;
use actix_web::web::{self, Bytes, Data};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use futures_util::TryStreamExt;
use http_body_util::{BodyDataStream, Full};
use hyper::body::Body as _;
use hyper::header::{HOST, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::{Method, Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

struct Worker {
    client: Client<HttpConnector, Full<Bytes>>,
    upstream: Uri,
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, upstream, workers] = arguments.as_slice() else {
        return Err("usage: passthrough LISTEN UPSTREAM WORKERS".into());
    };
    let upstream: Uri = upstream.parse()?;
    HttpServer::new(move || {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(tcp);
        let worker = Worker { client, upstream: upstream.clone() };
        App::new().app_data(Data::new(worker)).default_service(web::to(forward))
    })
    .workers(workers.parse()?)
    .bind(listen)?
    .run()
    .await?;
    Ok(())
}

async fn forward(request: HttpRequest, body: Bytes, worker: Data<Worker>) -> HttpResponse {
    match exchange(&request, body, &worker).await {
        Ok(response) => response,
        Err(error) => {
            eprintln!("passthrough: {error}");
            HttpResponse::new(StatusCode::BAD_GATEWAY)
        }
    }
}

async fn exchange(
    request: &HttpRequest,
    body: Bytes,
    worker: &Worker,
) -> Result<HttpResponse, Box<dyn std::error::Error>> {
    let mut outbound = Request::new(Full::new(body));
    *outbound.method_mut() = Method::from_bytes(request.method().as_str().as_bytes())?;
    *outbound.uri_mut() = worker.upstream.clone();
    for (name, value) in request.headers() {
        let name = HeaderName::from_bytes(name.as_str().as_bytes())?;
        if name != HOST {
            outbound.headers_mut().append(name, HeaderValue::from_bytes(value.as_bytes())?);
        }
    }
    let (head, body) = worker.client.request(outbound).await?.into_parts();
    let mut response = HttpResponse::build(StatusCode::from_u16(head.status.as_u16())?);
    for (name, value) in &head.headers {
        if name != TRANSFER_ENCODING {
            response.append_header((name.as_str(), value.as_bytes()));
        }
    }
    let length = body.size_hint().exact();
    let pieces = BodyDataStream::new(body).map_err(std::io::Error::other);
    Ok(match length {
        Some(length) => response.body(SizedStream::new(length, pieces)),
        None => response.streaming(pieces),
    })
}
