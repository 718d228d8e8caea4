//! The running memory store: what a begin with its completion costs when it travels through the
//! actors, and what a begin costs where a record answers it.
//!
//! The ids are `store/case/records/threads/in flight`; the in flight are divided among the threads.

#[path = "support/clients.rs"]
mod clients;
#[path = "support/running.rs"]
mod running;
mod support;

use criterion::{Criterion, criterion_group, criterion_main};
use tokio::runtime::{Builder, Runtime};

use clients::Clients;
use running::Running;
use support::{Leaving, SIZES, conflicting};

/// Threads of clients, and begins that they keep in flight together.
const LOADS: [(u64, u64); 3] = [(1, 1), (1, 32), (2, 32)];

fn begin_and_complete(c: &mut Criterion, runtime: &Runtime, leaving: Leaving, records: u64) {
    let mut running = None;
    let mut next = records;
    for (threads, in_flight) in LOADS {
        let mut clients = Clients::new(threads, in_flight, next);
        let id = format!("store/{}/{records}/{threads}t/{in_flight}f", leaving.name());
        support::measure(c, &id, |b| {
            b.iter_custom(|iterations| {
                let running = Running::in_place(&mut running, leaving, records).clone();
                clients.run(iterations, move |k| {
                    let running = running.clone();
                    async move { running.begin_and_complete(k).await }
                })
            });
        });
        next = clients.next();
    }
    Running::stop(running, runtime);
}

fn standing(c: &mut Criterion, runtime: &Runtime, records: u64) {
    let mut running = None;
    for (threads, in_flight) in LOADS {
        let mut clients = Clients::new(threads, in_flight, 0);
        let mut measure = |case: &str, change: fn(onceward::claim::Begin) -> _| {
            let id = format!("store/{case}/{records}/{threads}t/{in_flight}f");
            support::measure(c, &id, |b| {
                b.iter_custom(|iterations| {
                    let leaving = Leaving::Local;
                    let running = Running::in_place(&mut running, leaving, records).clone();
                    clients.run(iterations, move |k| {
                        let running = running.clone();
                        async move { running.begin_on_standing(k, change).await }
                    })
                });
            });
        };
        measure("replay", |begin| begin);
        measure("conflict", conflicting);
    }
    Running::stop(running, runtime);
}

fn all(c: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    for records in SIZES {
        for leaving in Leaving::ALL {
            begin_and_complete(c, &runtime, leaving, records);
        }
        standing(c, &runtime, records);
    }
}

criterion_group! { name = benches; config = support::criterion(); targets = all }
criterion_main!(benches);
