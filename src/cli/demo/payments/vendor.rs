//! The payments server's other side: a plain HTTP API that dedupes by `Idempotency-Key`, as many
//! vendors' do.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use actix_web::http::header::HeaderName;
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};

use super::charge::{ChargeArguments, cut};
use super::ledger::{Charge, MAX_CHARGES};
use super::{Bank, Line};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Charges by the key that they were made under. Bounded as the ledger is.
#[derive(Default)]
pub(super) struct Known(Mutex<HashMap<Box<[u8]>, Charge>>);

impl Known {
    /// The charge of a key, made by `charge` the first time; and whether it was there before.
    /// Without a key every charge is the first.
    fn once(
        &self,
        key: Option<&[u8]>,
        charge: impl FnOnce() -> Option<Charge>,
    ) -> Option<(Charge, bool)> {
        let Some(key) = key else { return Some((charge()?, false)) };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(charge) = known.get(key) {
            return Some((charge.clone(), true));
        }
        let made = charge()?;
        if known.len() < MAX_CHARGES {
            known.insert(key.into(), made.clone());
        }
        Some((made, false))
    }
}

/// Answers `POST /v1/charges`. A simulated crash happens to the call that charges; the vendor is
/// back when the same key comes again.
pub(super) async fn post(
    request: HttpRequest,
    body: web::Json<Value>,
    bank: web::Data<Bank>,
) -> HttpResponse {
    let arguments = match ChargeArguments::read(body.into_inner()) {
        Ok(arguments) => arguments,
        Err(problem) => return HttpResponse::BadRequest().json(json!({ "error": problem })),
    };
    let key = request.headers().get(&IDEMPOTENCY_KEY).map(|value| value.as_bytes());
    let crashes = arguments.crashes();
    let Some((charge, before)) = bank.known.once(key, || bank.ledger.charge(arguments.order))
    else {
        return HttpResponse::InsufficientStorage().json(json!({ "error": "the ledger is full" }));
    };
    if crashes && !before {
        return cut(request.conn_data::<Line>());
    }
    HttpResponse::Created()
        .json(json!({ "charged": format!("{}: {}", charge.name(), charge.order) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::payments::{Ledger, Order};

    #[test]
    fn a_key_charges_once_and_no_key_every_time() {
        let (known, ledger) = (Known::default(), Ledger::default());
        let order = || Order { amount: 1, currency: "EUR".into(), customer: "ada".into() };
        let charge = |key: Option<&[u8]>| {
            let (charge, before) = known.once(key, || ledger.charge(order())).expect("room");
            (charge.number, before)
        };
        assert_eq!(charge(Some(b"k")), (1, false));
        assert_eq!(charge(Some(b"k")), (1, true));
        assert_eq!(charge(Some(b"l")), (2, false));
        assert_eq!(charge(None), (3, false));
        assert_eq!(charge(None), (4, false));
    }
}
