//! One script call: connection, arguments, answer.

use super::answer::Answer;
use super::domain::{Domain, Seen};
use super::held::{Claim, TICKET};
use super::pool::{Failure, Link};
use super::script::Operation;
use super::{Shared, micros};
use crate::claim::{Begin, Limits, Millis};
use crate::store::StoreError;

/// Arguments of a script, as bytes.
#[derive(Default)]
pub(super) struct Arguments(Vec<Vec<u8>>);

impl Arguments {
    /// Those of every script, in the order of scripts/common.lua.
    pub(super) fn of(
        begin: &Begin,
        record: &str,
        ticket: &[u8; TICKET],
        limits: &Limits,
        lease: Millis,
    ) -> Self {
        let mut arguments = Self::default();
        arguments.push(ticket);
        arguments.push(begin.slot.as_bytes());
        arguments.push(begin.scope.as_bytes());
        arguments.push(begin.principal.as_bytes());
        arguments.number(micros(limits.tombstone_ttl));
        arguments.number(micros(limits.ttl));
        arguments.number(micros(lease));
        arguments.push(record);
        arguments
    }

    pub(super) fn push(&mut self, argument: impl AsRef<[u8]>) {
        self.0.push(argument.as_ref().to_owned());
    }

    pub(super) fn number(&mut self, number: impl Into<i64>) {
        self.0.push(number.into().to_string().into_bytes());
    }
}

impl Shared {
    /// Runs a script on a link. The answer's clock and stamp are learnt from.
    pub(super) async fn ask(
        &self,
        link: &mut Link<'_>,
        domain: &Domain,
        seen: &Seen,
        operation: Operation,
        keys: &[String],
        arguments: &Arguments,
    ) -> Result<Answer, Failure> {
        let arguments: Vec<&[u8]> = arguments.0.iter().map(Vec::as_slice).collect();
        let value = link.run(operation, keys, &arguments).await.inspect_err(|_| {
            // Without an answer the node may be gone, and any other one says who has the keys.
            domain.reroute(link.moved());
        })?;
        let Some(answer) = Answer::read(value, self.limits.reply_bytes) else {
            tracing::error!(?operation, "redis answered what no script of this build does");
            return Err(Failure::Lost);
        };
        let now = self.now();
        domain.server_time.set(answer.clock, now);
        domain.learn(&answer, seen, now.plus(self.recovery()));
        Ok(answer)
    }

    /// Runs a script for a claim, whatever was lost meanwhile.
    pub(super) async fn ask_for(
        &self,
        claim: &Claim,
        operation: Operation,
        rest: impl FnOnce(&mut Arguments),
    ) -> Result<Answer, Failure> {
        let (answer, link) = self.ask_linked(claim, operation, rest).await?;
        link.give_back();
        Ok(answer)
    }

    /// The same, with the connection that it ran on.
    pub(super) async fn ask_linked(
        &self,
        claim: &Claim,
        operation: Operation,
        rest: impl FnOnce(&mut Arguments),
    ) -> Result<(Answer, Link<'_>), Failure> {
        let seen = claim.domain.seen(self.now()).unwrap_or_default();
        let (named, limits) = (&claim.named, &self.limits);
        let mut arguments =
            Arguments::of(&named.begin, &named.record, &claim.ticket, limits, self.lease);
        rest(&mut arguments);
        let keys = claim.keys();
        let mut link = self.link(&claim.domain).await?;
        let answer =
            self.ask(&mut link, &claim.domain, &seen, operation, &keys, &arguments).await?;
        Ok((answer, link))
    }

    /// Waits until as many replicas as must have what a connection has written.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unreplicated`] where they have not in time.
    pub(super) async fn replicated(&self, link: &mut Link<'_>) -> Result<(), Failure> {
        let wanted = self.wait_replicas;
        if wanted > 0 && link.replicas(wanted, self.replica_wait).await < wanted {
            return Err(Failure::Unsent(StoreError::Unreplicated));
        }
        Ok(())
    }

    /// A connection to the server that has a domain's keys, as far as that is known.
    pub(super) async fn link(&self, domain: &Domain) -> Result<Link<'_>, Failure> {
        let link = self.pool.link(&domain.route()).await;
        link.inspect_err(|_| domain.reroute(None))
    }

    /// How long after a loss everything that can be missing would have expired.
    fn recovery(&self) -> Millis {
        self.limits.ttl.max(self.limits.tombstone_ttl)
    }

    pub(super) fn stopping(&self) -> Result<(), StoreError> {
        if self.stopped.load(std::sync::atomic::Ordering::Acquire) {
            return Err(StoreError::Stopping);
        }
        Ok(())
    }
}
