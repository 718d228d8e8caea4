//! What must hold in every state, and in those between steps and at the end.

use onceward::claim::invariant::{
    RecordView, StateView, p2_within_caps, p3_counters_match, p5_every_begin_answered,
};
use onceward::claim::protocol::{CallId, ShardId, ToShard};
use onceward::claim::{Millis, SlotKey};

use crate::Store;
use crate::judge::views;
use crate::naive::{Answer, State as In};
use crate::setting::Setting;
use crate::state::{Progress, State};

impl State {
    /// Looks at a state that was just reached.
    pub fn look(&mut self, store: &Store) {
        let counts = self.memory.counts;
        let limits = &store.setting.limits;
        if counts.records > limits.entries || counts.in_flight > limits.in_flight {
            self.note("P2", format!("{counts:?} is above the caps"));
        }
        let standing: Vec<_> = self.model.iter().filter(|r| r.stands(self.now)).cloned().collect();
        if let Err(violation) = p2_within_caps(&views(store, &standing), limits) {
            self.note(violation.property, violation.detail);
        }
        if self.is_between_steps() {
            self.look_between_steps(store);
        }
    }

    fn look_between_steps(&mut self, store: &Store) {
        let records = self.records();
        let lost = |in_flight: bool| {
            let is =
                |state| matches!(state, In::Lost { in_flight: flying } if flying || !in_flight);
            self.model.iter().filter(|record| is(record.state)).count() as u32
        };
        let mut counts = self.memory.counts;
        counts.records = counts.records.wrapping_sub(lost(false));
        counts.in_flight = counts.in_flight.wrapping_sub(lost(true));
        let groups: Vec<_> = self.living().flat_map(|sealed| sealed.groups.clone()).collect();
        let granted = self.granted(&store.setting).count() as u32;
        let found = p2_within_caps(&records, &store.setting.limits)
            .and_then(|()| p3_counters_match(&records, &groups, counts, granted));
        if let Err(violation) = found {
            self.note(violation.property, violation.detail);
        }
        self.look_at_agreement(store, &records);
        self.look_at_publications();
    }

    fn living(&self) -> impl Iterator<Item = &crate::seat::Sealed<onceward::claim::shard::Shard>> {
        self.shards.iter().filter_map(|seat| seat.machine.as_deref())
    }

    fn records(&self) -> Vec<RecordView> {
        self.living().flat_map(|sealed| sealed.records.clone()).collect()
    }

    /// The slots of begins that hold a permit which their shard has not heard of.
    fn granted(&self, setting: &Setting) -> impl Iterator<Item = SlotKey> {
        let in_model = |client: usize| {
            let mut records = self.model.iter();
            records.any(|r| r.claim == client as u64 && r.state == In::InFlight)
        };
        let clients = self.clients.iter().enumerate();
        clients
            .filter(move |(client, entry)| match entry.progress {
                Progress::Committed(Answer::First { .. }) | Progress::Lost => in_model(*client),
                _ => false,
            })
            .map(|(client, _)| setting.begin(client).slot)
    }

    /// The shards hold what the model holds, and the index holds what is completed.
    fn look_at_agreement(&mut self, store: &Store, records: &[RecordView]) {
        let standing = records.iter().filter(|record| record.stands(Millis(self.now)));
        let mut found: Vec<_> = standing.map(|record| record.slot).collect();
        found.extend(self.granted(&store.setting));
        let held = self.model.iter().filter(|record| record.stands(self.now));
        let held = held.filter(|record| !matches!(record.state, In::Lost { .. }));
        let mut expected: Vec<_> = held.map(|record| record.begin.slot).collect();
        found.sort_unstable();
        expected.sort_unstable();
        if found != expected {
            self.note("model", format!("the shards hold {found:?}, the model {expected:?}"));
        }
        let completed = |record: &&RecordView| matches!(record.state, StateView::Completed { .. });
        let mut shown: Vec<_> =
            records.iter().filter(completed).map(|record| record.slot).collect();
        shown.sort_unstable();
        let of_the_dead = |slot: &SlotKey| {
            (0..self.clients.len()).any(|client| {
                let dead = !self.is_alive(store.setting.shard_of(client).0);
                dead && store.setting.begin(client).slot == *slot
            })
        };
        let index: Vec<_> =
            self.memory.index.keys().copied().filter(|slot| !of_the_dead(slot)).collect();
        if index != shown {
            self.note("index", format!("{index:?} is shown, {shown:?} is completed"));
        }
    }

    /// Between steps a shard publishes exactly what it holds, and a dead one nothing.
    fn look_at_publications(&mut self) {
        for shard in 0..self.shards.len() {
            let records = self.shards[shard].machine.as_ref().map_or(&[][..], |s| &s.records[..]);
            let oldest = records.iter().filter_map(|record| match record.state {
                StateView::Completed { seq, .. } => Some(seq),
                _ => None,
            });
            let expiry = records.iter().filter_map(|record| match record.state {
                StateView::Completed { expires, .. } | StateView::Tombstone { expires, .. } => {
                    Some(expires)
                }
                StateView::InFlight { .. } => None,
            });
            let expected = (oldest.min(), expiry.min().unwrap_or(Millis::NEVER));
            let published = self.memory.published[shard];
            if (published.oldest, published.next_expiry) != expected {
                self.note("published", format!("{published:?} instead of {expected:?}"));
            }
        }
    }

    /// Whether every client has begun and was answered, or was told that it cannot be.
    pub fn is_answered(&self, setting: &Setting) -> bool {
        (0..self.clients.len()).all(|client| self.is_over(setting, client))
    }

    /// What is left undone in a state from which nothing leads on.
    pub fn unfinished(&self, store: &Store) -> Option<String> {
        let calls = || (0..self.clients.len()).map(|client| CallId(client as u64));
        let over = |call: &CallId| self.is_over(&store.setting, call.0 as usize);
        let asked: Vec<_> = calls().collect();
        let answered: Vec<_> = calls().filter(over).collect();
        if let Err(violation) = p5_every_begin_answered(&asked, &answered) {
            return Some(violation.to_string());
        }
        if self.living().any(|sealed| !sealed.machine.is_idle()) {
            return Some("a shard waits for something".into());
        }
        if self.coordinator.machine.as_ref().is_some_and(|sealed| !sealed.machine.is_idle()) {
            return Some("the coordinator waits for something".into());
        }
        self.left_over(store)
    }

    /// What is still counted once everything has expired and was swept, but for what is lost.
    fn left_over(&self, store: &Store) -> Option<String> {
        let mut end = self.clone();
        end.now += 100;
        for shard in 0..end.shards.len() {
            if end.is_alive(shard) {
                end.sweep_to_the_end(store, shard);
            }
        }
        let lost = end.model.iter().filter(|r| matches!(r.state, In::Lost { .. })).count();
        let counts = end.memory.counts;
        if counts.records as usize != lost || counts.completed != 0 {
            return Some(format!("{counts:?} where {lost} are lost"));
        }
        end.wrong.map(|(property, detail)| format!("{property}: {detail}"))
    }

    fn sweep_to_the_end(&mut self, store: &Store, shard: usize) {
        let own = self.memory.published[shard];
        let seat = &mut self.shards[shard];
        seat.begin_step(ToShard::Tick, Millis(self.now), own);
        let nobody = Default::default();
        let id = Some(ShardId(shard));
        let part = seat.go_on(id, &mut self.memory, &nobody, usize::MAX);
        seat.step = None;
        seat.machine = Some(crate::seat::Seal::seal(part.machine));
        self.look(store);
    }
}
