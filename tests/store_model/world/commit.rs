//! The sequential model beside the machines: each decision is made in it too, at its commit point.

use super::*;

impl World {
    /// Decides a begin in the model too, at this very instant. What the step did besides is
    /// compared once it is over.
    pub(super) fn commit_now(&mut self, call: CallId, outcome: &Outcome) -> Answer {
        let begin = self.calls[&call].begin;
        let answer = self.naive.begin(&mut self.model, self.now, &begin, call.0);
        assert!(agrees(outcome, answer), "{outcome:?} for {begin:?} instead of {answer:?}");
        self.committed(call, answer)
    }

    /// Decides a begin in the model too, on which another shard has acted. Its clock may be any
    /// instant since it was asked: what expired while it was being decided may still have counted.
    pub(super) fn commit_since_asked(&mut self, call: CallId, outcome: &Outcome) -> Answer {
        let Call { begin, asked_at, .. } = self.calls[&call];
        let mut tried = Vec::new();
        for instant in (asked_at..=self.now).rev() {
            let mut model = self.model.clone();
            let answer = self.naive.begin(&mut model, instant, &begin, call.0);
            if agrees(outcome, answer) && self.would_match(&model, call) {
                self.model = model;
                return self.committed(call, answer);
            }
            tried.push(answer);
        }
        panic!("{outcome:?} for {begin:?} at {asked_at}..={}, not {tried:?}", self.now);
    }

    pub(super) fn committed(&mut self, call: CallId, answer: Answer) -> Answer {
        let entry = self.calls.get_mut(&call).expect("it was asked");
        if entry.progress == Progress::Asked {
            entry.progress = Progress::Committed(answer);
        }
        answer
    }

    /// Whether the shards hold what a model holds, the slot of `call` apart.
    pub(super) fn would_match(&self, model: &[Record], call: CallId) -> bool {
        let slot = self.calls[&call].begin.slot;
        self.differs(model, Some(slot)).is_none()
    }

    /// The slots that stand in the shards and those that stand in a model, if they are not the
    /// same.
    fn differs(
        &self,
        model: &[Record],
        but: Option<SlotKey>,
    ) -> Option<(Vec<SlotKey>, Vec<SlotKey>)> {
        let standing = self.standing().into_iter().map(|record| record.slot);
        let mut found: Vec<_> =
            standing.chain(self.granted()).filter(|slot| Some(*slot) != but).collect();
        let mut expected: Vec<_> = model
            .iter()
            .filter(|r| r.stands(self.now) && !matches!(r.state, State::Lost { .. }))
            .map(|record| record.begin.slot)
            .filter(|slot| Some(*slot) != but)
            .collect();
        found.sort_unstable();
        expected.sort_unstable();
        (found != expected).then_some((found, expected))
    }

    pub(super) fn records(&self) -> Vec<RecordView> {
        self.shards.iter().flatten().flat_map(Shard::records).collect()
    }

    fn standing(&self) -> Vec<RecordView> {
        self.records().into_iter().filter(|record| record.stands(Millis(self.now))).collect()
    }

    /// The slots of begins that hold a permit which their shard has not heard of.
    pub(super) fn granted(&self) -> impl Iterator<Item = SlotKey> {
        let in_model = |call: &CallId| {
            self.model.iter().any(|r| r.claim == call.0 && r.state == State::InFlight)
        };
        self.calls
            .iter()
            .filter(move |(call, entry)| match entry.progress {
                Progress::Committed(Answer::First { .. }) | Progress::Lost => in_model(call),
                _ => false,
            })
            .map(|(_, entry)| entry.begin.slot)
    }

    /// What must hold between any two deliveries.
    pub fn check(&self) {
        let records = self.records();
        p2_within_caps(&records, &self.naive.limits).unwrap();
        same_index(&self.ledger, &records, self.left_in_index);
        let mut expected = recount_store(&records);
        let granted = self.granted().count() as u32;
        let lost = |in_flight: bool| {
            let is = |r: &&Record| match r.state {
                State::Lost { in_flight: flying } => flying || !in_flight,
                _ => false,
            };
            self.model.iter().filter(is).count() as u32
        };
        expected.records += granted + lost(false);
        expected.in_flight += granted + lost(true);
        let counts = self.ledger.counts();
        assert_eq!(counts, expected, "the counts and a recount");
        assert_eq!(self.differs(&self.model, None), None, "shards on the left, model on the right");
        assert!(counts.records <= self.naive.limits.entries, "P2: {counts:?}");
        assert!(counts.in_flight <= self.naive.limits.in_flight, "P2: {counts:?}");
    }
}
