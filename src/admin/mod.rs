//! The admin listener: probes, metrics, status and receipts (CONTRACT section 10).
//!
//! `GET /healthz` and `GET /readyz` are open to everybody who reaches the listener; `GET /metrics`,
//! `GET /v1/status` and `GET /v1/receipts` need the bearer token where one is configured. Without a token the listener
//! must be loopback, which the configuration sees to; and a loopback listener answers under the names
//! of its own machine only, so that no web page can read it by another.

mod auth;
mod pages;
mod receipts;
mod reply;
mod state;

use std::sync::Arc;

use actix_web::middleware::from_fn;
use actix_web::{FromRequest, Handler, HttpResponse, Resource, web};

pub use state::{AdminOptions, AdminState, NotReady, PolicyStatus, ServerStatus, Source};

/// Adds the listener's routes to an app; everything that they do not name is a 404.
pub fn configure(state: Arc<AdminState>, config: &mut web::ServiceConfig) {
    let protected = web::scope("")
        .wrap(from_fn(auth::require_token))
        .service(page("/metrics", pages::metrics))
        .service(page("/v1/status", pages::status))
        .service(page("/v1/receipts", receipts::page))
        .service(page("/v1/receipts/{id}", receipts::one))
        .default_service(web::to(reply::not_found));
    let all = web::scope("")
        .wrap(from_fn(auth::require_host))
        .service(page("/healthz", pages::healthz))
        .service(page("/readyz", pages::readyz))
        .service(protected);
    config.app_data(web::Data::from(state)).service(all);
}

/// A page that can be read with GET and HEAD (the server leaves out the body of a HEAD).
fn page<F, Args>(path: &str, handler: F) -> Resource
where
    F: Handler<Args, Output = HttpResponse> + Clone,
    Args: FromRequest + 'static,
{
    web::resource(path)
        .route(web::get().to(handler.clone()))
        .route(web::head().to(handler))
        .default_service(web::to(reply::method_not_allowed))
}

#[cfg(test)]
mod tests;
