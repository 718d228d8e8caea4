//! The scenes: each a situation, what the contract promises in it, and how it is played.

use super::client::{Answer, Call};
use super::outcome::Outcome;
use super::stage::{Departure, Stage};

/// The server with the default rules.
pub const DEFAULT_PATH: &str = "/mcp";
/// The same server, governed by a policy that says `streams: record`.
pub const RECORDED_PATH: &str = "/mcp-recorded";
/// The gateway's own tool in front of the payments server's plain API.
pub const VENDOR_PATH: &str = "/mcp-vendor";
/// The calls that one scope may have in flight in the demo's gateway; the last scene fills them.
pub const SCOPE_IN_FLIGHT: u32 = 2;

/// One scene of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scene {
    /// A lost reply, retried without a key.
    WithoutKey,
    /// The same under a key.
    WithKey,
    /// A key used again for another call.
    Conflict,
    /// A duplicate while the first call runs.
    InFlight,
    /// An upstream that dies after it charged.
    UpstreamDies,
    /// A reply that is a stream of events.
    Stream,
    /// More calls at once than the scope may have.
    Capacity,
    /// A vendor that dedupes by key, and goes away after it charged.
    Vendor,
}

impl Scene {
    /// All of them, in the order of the story.
    pub const ALL: [Self; 8] = [
        Self::WithoutKey,
        Self::WithKey,
        Self::Conflict,
        Self::InFlight,
        Self::UpstreamDies,
        Self::Stream,
        Self::Capacity,
        Self::Vendor,
    ];

    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::WithoutKey => "A lost reply, retried without a key",
            Self::WithKey => "The same, with a key",
            Self::Conflict => "One key, two different charges",
            Self::InFlight => "A duplicate while the first still runs",
            Self::UpstreamDies => "The upstream dies after charging",
            Self::Stream => "A reply that is a stream",
            Self::Capacity => "Too many at once",
            Self::Vendor => "A vendor that knows the key",
        }
    }

    /// The situation, in a sentence or two.
    pub fn premise(self) -> &'static str {
        match self {
            Self::WithoutKey => {
                "The ordinary world: the client gives up waiting, cannot know whether it was charged, \
                 and tries again."
            }
            Self::WithKey => {
                "The client names the call with an Idempotency-Key, gives up waiting, and sends the \
                 same request under the same key."
            }
            Self::Conflict => "A bug, or a reused key: the second call is not the first one.",
            Self::InFlight => {
                "An impatient client sends the call again before the first one is done."
            }
            Self::UpstreamDies => {
                "Nobody can know from outside whether it charged. The gateway says so, and never \
                 tries for the client."
            }
            Self::Stream => {
                "Events pass as they come. A server keeps the stream for a replay only where its \
                 policy says `streams: record`."
            }
            Self::Capacity => {
                "This gateway lets one client have two keyed calls in flight. A third waits its turn; \
                 a replay needs no room."
            }
            Self::Vendor => {
                "The tool's effect spec says that this vendor charges once for each key, and \
                 `on_unknown: redispatch`: a lost outcome is asked for again, under the same vendor key."
            }
        }
    }

    /// What is promised, in a few words.
    pub fn promise(self) -> &'static str {
        match self {
            Self::WithoutKey => "charged twice: without a key nothing changes",
            Self::WithKey => "charged once, the retry gets the first reply",
            Self::Conflict => "409, the second call charges nothing",
            Self::InFlight => "409 while it runs, then the first reply",
            Self::UpstreamDies => "unknown, said plainly, never charged again",
            Self::Stream => "streamed live; retried, never charged again",
            Self::Capacity => "429 when full, nothing charged; replays go on",
            Self::Vendor => "charged once, the outcome found out by the retry",
        }
    }

    /// How many charges it makes, where every promise is kept.
    pub fn charges(self) -> usize {
        match self {
            Self::WithKey | Self::Conflict | Self::InFlight | Self::UpstreamDies | Self::Vendor => {
                1
            }
            Self::WithoutKey | Self::Stream => 2,
            Self::Capacity => 4,
        }
    }

    /// Plays it. The stage has shown everything up to where it departs from the promise.
    ///
    /// # Errors
    ///
    /// The first [`Departure`] from what is promised.
    pub async fn play(self, stage: &mut Stage<'_, '_>) -> Result<(), Departure> {
        match self {
            Self::WithoutKey => without_key(stage).await,
            Self::WithKey => with_key(stage).await,
            Self::Conflict => conflict(stage).await,
            Self::InFlight => in_flight(stage).await,
            Self::UpstreamDies => upstream_dies(stage).await,
            Self::Stream => stream(stage).await,
            Self::Capacity => capacity(stage).await,
            Self::Vendor => vendor(stage).await,
        }
    }
}

async fn without_key(stage: &mut Stage<'_, '_>) -> Result<(), Departure> {
    let call = stage.charge(DEFAULT_PATH, "ada");
    let held = stage.payments.hold_next();
    let pending = stage.start(&call, "no key");
    stage.charged(1).await?;
    stage.hang_up(pending, "gives up before the reply comes");
    drop(held);
    let retry = stage.send(&call, "the same request, no key").await?;
    stage.show_charge(2);
    stage.expect(&retry, Outcome::Executed)
}

async fn with_key(stage: &mut Stage<'_, '_>) -> Result<(), Departure> {
    let call = stage.charge(DEFAULT_PATH, "ben").keyed("order-1002");
    let held = stage.payments.hold_next();
    let pending = stage.start(&call, "Idempotency-Key: order-1002");
    stage.charged(1).await?;
    stage.hang_up(pending, "gives up before the reply comes");
    drop(held);
    stage.note("the gateway stays on the line, and keeps the reply that nobody waits for");
    let retry = stage.send_until_settled(&call, "the same request, the same key").await?;
    stage.expect(&retry, Outcome::Replayed)
}

async fn conflict(stage: &mut Stage<'_, '_>) -> Result<(), Departure> {
    let call = stage.charge(DEFAULT_PATH, "cleo").keyed("order-1003");
    let first = stage.send(&call, "Idempotency-Key: order-1003").await?;
    stage.charged(1).await?;
    stage.expect(&first, Outcome::Executed)?;
    let other = call.with("amount", 9900);
    let answer = stage.send(&other, "another amount, the same key").await?;
    stage.expect(&answer, Outcome::CONFLICT)
}

async fn in_flight(stage: &mut Stage<'_, '_>) -> Result<(), Departure> {
    let call = stage.charge(DEFAULT_PATH, "dan").keyed("order-1004");
    let held = stage.payments.hold_next();
    let pending = stage.start(&call, "Idempotency-Key: order-1004");
    stage.charged(1).await?;
    let duplicate = stage.send(&call, "again, while the first is running").await?;
    stage.expect(&duplicate, Outcome::IN_FLIGHT)?;
    drop(held);
    let first = stage.answer(pending).await?;
    stage.expect(&first, Outcome::Executed)?;
    let retry = stage.send(&call, "once more, now that it is done").await?;
    stage.expect(&retry, Outcome::Replayed)?;
    same_reply(&first, &retry)
}

async fn upstream_dies(stage: &mut Stage<'_, '_>) -> Result<(), Departure> {
    let call = stage.charge(DEFAULT_PATH, "eve").keyed("order-1005").with("simulate", "crash");
    let first = stage.send(&call, "Idempotency-Key: order-1005").await?;
    stage.charged(1).await?;
    stage.note("and closes the connection without a reply");
    stage.expect(&first, Outcome::DISCONNECTED)?;
    let retry = stage.send(&call, "the same request, the same key").await?;
    stage.expect(&retry, Outcome::UNKNOWN)?;
    let look = stage.list(DEFAULT_PATH, "eve");
    let found = stage.send(&look, "so the client reconciles: it looks").await?;
    stage.expect(&found, Outcome::Executed)
}

async fn stream(stage: &mut Stage<'_, '_>) -> Result<(), Departure> {
    let forgotten = stage.charge(DEFAULT_PATH, "flo").keyed("order-1006").streamed();
    streamed(stage, &forgotten, "Idempotency-Key: order-1006", 1).await?;
    let retry = stage.send(&forgotten, "the same request, the same key").await?;
    stage.expect(&retry, Outcome::NOT_REPLAYABLE)?;
    let recorded = stage.charge(RECORDED_PATH, "gus").keyed("order-1007").streamed();
    let first = streamed(stage, &recorded, "a policy with streams: record", 2).await?;
    let retry = stage.send(&recorded, "the same request, the same key").await?;
    stage.expect(&retry, Outcome::Replayed)?;
    same_reply(&first, &retry)
}

async fn capacity(stage: &mut Stage<'_, '_>) -> Result<(), Departure> {
    let done = stage.charge(DEFAULT_PATH, "hal").keyed("order-1008");
    let answer = stage.send(&done, "Idempotency-Key: order-1008").await?;
    stage.charged(1).await?;
    stage.expect(&answer, Outcome::Executed)?;

    let (first, second) = (stage.payments.hold_next(), stage.payments.hold_next());
    let ivy = stage.charge(DEFAULT_PATH, "ivy").keyed("order-1009");
    let ivy = stage.start(&ivy, "Idempotency-Key: order-1009");
    stage.charged(2).await?;
    let jon = stage.charge(DEFAULT_PATH, "jon").keyed("order-1010");
    let jon = stage.start(&jon, "Idempotency-Key: order-1010");
    stage.charged(3).await?;

    let third = stage.charge(DEFAULT_PATH, "kim").keyed("order-1011");
    let refused = stage.send(&third, "Idempotency-Key: order-1011").await?;
    stage.expect(&refused, Outcome::CAPACITY)?;
    let replay = stage.send(&done, "order-1008 again: a replay").await?;
    stage.expect(&replay, Outcome::Replayed)?;
    same_reply(&answer, &replay)?;

    drop((first, second));
    for pending in [ivy, jon] {
        let answer = stage.answer(pending).await?;
        stage.expect(&answer, Outcome::Executed)?;
    }
    let answer = stage.send(&third, "order-1011 again: there is room now").await?;
    stage.charged(4).await?;
    stage.expect(&answer, Outcome::Executed)
}

async fn vendor(stage: &mut Stage<'_, '_>) -> Result<(), Departure> {
    let call = stage.charge(VENDOR_PATH, "lee").keyed("order-1012").with("simulate", "crash");
    let first = stage.send(&call, "Idempotency-Key: order-1012").await?;
    stage.charged(1).await?;
    stage.note("and closes the connection without a reply");
    stage.expect(&first, Outcome::DISCONNECTED)?;
    let retry = stage.send(&call, "the same request, the same key").await?;
    stage.note("the vendor gets the same key again, and tells of the charge that it knows");
    stage.expect(&retry, Outcome::Executed)?;
    let again = stage.send(&call, "once more").await?;
    stage.expect(&again, Outcome::Replayed)
}

/// Plays a streamed charge, the scene's charge number `count`. The first event must come while the
/// payments server still holds the rest back.
async fn streamed(
    stage: &mut Stage<'_, '_>,
    call: &Call,
    aside: &str,
    count: usize,
) -> Result<Answer, Departure> {
    let held = stage.payments.hold_next();
    let mut reply = stage.open(call, aside).await?;
    stage.charged(count).await?;
    stage.event(&mut reply, "while the tool still runs").await?;
    drop(held);
    stage.event(&mut reply, "").await?;
    let answer = stage.rest(reply).await?;
    stage.expect(&answer, Outcome::Executed)?;
    Ok(answer)
}

fn same_reply(first: &Answer, replay: &Answer) -> Result<(), Departure> {
    let same = first.body == replay.body && first.content_type == replay.content_type;
    if same { Ok(()) } else { Err(Departure::OtherReply) }
}
