//! The circuit and the places in flight of one server, shared by all workers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::claim::Millis;

/// When a circuit opens, and how much may be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitSettings {
    /// Consecutive failures that open the circuit; 0 counts as 1.
    pub failures: u32,
    /// How long it stays open before one probe may pass.
    pub open_for: Millis,
    /// Exchanges with the server at the same time, in all workers together.
    pub max_in_flight: usize,
}

/// Why an exchange may not start. Nothing was sent: both release a claim and are answered with 503
/// and `Retry-After` (CONTRACT section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The server failed too often lately: `upstream_circuit_open`.
    #[error("the upstream failed repeatedly; retry after {retry_after_s} s")]
    CircuitOpen {
        /// Whole seconds until a probe may pass, at least 1.
        retry_after_s: u64,
    },
    /// Every place in flight is taken: `upstream_busy`.
    #[error("too many calls are in flight to the upstream; retry later")]
    Busy,
}

/// A circuit breaker with a bounded number of places in flight.
///
/// Closed, it counts consecutive failures; when they reach the limit it opens, refuses everything
/// for a while, then lets exactly one probe pass, whose verdict closes or opens it again.
///
/// One mutex guards the state: it is held for a few instructions, never across an await, and the
/// places, the count and the phase must change together, which separate atomics could not promise.
#[derive(Debug)]
pub struct Circuit {
    settings: CircuitSettings,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    in_flight: usize,
    phase: Phase,
    /// Grows with every change of phase; a verdict of an exchange admitted before counts no more.
    epoch: u64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed { failures: u32 },
    Open { until: Millis },
    HalfOpen { probing: bool },
}

impl Circuit {
    /// A closed circuit.
    pub fn new(settings: CircuitSettings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            state: Mutex::new(State {
                in_flight: 0,
                phase: Phase::Closed { failures: 0 },
                epoch: 0,
            }),
        })
    }

    /// Takes a place for one exchange.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; then nothing was taken. An open circuit is told before a full house.
    pub fn admit(self: &Arc<Self>, now: Millis) -> Result<Permit, Refusal> {
        let mut state = self.lock();
        let probe = match state.phase {
            Phase::Closed { .. } => false,
            Phase::Open { until } if now < until => {
                let retry_after_s = (until.0 - now.0).div_ceil(1000);
                return Err(Refusal::CircuitOpen { retry_after_s });
            }
            Phase::HalfOpen { probing: true } => {
                return Err(Refusal::CircuitOpen { retry_after_s: 1 });
            }
            Phase::Open { .. } | Phase::HalfOpen { probing: false } => true,
        };
        if state.in_flight >= self.settings.max_in_flight {
            return Err(Refusal::Busy);
        }
        state.in_flight += 1;
        if probe {
            state.enter(Phase::HalfOpen { probing: true });
        }
        Ok(Permit { circuit: Arc::clone(self), epoch: state.epoch, probe, verdict: false })
    }

    /// The state at `now`, by the field's name for it.
    pub fn phase(&self, now: Millis) -> &'static str {
        match self.lock().phase {
            Phase::Closed { .. } => "closed",
            Phase::Open { until } if now < until => "open",
            Phase::Open { .. } | Phase::HalfOpen { .. } => "half_open",
        }
    }

    /// Exchanges in flight.
    pub fn in_flight(&self) -> usize {
        self.lock().in_flight
    }

    /// Nothing panics while the lock is held, so a poisoned state is whole all the same.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn succeeded(&self, permit: &Permit) {
        let mut state = self.lock();
        if permit.epoch != state.epoch {
            return;
        }
        match state.phase {
            Phase::Closed { .. } => state.phase = Phase::Closed { failures: 0 },
            Phase::Open { .. } => {}
            Phase::HalfOpen { .. } => state.enter(Phase::Closed { failures: 0 }),
        }
    }

    fn failed(&self, permit: &Permit, now: Millis) {
        let mut state = self.lock();
        if permit.epoch != state.epoch {
            return;
        }
        let open = Phase::Open { until: now.plus(self.settings.open_for) };
        match state.phase {
            Phase::Closed { failures } if failures + 1 < self.settings.failures => {
                state.phase = Phase::Closed { failures: failures + 1 };
            }
            Phase::Closed { .. } | Phase::HalfOpen { .. } => state.enter(open),
            Phase::Open { .. } => {}
        }
    }

    fn left(&self, permit: &Permit) {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        if permit.probe && !permit.verdict && permit.epoch == state.epoch {
            state.phase = Phase::HalfOpen { probing: false };
        }
    }
}

impl State {
    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.epoch += 1;
    }
}

/// A place in flight, freed when dropped.
///
/// The first verdict counts and later ones are ignored, so that it can be given when the head of a
/// reply is there while the place is kept to the end of the body. Without a verdict (the caller
/// left) the exchange counts as neither, and the next one may be the probe.
#[derive(Debug)]
#[must_use = "dropping the permit frees the place"]
pub struct Permit {
    circuit: Arc<Circuit>,
    epoch: u64,
    probe: bool,
    verdict: bool,
}

impl Permit {
    /// The server answered, with a status below 500.
    pub fn success(&mut self) {
        if !std::mem::replace(&mut self.verdict, true) {
            self.circuit.succeeded(self);
        }
    }

    /// The server could not be reached, broke off, took too long or answered with a 5xx.
    pub fn failure(&mut self, now: Millis) {
        if !std::mem::replace(&mut self.verdict, true) {
            self.circuit.failed(self, now);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.circuit.left(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: CircuitSettings =
        CircuitSettings { failures: 3, open_for: Millis(30_000), max_in_flight: 2 };

    fn fail(circuit: &Arc<Circuit>, now: Millis) {
        circuit.admit(now).expect("admitted").failure(now);
    }

    fn succeed(circuit: &Arc<Circuit>, now: Millis) {
        circuit.admit(now).expect("admitted").success();
    }

    fn open_at(now: Millis) -> Arc<Circuit> {
        let circuit = Circuit::new(SETTINGS);
        (0..3).for_each(|_| fail(&circuit, now));
        circuit
    }

    #[test]
    fn consecutive_failures_open_it_and_a_success_between_starts_over() {
        let circuit = Circuit::new(SETTINGS);
        fail(&circuit, Millis(0));
        fail(&circuit, Millis(1));
        succeed(&circuit, Millis(2));
        fail(&circuit, Millis(3));
        fail(&circuit, Millis(4));
        fail(&circuit, Millis(5));
        assert_eq!(
            circuit.admit(Millis(5)).err(),
            Some(Refusal::CircuitOpen { retry_after_s: 30 })
        );
    }

    #[test]
    fn retry_after_is_rounded_up_and_never_zero() {
        let circuit = open_at(Millis(0));
        for (now, seconds) in [(0, 30), (1, 30), (29_000, 1), (29_001, 1), (29_999, 1)] {
            assert_eq!(
                circuit.admit(Millis(now)).err(),
                Some(Refusal::CircuitOpen { retry_after_s: seconds }),
                "at {now}"
            );
        }
        assert!(circuit.admit(Millis(30_000)).is_ok());
    }

    #[test]
    fn exactly_one_probe_passes_and_its_success_closes() {
        let circuit = open_at(Millis(0));
        let mut probe = circuit.admit(Millis(30_000)).expect("the probe");
        assert_eq!(
            circuit.admit(Millis(30_000)).err(),
            Some(Refusal::CircuitOpen { retry_after_s: 1 })
        );
        probe.success();
        assert!(circuit.admit(Millis(30_000)).is_ok());
    }

    #[test]
    fn a_failed_probe_opens_for_the_whole_time_again() {
        let circuit = open_at(Millis(0));
        fail(&circuit, Millis(40_000));
        assert_eq!(
            circuit.admit(Millis(69_999)).err(),
            Some(Refusal::CircuitOpen { retry_after_s: 1 })
        );
        assert!(circuit.admit(Millis(70_000)).is_ok());
    }

    #[test]
    fn a_probe_without_verdict_leaves_the_probe_to_the_next() {
        let circuit = open_at(Millis(0));
        drop(circuit.admit(Millis(30_000)).expect("the probe"));
        let second = circuit.admit(Millis(30_000)).expect("another probe");
        assert!(circuit.admit(Millis(30_000)).is_err());
        drop(second);
        succeed(&circuit, Millis(30_000));
        fail(&circuit, Millis(30_000));
        assert!(circuit.admit(Millis(30_000)).is_ok(), "closed: one failure is below the limit");
    }

    #[test]
    fn verdicts_of_an_earlier_phase_count_no_more() {
        let circuit = Circuit::new(CircuitSettings { max_in_flight: 9, ..SETTINGS });
        let mut old = circuit.admit(Millis(0)).expect("admitted");
        let mut older = circuit.admit(Millis(0)).expect("admitted");
        (0..3).for_each(|_| fail(&circuit, Millis(0)));
        let mut probe = circuit.admit(Millis(30_000)).expect("the probe");
        old.success();
        assert!(circuit.admit(Millis(30_000)).is_err(), "only the probe may close it");
        older.failure(Millis(30_000));
        probe.success();
        assert!(circuit.admit(Millis(30_000)).is_ok(), "only the probe may open it again");
    }

    #[test]
    fn places_are_bounded_and_freed_by_dropping() {
        let circuit = Circuit::new(SETTINGS);
        let first = circuit.admit(Millis(0)).expect("admitted");
        let mut second = circuit.admit(Millis(0)).expect("admitted");
        assert_eq!(circuit.admit(Millis(0)).err(), Some(Refusal::Busy));
        second.success();
        assert_eq!(circuit.in_flight(), 2, "a verdict does not free the place");
        drop(second);
        assert_eq!(circuit.in_flight(), 1);
        drop(first);
        assert_eq!(circuit.in_flight(), 0);
    }

    #[test]
    fn a_full_house_does_not_use_up_the_probe() {
        let circuit = Circuit::new(CircuitSettings { failures: 1, max_in_flight: 1, ..SETTINGS });
        let mut slow = circuit.admit(Millis(0)).expect("admitted");
        slow.failure(Millis(0));
        assert_eq!(circuit.admit(Millis(30_000)).err(), Some(Refusal::Busy));
        drop(slow);
        let _probe = circuit.admit(Millis(30_000)).expect("the probe");
    }

    #[test]
    fn only_the_first_verdict_counts() {
        let circuit = Circuit::new(CircuitSettings { failures: 1, ..SETTINGS });
        let mut permit = circuit.admit(Millis(0)).expect("admitted");
        permit.success();
        permit.failure(Millis(0));
        assert!(circuit.admit(Millis(0)).is_ok());
    }

    #[test]
    fn workers_share_one_count() {
        let circuit = Circuit::new(CircuitSettings { max_in_flight: 4, ..SETTINGS });
        let most = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        if let Ok(mut permit) = circuit.admit(Millis(0)) {
                            most.fetch_max(
                                circuit.in_flight(),
                                std::sync::atomic::Ordering::Relaxed,
                            );
                            permit.success();
                        }
                    }
                });
            }
        });
        assert!(most.into_inner() <= 4);
        assert_eq!(circuit.in_flight(), 0);
    }
}
