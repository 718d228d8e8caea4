//! A reply that passes to the client while it is read.

use actix_web::web::Bytes;

use crate::gateway::{dispatch, relay};
use crate::upstream::{Body, Failure, Flow, Outcome, Reading};

/// Reads a reply and passes it on, except the piece that completes the declared length: the last
/// byte leaves after the settle, so that a caller who has the whole reply finds it settled.
pub(super) struct Pump {
    pub(super) body: Body,
    pub(super) reading: Reading,
    /// What the upstream declared and has not sent yet.
    pub(super) remaining: Option<u64>,
    pub(super) sender: relay::Sender,
    pub(super) last: Option<Bytes>,
}

/// A reply that was read to its end.
pub(super) struct Pumped {
    /// How it settles.
    pub(super) outcome: Outcome,
    /// How it broke off, if it did.
    pub(super) broken: Option<Failure>,
    /// What waits for the settle.
    pub(super) rest: Rest,
}

/// What waits for the settle: the last piece and the end of the body, or its abort.
pub(super) struct Rest {
    sender: relay::Sender,
    last: Option<Bytes>,
    clean: bool,
}

impl Pump {
    pub(super) async fn run(mut self, first: Option<Bytes>) -> Pumped {
        if let Some(bytes) = first {
            self.pass(bytes).await;
        }
        loop {
            match self.body.chunk().await {
                Ok(Some(chunk)) => {
                    if let Flow::Pass(bytes) = self.reading.push(chunk) {
                        self.pass(bytes).await;
                    }
                }
                Ok(None) => {
                    let rest = Rest { sender: self.sender, last: self.last, clean: true };
                    let outcome = self.reading.finish().outcome;
                    return Pumped { outcome, broken: None, rest };
                }
                Err(failure) => {
                    let outcome = self.reading.broken(dispatch::broken_by(failure));
                    let rest = Rest { sender: self.sender, last: None, clean: false };
                    return Pumped { outcome, broken: Some(failure), rest };
                }
            }
        }
    }

    async fn pass(&mut self, bytes: Bytes) {
        self.remaining = self.remaining.map(|left| left.saturating_sub(bytes.len() as u64));
        match self.remaining {
            Some(0) => self.last = Some(bytes),
            _ => self.sender.piece(bytes).await,
        }
    }
}

impl Rest {
    pub(super) async fn finish(mut self) {
        if !self.clean {
            return;
        }
        if let Some(bytes) = self.last {
            self.sender.piece(bytes).await;
        }
        self.sender.end().await;
    }
}
