//! What happens to the store from outside: clients begin, settle and read, and shards die.

use super::*;

impl World {
    /// A client begins.
    pub fn ask(&mut self) {
        let slot = self.random.below(u64::from(SLOTS)) as u8;
        let begin = self.any_begin(slot);
        let shard = self.shard_of(slot);
        if self.shards[shard].is_none() {
            return;
        }
        let call = self.call_id();
        let asked_at = self.now;
        self.calls.insert(call, Call { begin, shard, asked_at, progress: Progress::Asked });
        self.clients[shard].push(ToShard::Begin { call, begin });
    }

    fn any_begin(&mut self, slot: u8) -> Begin {
        let dispatch = DISPATCHES[self.random.below(DISPATCHES.len() as u64) as usize];
        Begin { dispatch, ..begin_on(slot, u8::from(self.random.below(4) == 0)) }
    }

    /// A client settles one of the tickets ever given out, now and then an old one.
    pub fn settle_one(&mut self) {
        if self.tickets.is_empty() {
            return;
        }
        let ticket = match self.tickets.iter().position(|ticket| !ticket.settled) {
            Some(open) if self.random.below(8) > 0 => open,
            _ => self.random.below(self.tickets.len() as u64) as usize,
        };
        let end = match self.random.below(8) {
            0..=2 => End::Unknown,
            3 => End::NotReplayable,
            4 => End::Release,
            _ => End::Complete,
        };
        self.settle(ticket, end);
    }

    pub(super) fn settle(&mut self, ticket: usize, end: End) {
        let Ticket { call: claim, begin, fence, shard, .. } = self.tickets[ticket];
        self.tickets[ticket].settled = true;
        if self.shards[shard].is_none() {
            return;
        }
        let call = self.call_id();
        self.settles.insert(call, (ticket, end));
        let settlement = settlement(claim, end);
        self.clients[shard].push(ToShard::Settle { call, slot: begin.slot, fence, settlement });
    }

    /// A client reads the index: a hit is decided there and then.
    pub fn read_index(&mut self) {
        let slot = self.random.below(u64::from(SLOTS)) as u8;
        let begin = self.any_begin(slot);
        let Some(entry) = self.ledger.indexed(begin.slot) else {
            return;
        };
        if self.shards[self.shard_of(slot)].is_none() || entry.expires <= Millis(self.now) {
            return;
        }
        let outcome = entry.answer(&begin);
        let answer = self.naive.begin(&mut self.model.clone(), self.now, &begin, 0);
        assert!(agrees(&outcome, answer), "a hit of {outcome:?} instead of {answer:?}");
    }

    /// A shard dies: its state and its mailbox are gone, what it had sent arrives.
    pub fn kill_one(&mut self) {
        let victim = self.random.below(self.shards.len() as u64) as usize;
        let Some(shard) = self.shards[victim].take() else {
            return;
        };
        self.left_in_index += completed(&shard.records());
        for record in shard.records() {
            let lost = self.model.iter_mut().find(|r| r.begin.slot == record.slot);
            let lost = lost.expect("the model holds what the shard holds");
            lost.state = State::Lost { in_flight: lost.state == State::InFlight };
        }
        self.ledger.abandon(ShardId(victim));
        for message in self.orders[victim].drain(..) {
            if let ToShard::Answer { waiter, verdict: Verdict::Admitted } = message {
                lose(&mut self.model, waiter.call);
            }
        }
        self.clients[victim].clear();
        // The death of a life that nobody lives, or one that is known, changes nothing.
        let other = ShardId((victim + 1) % self.shards.len());
        let (dead, life, no_life) = (ShardId(victim), Incarnation::default(), Incarnation(1));
        for (shard, incarnation) in [(other, no_life), (dead, life), (dead, life)] {
            self.reports[victim].push_back(ToCoordinator::Down { shard, incarnation });
        }
        for call in self.calls.values_mut().filter(|call| call.shard == victim) {
            if call.progress == Progress::Asked {
                call.progress = Progress::Lost;
            }
        }
    }
}
