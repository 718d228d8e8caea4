//! Receipts read back, of every domain that this process knows (EFFECTS section 6).

use std::collections::VecDeque;
use std::sync::Arc;

use super::answer::{Kept, Word};
use super::calls::Arguments;
use super::domain::Domain;
use super::events;
use super::held::TICKET;
use super::keeper::NOBODY;
use super::pool::{Failure, Refused};
use super::script::Operation;
use super::{Shared, micros, millis};
use crate::store::receipt::{MAX_RECEIPT_PAGE, ReceiptId, ReceiptPage, ReceiptQuery};
use crate::store::{Receipt, StoreError};

/// The most receipts that one page looks at; those that do not match count.
const MAX_SCAN: usize = 2000;

/// Receipts that are asked for at once.
const BATCH: usize = 50;

/// How often a read is sent, where its answer was lost or another node has the keys.
const TRIES: u32 = 3;

/// Which receipts a read asks for.
enum Which<'a> {
    One(&'a ReceiptId),
    /// The newest whose stamp is at most this, as ZRANGE has it.
    UpTo(&'a str),
}

/// The receipts of a domain, newest first, as far as they were read.
struct Source {
    domain: Arc<Domain>,
    read: VecDeque<Kept>,
    /// Where to go on; `None` at the end.
    up_to: Option<String>,
}

impl Shared {
    /// One receipt, while it is kept.
    pub(super) async fn receipt(
        self: Arc<Self>,
        id: ReceiptId,
    ) -> Result<Option<Receipt>, StoreError> {
        let kept = self.kept(&id).await?;
        Ok(kept.and_then(|kept| events::read(id, &kept.lines)))
    }

    /// A page of them. It begins nowhere where the last one of the page before is not kept any more.
    pub(super) async fn receipts(
        self: Arc<Self>,
        query: ReceiptQuery,
    ) -> Result<ReceiptPage, StoreError> {
        let before = match &query.after {
            None => None,
            Some(id) => match self.kept(id).await? {
                Some(kept) => Some(kept),
                None => return Ok(ReceiptPage::default()),
            },
        };
        let domains = self.domains.of_receipts(query.workspace.as_deref());
        let mut sources: Vec<_> = domains.into_iter().map(|d| Source::new(d, &before)).collect();
        let limit = query.limit.clamp(1, MAX_RECEIPT_PAGE);
        let mut page = ReceiptPage::default();
        for _ in 0..MAX_SCAN {
            let Some(kept) = self.newest(&mut sources, &before).await? else {
                page.next = None;
                return Ok(page);
            };
            page.next = Some(kept.id.clone());
            let receipt = events::read(kept.id, &kept.lines);
            page.receipts.extend(receipt.filter(|receipt| query.matches(receipt)));
            if page.receipts.len() == limit {
                break;
            }
        }
        Ok(page)
    }

    /// Takes the newest of all.
    async fn newest(
        &self,
        sources: &mut [Source],
        before: &Option<Kept>,
    ) -> Result<Option<Kept>, StoreError> {
        for source in &mut *sources {
            while source.read.is_empty() {
                let Some(up_to) = source.up_to.take() else { break };
                let mut read = self.read(&source.domain, Which::UpTo(&up_to)).await?;
                source.up_to = read.last().filter(|_| read.len() == BATCH).map(Kept::older);
                read.retain(|kept| {
                    before.as_ref().is_none_or(|before| kept.place() < before.place())
                });
                source.read.extend(read);
            }
        }
        let first =
            |source: &&mut Source| source.read.front().map(|kept| (kept.stamp, kept.id.clone()));
        let newest = sources.iter_mut().max_by_key(first);
        Ok(newest.and_then(|source| source.read.pop_front()))
    }

    async fn kept(&self, id: &ReceiptId) -> Result<Option<Kept>, StoreError> {
        let Some(domain) = self.domains.with_receipt(id) else { return Ok(None) };
        Ok(self.read(&domain, Which::One(id)).await?.pop())
    }

    async fn read(&self, domain: &Domain, which: Which<'_>) -> Result<Vec<Kept>, StoreError> {
        let mut tries = 1;
        loop {
            match self.try_read(domain, &which).await {
                Ok(kept) => return Ok(kept),
                Err(Failure::Lost | Failure::Refused(Refused::Moved)) if tries < TRIES => {
                    tries += 1
                }
                Err(failure) => return Err(failure.error()),
            }
        }
    }

    async fn try_read(&self, domain: &Domain, which: &Which<'_>) -> Result<Vec<Kept>, Failure> {
        let seen = domain.seen(self.now()).unwrap_or_default();
        let mut arguments = Arguments::of(&NOBODY, "", &[0; TICKET], &self.limits, self.lease);
        let (one, up_to) = match which {
            Which::One(id) => (id.to_string(), ""),
            Which::UpTo(stamp) => (String::new(), *stamp),
        };
        arguments.push(one);
        arguments.number(micros(millis(self.receipts.retention)));
        arguments.push(up_to);
        arguments.push(BATCH.to_string());
        let mut keys = domain.keys.of_domain();
        keys.extend(domain.keys.receipts());
        let mut link = self.link(domain).await?;
        let asking = self.ask(&mut link, domain, &seen, Operation::Receipts, &keys, &arguments);
        let answer = asking.await?;
        link.give_back();
        match answer.word {
            Word::Receipts(kept) => Ok(kept),
            _ => Err(Failure::Lost),
        }
    }
}

impl Source {
    fn new(domain: Arc<Domain>, before: &Option<Kept>) -> Self {
        // Another domain may have one of the same microsecond.
        let up_to = before.as_ref().map_or("+inf".to_owned(), |before| before.stamp.to_string());
        Self { domain, read: VecDeque::new(), up_to: Some(up_to) }
    }
}

impl Kept {
    /// Its place among those of all domains.
    fn place(&self) -> (i64, &ReceiptId) {
        (self.stamp, &self.id)
    }

    /// All that are older in its domain, where no two have one stamp.
    fn older(&self) -> String {
        format!("({}", self.stamp)
    }
}
