//! Clients of a store that answers with futures: threads, each with a runtime of its own and as
//! many tasks as it keeps begins in flight.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::support::{SHORTEST_RUN, together};

/// Threads with their tasks, and the number of the next begin.
pub struct Clients {
    runtimes: Vec<Runtime>,
    in_flight: u64,
    next: Arc<AtomicU64>,
}

impl Clients {
    /// Clients whose begins are numbered from `next`.
    pub fn new(threads: u64, in_flight: u64, next: u64) -> Self {
        let runtime = |_| Builder::new_current_thread().enable_all().build().expect("a runtime");
        let runtimes = (0..threads).map(runtime).collect();
        Self { runtimes, in_flight: in_flight / threads, next: Arc::new(AtomicU64::new(next)) }
    }

    /// The number of the next begin.
    pub fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Runs `iterations` calls, each with its number, and says how long they took.
    pub fn run<C, F>(&mut self, iterations: u64, call: C) -> Duration
    where
        C: Fn(u64) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send,
    {
        let in_flight = self.in_flight.max(1);
        let tasks = self.runtimes.len() as u64 * in_flight;
        let each = iterations.max(SHORTEST_RUN).div_ceil(tasks);
        let next = &self.next;
        let elapsed = together(&mut self.runtimes, |runtime| {
            let task = || {
                let (next, call) = (Arc::clone(next), call.clone());
                async move {
                    for _ in 0..each {
                        call(next.fetch_add(1, Ordering::Relaxed)).await;
                    }
                }
            };
            runtime.block_on(async {
                let tasks: Vec<_> = (0..in_flight).map(|_| tokio::spawn(task())).collect();
                for task in tasks {
                    task.await.expect("a client");
                }
            });
        });
        // The last round may be more than was asked for.
        elapsed.mul_f64(iterations as f64 / (each * tasks) as f64)
    }
}
