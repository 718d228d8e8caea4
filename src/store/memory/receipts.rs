//! The receipts of the memory store: as many as it may keep, for as long as it may keep them.
//!
//! One lock for all, held for what a map and a queue take: receipts are made, copied and dropped
//! outside of it, and whoever reads many takes it once for each few of them. Claims and settles
//! write in the step of the shard that decides them, so that whoever sees one also sees its receipt.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use jiff::Timestamp;
use smallvec::{SmallVec, smallvec};

use super::random::Random;
use crate::claim::{Fence, Millis};
use crate::store::receipt::{
    Attempt, MAX_LISTED_ATTEMPTS, MAX_RECEIPT_PAGE, Opening, Receipt, ReceiptId, ReceiptOutcome,
    ReceiptPage, ReceiptQuery, ReceiptSettings,
};
use crate::store::{Clock, Domain, Notes, StoreError};

/// Receipts that one page looks at; where they end, the next page goes on.
pub(super) const MAX_SCAN: usize = 16_384;

/// Receipts that are looked at, or swept by the keeper, under one lock.
const CHUNK: usize = 256;

/// Receipts that leave when one comes: the one in its place, and others whose time is over.
const LEAVING: usize = 4;

/// A claim, by the part of the store that keeps it and its fence there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ClaimOf {
    pub(super) home: usize,
    pub(super) fence: Fence,
}

/// All receipts of a store.
pub(super) struct Receipts {
    entries: usize,
    retention: Millis,
    clock: Arc<dyn Clock>,
    random: Random,
    kept: Mutex<Kept>,
}

/// A receipt and what is known of it besides.
struct Entry {
    receipt: Arc<Receipt>,
    claim: ClaimOf,
    /// The claim came by a redispatch: its release says nothing of what went before.
    again: bool,
    /// From when on it is not shown any more.
    until: Millis,
}

/// What is kept, in the order of the claims. Each has a number, and leaves when it is the oldest.
struct Kept {
    entries: VecDeque<Entry>,
    /// The number of the oldest.
    first: u64,
    by_id: HashMap<u128, u64>,
    /// Of claims in flight, and of those that a redispatch may go on with.
    by_claim: HashMap<ClaimOf, u64>,
}

/// A few neighbours, the newest first.
struct Chunk {
    receipts: Vec<Arc<Receipt>>,
    /// The number after that of the newest.
    end: u64,
    /// The number of the oldest that is kept.
    oldest: u64,
}

/// What leaves, to be dropped once the lock is given back.
type Gone = SmallVec<[Entry; LEAVING]>;

impl Receipts {
    /// With room for as many as the settings say, so that nothing ever grows while others wait.
    pub(super) fn new(settings: ReceiptSettings, clock: Arc<dyn Clock>) -> Self {
        let entries = usize::try_from(settings.entries).unwrap_or(usize::MAX);
        let kept = Kept {
            entries: VecDeque::with_capacity(entries),
            first: 0,
            by_id: HashMap::with_capacity(entries),
            by_claim: HashMap::with_capacity(entries),
        };
        let retention = millis(settings.retention);
        Self { entries, retention, clock, random: Random::new(), kept: Mutex::new(kept) }
    }

    pub(super) fn keeps_any(&self) -> bool {
        self.entries > 0
    }

    /// The receipt of a claim that is about to be asked for, if one is to be kept.
    ///
    /// # Errors
    ///
    /// Without randomness it has no name, and the claim must not be made.
    pub(super) fn draft(
        &self,
        domain: &Domain<'_>,
        opening: Option<Box<Opening>>,
    ) -> Result<Option<Arc<Receipt>>, StoreError> {
        let Some(opening) = opening.filter(|_| self.keeps_any()) else { return Ok(None) };
        let random = self.random.take().map_err(|error| {
            tracing::error!(%error, "the system gives no random numbers");
            StoreError::Down
        })?;
        let reserved_at = opening.opened_at;
        Ok(Some(Arc::new(Receipt {
            id: ReceiptId::new(domain, random),
            opening: *opening,
            attempt_count: 1,
            attempts: smallvec![Attempt { number: 1, reserved_at, end: None }],
            outcome: ReceiptOutcome::InFlight,
            settled_at: None,
        })))
    }

    /// Opens the receipt of a claim that was won at `now`.
    pub(super) fn open(&self, claim: ClaimOf, receipt: Option<Arc<Receipt>>, now: Millis) {
        if let Some(receipt) = receipt {
            self.keep(claim, receipt, false, now);
        }
    }

    /// Goes on with the receipt of the claim `before`, which was taken again, or opens another one
    /// where it is kept no longer. Says the number of the attempt that is reserved with it.
    pub(super) fn go_on(
        &self,
        claim: ClaimOf,
        before: Fence,
        receipt: Option<Arc<Receipt>>,
        now: Millis,
    ) -> u32 {
        if self.entries == 0 {
            return 1;
        }
        let opened_at = receipt.as_ref().map(|receipt| receipt.opening.opened_at);
        let reserved_at = opened_at.unwrap_or_else(Timestamp::now);
        let before = ClaimOf { fence: before, ..claim };
        if let Some(number) = self.lock().take_over(before, claim, reserved_at, now) {
            return number;
        }
        if let Some(receipt) = receipt {
            self.keep(claim, receipt, true, now);
        }
        1
    }

    /// The next attempt is reserved. When this returns it is written.
    pub(super) fn reserve(&self, claim: ClaimOf, notes: &Notes) {
        if self.entries == 0 {
            return;
        }
        let reserved_at = Timestamp::now();
        let mut kept = self.lock();
        if let Some(entry) = kept.of_claim(claim) {
            let receipt = Arc::make_mut(&mut entry.receipt);
            tell_ends(receipt, notes);
            add_attempt(receipt, notes.attempt, reserved_at);
        }
    }

    /// A claim has come to an end.
    pub(super) fn settle(&self, claim: ClaimOf, notes: &Notes, outcome: ReceiptOutcome) {
        if self.entries == 0 {
            return;
        }
        let settled_at = Timestamp::now();
        let mut kept = self.lock();
        let Some(entry) = kept.of_claim(claim) else { return };
        let outcome = match outcome {
            ReceiptOutcome::Released if entry.again => ReceiptOutcome::Unknown,
            outcome => outcome,
        };
        let receipt = Arc::make_mut(&mut entry.receipt);
        tell_ends(receipt, notes);
        if notes.untried {
            take_back(receipt, notes.attempt);
        }
        receipt.outcome = outcome;
        receipt.settled_at = Some(settled_at);
        if outcome != ReceiptOutcome::Unknown {
            kept.by_claim.remove(&claim);
        }
    }

    /// One receipt.
    pub(super) fn get(&self, id: &ReceiptId) -> Option<Receipt> {
        let now = self.clock.now();
        let kept = self.lock();
        let entry = kept.by_id.get(&id.number()).and_then(|number| kept.at(*number))?;
        let shown = entry.receipt.id == *id && now < entry.until;
        let receipt = shown.then(|| Arc::clone(&entry.receipt))?;
        drop(kept);
        Some(Arc::unwrap_or_clone(receipt))
    }

    /// A page, the newest first.
    pub(super) fn page(&self, query: &ReceiptQuery) -> ReceiptPage {
        let (limit, now) = (query.limit.clamp(1, MAX_RECEIPT_PAGE), self.clock.now());
        let mut page = ReceiptPage::default();
        let mut below = match &query.after {
            None => u64::MAX,
            // What is kept no longer was among the oldest: nothing comes after it.
            Some(id) => match self.lock().by_id.get(&id.number()) {
                Some(number) => *number,
                None => return page,
            },
        };
        let mut left = MAX_SCAN;
        loop {
            let chunk = self.chunk(below, now);
            if chunk.receipts.is_empty() {
                return page;
            }
            below = chunk.end;
            for receipt in &chunk.receipts {
                left -= 1;
                below -= 1;
                if query.matches(receipt) {
                    page.receipts.push(Receipt::clone(receipt));
                }
                if page.receipts.len() == limit || left == 0 {
                    page.next = (below > chunk.oldest).then(|| receipt.id.clone());
                    return page;
                }
            }
        }
    }

    /// Lets what is over leave, a few at a time.
    pub(super) fn sweep(&self) {
        let now = self.clock.now();
        loop {
            let gone: Vec<Entry> = {
                let mut kept = self.lock();
                std::iter::from_fn(|| kept.pop_if(|oldest| oldest.until <= now))
                    .take(CHUNK)
                    .collect()
            };
            if gone.len() < CHUNK {
                return;
            }
        }
    }

    fn keep(&self, claim: ClaimOf, receipt: Arc<Receipt>, again: bool, now: Millis) {
        let until = now.plus(self.retention);
        let entry = Entry { receipt, claim, again, until };
        let mut gone = Gone::new();
        let mut kept = self.lock();
        let full = kept.entries.len() >= self.entries;
        gone.extend(kept.pop_if(|_| full));
        let expired = || kept.pop_if(|oldest| oldest.until <= now);
        gone.extend(std::iter::from_fn(expired).take(LEAVING - 1));
        kept.push(entry);
        drop(kept);
        drop(gone);
    }

    /// Up to [`CHUNK`] receipts below a number, the newest first.
    fn chunk(&self, below: u64, now: Millis) -> Chunk {
        let kept = self.lock();
        let end = kept.place(below).min(kept.entries.len());
        let entries = kept.entries.range(end.saturating_sub(CHUNK)..end).rev();
        let shown = entries.take_while(|entry| now < entry.until);
        let receipts = shown.map(|entry| Arc::clone(&entry.receipt)).collect();
        Chunk { receipts, end: kept.first + end as u64, oldest: kept.first }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn at(&self, number: u64) -> Option<&Entry> {
        self.entries.get(self.place(number))
    }

    /// The place of a number; one that is too large for a queue is beyond its end.
    fn place(&self, number: u64) -> usize {
        usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX)
    }

    fn of_claim(&mut self, claim: ClaimOf) -> Option<&mut Entry> {
        let place = self.place(*self.by_claim.get(&claim)?);
        self.entries.get_mut(place)
    }

    fn push(&mut self, entry: Entry) {
        let number = self.first + self.entries.len() as u64;
        self.by_id.insert(entry.receipt.id.number(), number);
        self.by_claim.insert(entry.claim, number);
        self.entries.push_back(entry);
    }

    /// Takes the oldest out if it `leaves`.
    fn pop_if(&mut self, leaves: impl FnOnce(&Entry) -> bool) -> Option<Entry> {
        self.entries.front().filter(|oldest| leaves(oldest))?;
        let (entry, number) = (self.entries.pop_front()?, self.first);
        self.first += 1;
        self.by_id.remove(&entry.receipt.id.number());
        if self.by_claim.get(&entry.claim) == Some(&number) {
            self.by_claim.remove(&entry.claim);
        }
        Some(entry)
    }

    /// The receipt of a claim becomes that of the claim that took its place. Says the number of the
    /// attempt that is reserved with it.
    fn take_over(
        &mut self,
        before: ClaimOf,
        claim: ClaimOf,
        reserved_at: Timestamp,
        now: Millis,
    ) -> Option<u32> {
        let number = self.by_claim.remove(&before)?;
        let place = self.place(number);
        let entry = self.entries.get_mut(place).filter(|entry| now < entry.until)?;
        self.by_claim.insert(claim, number);
        (entry.claim, entry.again) = (claim, true);
        let receipt = Arc::make_mut(&mut entry.receipt);
        (receipt.outcome, receipt.settled_at) = (ReceiptOutcome::InFlight, None);
        let attempt = receipt.attempt_count.saturating_add(1);
        add_attempt(receipt, attempt, reserved_at);
        Some(attempt)
    }
}

fn tell_ends(receipt: &mut Receipt, notes: &Notes) {
    for (number, end) in &notes.ended {
        let ended = receipt.attempts.iter_mut().rfind(|attempt| attempt.number == *number);
        if let Some(attempt) = ended {
            attempt.end = Some(*end);
        }
    }
}

fn add_attempt(receipt: &mut Receipt, number: u32, reserved_at: Timestamp) {
    if receipt.attempts.len() >= MAX_LISTED_ATTEMPTS {
        receipt.attempts.remove(0);
    }
    receipt.attempts.push(Attempt { number, reserved_at, end: None });
    receipt.attempt_count = receipt.attempt_count.saturating_add(1);
}

/// The attempt was reserved, and no connection was tried.
fn take_back(receipt: &mut Receipt, number: u32) {
    if receipt.attempts.last().is_some_and(|last| last.number == number) {
        receipt.attempts.pop();
        receipt.attempt_count = receipt.attempt_count.saturating_sub(1);
    }
}

fn millis(length: Duration) -> Millis {
    Millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}
