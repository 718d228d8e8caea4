//! The tool `charge`, with the faults that it can simulate.

use std::net::Shutdown;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::Bytes;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ledger::{Charge, Order};
use super::mcp::{tool_error, tool_result};
use super::{Bank, Line};

/// How late a `slow` charge is answered: long enough to interrupt it by hand.
const SLOW: Duration = Duration::from_secs(5);
/// The most characters of a customer's name.
const MAX_CUSTOMER: usize = 64;
/// The most that one charge may take, in hundredths.
const MAX_AMOUNT: u64 = 100_000_000;

/// A fault that a caller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Simulate {
    /// Charge, and answer after [`SLOW`].
    Slow,
    /// Charge, and close the connection without a reply.
    Crash,
}

/// The arguments of `charge`, checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChargeArguments {
    pub(super) order: Order,
    simulate: Option<Simulate>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    amount: u64,
    currency: String,
    customer: String,
    simulate: Option<Simulate>,
}

impl ChargeArguments {
    /// Reads the arguments; the error is a sentence for the caller.
    pub(super) fn read(arguments: Value) -> Result<Self, String> {
        let Unchecked { amount, currency, customer, simulate } =
            serde_json::from_value(arguments).map_err(|mistake| mistake.to_string())?;
        if !(1..=MAX_AMOUNT).contains(&amount) {
            return Err(format!("`amount` must be 1 to {MAX_AMOUNT} hundredths"));
        }
        if currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return Err("`currency` must be three capital letters".to_owned());
        }
        if customer.is_empty() || customer.chars().count() > MAX_CUSTOMER {
            return Err(format!("`customer` must have 1 to {MAX_CUSTOMER} characters"));
        }
        Ok(Self { order: Order { amount, currency, customer }, simulate })
    }
}

impl ChargeArguments {
    /// Whether the server is to go away after the charge.
    pub(super) fn crashes(&self) -> bool {
        self.simulate == Some(Simulate::Crash)
    }
}

/// What `tools/list` says of the arguments.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "amount": {
                "type": "integer", "minimum": 1, "maximum": MAX_AMOUNT,
                "description": "in hundredths of the currency's unit",
            },
            "currency": { "type": "string", "pattern": "^[A-Z]{3}$" },
            "customer": { "type": "string", "minLength": 1, "maxLength": MAX_CUSTOMER },
            "simulate": {
                "type": "string", "enum": ["slow", "crash"],
                "description": "charge and answer late, or charge and close without a reply",
            },
        },
        "required": ["amount", "currency", "customer"],
        "additionalProperties": false,
    })
}

/// Charges, then answers as the call and the faults want it: with one JSON reply, or, where the
/// caller gave a progress token, with a stream of events.
pub(super) async fn charge(
    bank: &Bank,
    line: Option<&Line>,
    id: Value,
    arguments: ChargeArguments,
    progress_token: Option<Value>,
) -> HttpResponse {
    let crashes = arguments.crashes();
    let hold = if arguments.simulate.is_none() { bank.next_hold() } else { None };
    let Some(charge) = bank.ledger.charge(arguments.order) else {
        return HttpResponse::Ok().json(tool_error(&id, "declined: the ledger is full"));
    };
    let wait = async move {
        match (arguments.simulate, hold) {
            (Some(Simulate::Slow), _) => tokio::time::sleep(SLOW).await,
            // The gate opens by being dropped.
            (_, Some(gate)) => drop(gate.await),
            _ => {}
        }
    };
    if crashes {
        return cut(line);
    }
    let reply = tool_result(&id, &format!("charged {}: {}", charge.name(), charge.order));
    match progress_token {
        None => {
            wait.await;
            HttpResponse::Ok().json(reply)
        }
        Some(token) => {
            let started = progress(&token, 1, &charge, "charged");
            let finished = progress(&token, 2, &charge, "receipt written");
            let head = stream::once(async move { event(&started) });
            let tail = stream::once(async move {
                wait.await;
                event(&finished)
            });
            let last = stream::once(async move { event(&reply) });
            HttpResponse::Ok()
                .content_type("text/event-stream")
                .streaming(head.chain(tail).chain(last).map(Ok::<_, actix_web::Error>))
        }
    }
}

/// Closes the connection under the request: the peer sees it end without a reply.
pub(super) fn cut(line: Option<&Line>) -> HttpResponse {
    // A connection that is closed already is as cut as it was to be.
    let _ = line.map(|Line(socket)| socket.shutdown(Shutdown::Both));
    HttpResponse::InternalServerError().finish()
}

fn progress(token: &Value, step: u32, charge: &Charge, what: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {
        "progressToken": token, "progress": step, "total": 2,
        "message": format!("{}: {what}", charge.name()),
    } })
}

fn event(message: &Value) -> Bytes {
    Bytes::from(format!("event: message\ndata: {message}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_outside_the_schema_are_refused_with_the_field_to_mend() {
        let good = json!({ "amount": 2500, "currency": "EUR", "customer": "ada" });
        let order = Order { amount: 2500, currency: "EUR".to_owned(), customer: "ada".to_owned() };
        assert_eq!(
            ChargeArguments::read(good.clone()),
            Ok(ChargeArguments { order, simulate: None })
        );
        let cases = [
            ("amount", json!(0)),
            ("amount", json!(MAX_AMOUNT + 1)),
            ("amount", json!(-1)),
            ("currency", json!("eur")),
            ("currency", json!("EURO")),
            ("customer", json!("")),
            ("customer", json!("x".repeat(MAX_CUSTOMER + 1))),
            ("simulate", json!("rain")),
            ("tip", json!(1)),
        ];
        for (field, value) in cases {
            let mut arguments = good.clone();
            arguments[field] = value.clone();
            assert!(ChargeArguments::read(arguments).is_err(), "{field} {value}");
        }
        assert!(ChargeArguments::read(Value::Null).is_err());
    }
}
