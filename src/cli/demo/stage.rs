//! What a scene works with: it sends, waits, shows and checks.

use std::future::Future;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::{self, Answer, Call, Client, ClientError, Pending, Reply};
use super::outcome::Outcome;
use super::payments::{Charge, Order, Payments};
use super::timeline::{Act, Actor, Standing, Timeline};

/// How long anything awaited may take. Nothing in the demo is slow: what takes longer will not come.
const PATIENCE: Duration = Duration::from_secs(15);

/// How a scene departed from what was promised.
#[derive(Debug, thiserror::Error)]
pub enum Departure {
    /// An answer of another kind.
    #[error("promised: {promised}; seen: {seen}")]
    Unlike {
        /// What should have come.
        promised: String,
        /// What came.
        seen: String,
    },
    /// The ledger holds something else.
    #[error("promised: {promised} in the ledger; seen: {seen}")]
    Ledger {
        /// How many charges the scene should have made.
        promised: usize,
        /// How many it made.
        seen: usize,
    },
    /// A reply that should repeat another differs from it.
    #[error("the replay differs from the first reply")]
    OtherReply,
    /// A stream ended early.
    #[error("the stream ended before its last event")]
    NoEvent,
    /// Something did not come.
    #[error("waited {PATIENCE:?} in vain for {0}")]
    Silence(&'static str),
    /// There is no whole reply.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// One scene's view of the demo.
pub struct Stage<'s, 'w> {
    /// The payments server.
    pub payments: &'s Payments,
    client: Client,
    timeline: &'s mut Timeline<'w>,
    /// The charges of earlier scenes.
    earlier: usize,
    next_id: u64,
}

impl<'s, 'w> Stage<'s, 'w> {
    /// A stage for one scene; what the ledger holds now belongs to earlier ones.
    pub fn new(payments: &'s Payments, client: Client, timeline: &'s mut Timeline<'w>) -> Self {
        let earlier = payments.ledger().count();
        Self { payments, client, timeline, earlier, next_id: 1 }
    }

    /// A new call of `charge`, for 25.00 EUR.
    pub fn charge(&mut self, path: &'static str, customer: &str) -> Call {
        let arguments = json!({ "amount": 2500, "currency": "EUR", "customer": customer });
        Call { path, key: None, message: self.tool_call("charge", arguments) }
    }

    /// A new call of `list_charges`.
    pub fn list(&mut self, path: &'static str, customer: &str) -> Call {
        let message = self.tool_call("list_charges", json!({ "customer": customer }));
        Call { path, key: None, message }
    }

    /// Shows that the client sends `call`, and lets it run.
    pub fn start(&mut self, call: &Call, aside: &str) -> Pending {
        self.show_call(call, aside);
        self.client.start(call)
    }

    /// Shows that the client sends `call`, and waits for the answer.
    ///
    /// # Errors
    ///
    /// [`Departure::Silence`] or [`Departure::Client`].
    pub async fn send(&mut self, call: &Call, aside: &str) -> Result<Answer, Departure> {
        self.show_call(call, aside);
        within("an answer", self.client.send(call)).await
    }

    /// Shows that the client sends `call`, and waits for the head of the answer.
    ///
    /// # Errors
    ///
    /// [`Departure::Silence`] or [`Departure::Client`].
    pub async fn open(&mut self, call: &Call, aside: &str) -> Result<Reply, Departure> {
        self.show_call(call, aside);
        within("the head of an answer", self.client.open(call)).await
    }

    /// As [`Stage::send`], again and again while the gateway says that the first one is in flight:
    /// what a client does after it was cut off, when it cannot know how far the call has come.
    ///
    /// # Errors
    ///
    /// [`Departure::Silence`] or [`Departure::Client`].
    pub async fn send_until_settled(
        &mut self,
        call: &Call,
        aside: &str,
    ) -> Result<Answer, Departure> {
        self.show_call(call, aside);
        let client = self.client;
        within("the first call to settle", async move {
            loop {
                let answer = client.send(call).await?;
                if Outcome::of(&answer) != Outcome::IN_FLIGHT {
                    return Ok(answer);
                }
            }
        })
        .await
    }

    /// Waits until the scene has made `count` charges, and shows the last.
    ///
    /// # Errors
    ///
    /// [`Departure::Silence`].
    pub async fn charged(&mut self, count: usize) -> Result<(), Departure> {
        let ledger = self.payments.ledger();
        let total = self.earlier + count;
        within("a charge", async {
            ledger.reaches(total).await;
            Ok(())
        })
        .await?;
        self.show_charge(count);
        Ok(())
    }

    /// Shows the scene's charge with the number `count`, which has been made.
    pub fn show_charge(&mut self, count: usize) {
        for charge in self.payments.ledger().since(self.earlier + count - 1).iter().take(1) {
            let text = format!("charges {}: {}", charge.name(), charge.order);
            self.timeline.step(Actor::Payments, Act::Charges, &text, "");
        }
    }

    /// Ends a call under way from the client's side.
    pub fn hang_up(&mut self, pending: Pending, why: &str) {
        drop(pending);
        self.timeline.step(Actor::Client, Act::HangsUp, why, "");
    }

    /// Waits for the answer to a call under way.
    ///
    /// # Errors
    ///
    /// [`Departure::Silence`] or [`Departure::Client`].
    pub async fn answer(&mut self, pending: Pending) -> Result<Answer, Departure> {
        within("an answer", async { pending.await? }).await
    }

    /// Shows an answer and checks that it is the promised one.
    ///
    /// # Errors
    ///
    /// [`Departure::Unlike`].
    pub fn expect(&mut self, answer: &Answer, promised: Outcome) -> Result<(), Departure> {
        self.show_answer(answer);
        let seen = Outcome::of(answer);
        if seen == promised {
            return Ok(());
        }
        Err(Departure::Unlike { promised: promised.to_string(), seen: seen.to_string() })
    }

    /// Waits for the next event of a stream, and shows it.
    ///
    /// # Errors
    ///
    /// [`Departure::Silence`], [`Departure::Client`], or [`Departure::NoEvent`] at the end.
    pub async fn event(&mut self, reply: &mut Reply, aside: &str) -> Result<(), Departure> {
        let event = within("an event", reply.event()).await?.ok_or(Departure::NoEvent)?;
        let text = progress_text(&event).unwrap_or_else(|| "an event".to_owned());
        self.timeline.step(Actor::Client, Act::Gets, &text, aside);
        Ok(())
    }

    /// Waits for the rest of a stream.
    ///
    /// # Errors
    ///
    /// [`Departure::Silence`] or [`Departure::Client`].
    pub async fn rest(&mut self, reply: Reply) -> Result<Answer, Departure> {
        within("the end of a stream", reply.whole()).await
    }

    /// A remark under the last step.
    pub fn note(&mut self, text: &str) {
        self.timeline.note(text);
    }

    /// Shows the scene's charges and checks that there are `promised`.
    ///
    /// # Errors
    ///
    /// [`Departure::Ledger`].
    pub fn settle_up(&mut self, promised: usize) -> Result<(), Departure> {
        let charges = self.payments.ledger().since(self.earlier);
        let seen = charges.len();
        let lines: Vec<String> =
            charges.iter().map(|charge| format!("{} {}", charge.name(), charge.order)).collect();
        self.timeline.ledger(&lines, standing(&charges, promised));
        if seen == promised { Ok(()) } else { Err(Departure::Ledger { promised, seen }) }
    }

    fn tool_call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        client::request(id, "tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    fn show_call(&mut self, call: &Call, aside: &str) {
        self.timeline.step(Actor::Client, Act::Sends, &call_text(&call.message), aside);
    }

    fn show_answer(&mut self, answer: &Answer) {
        let status = answer.status;
        if let Some(refusal) = answer.refusal() {
            let wait = answer.retry_after.map(|seconds| format!(" after {seconds} s"));
            let aside = format!("advice: {}{}", refusal.advice, wait.unwrap_or_default());
            let text = format!("{status} {}", refusal.reason);
            self.timeline.step(Actor::Client, Act::Refused, &text, &aside);
            self.timeline.note(&refusal.message);
        } else if let Some(said) = answer.tool_text() {
            let aside = if answer.replayed { "Idempotency-Replayed: true" } else { "" };
            let text = format!("{status} {}", said.replace('\n', ", "));
            self.timeline.step(Actor::Client, Act::Gets, &text, aside);
        } else {
            let text = Outcome::of(answer).to_string();
            self.timeline.step(Actor::Client, Act::Refused, &text, "");
        }
    }
}

fn standing(charges: &[Charge], promised: usize) -> Standing {
    let doubled = charges.iter().enumerate().any(|(place, charge)| {
        charges[..place].iter().any(|other| other.order.customer == charge.order.customer)
    });
    match (charges.len() == promised, doubled) {
        (false, _) => Standing::Wrong,
        (true, true) => Standing::Doubled,
        (true, false) => Standing::Single,
    }
}

/// A call in words.
fn call_text(message: &Value) -> String {
    let tool = message.pointer("/params/name").and_then(Value::as_str).unwrap_or_default();
    let argument = |name: &str| message.pointer(&format!("/params/arguments/{name}"));
    let text = |name: &str| argument(name).and_then(Value::as_str).unwrap_or_default();
    match argument("amount").and_then(Value::as_u64) {
        Some(amount) => {
            let (currency, customer) = (text("currency").to_owned(), text("customer").to_owned());
            format!("{tool} {}", Order { amount, currency, customer })
        }
        None => format!("{tool} {}", text("customer")),
    }
}

/// The message of a progress notification.
fn progress_text(event: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(event).ok()?;
    let data = text.lines().find_map(|line| line.strip_prefix("data: "))?;
    let message: Value = serde_json::from_str(data).ok()?;
    let (step, total) = (message.pointer("/params/progress")?, message.pointer("/params/total")?);
    Some(format!("progress {step}/{total}: {}", message.pointer("/params/message")?.as_str()?))
}

/// Bounds a wait by [`PATIENCE`].
pub(super) async fn within<T>(
    what: &'static str,
    future: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, Departure> {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Departure::Silence(what)),
    }
}
