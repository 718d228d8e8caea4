//! The scripts, one an operation, each atomic. A script refuses before its first write, or does all
//! of it (STORE section 4).

use std::sync::LazyLock;

use redis::Script;

/// The operations of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Begin,
    Reserve,
    Complete,
    Tombstone,
    Release,
    Renew,
    Occupancy,
    Receipts,
}

/// Needs memory: refused by a server that has none left, before it runs.
const GROWS: &str = "#!lua\n";
/// Frees memory, or keeps what was claimed from being lost.
const ALLOWED_WITHOUT_MEMORY: &str = "#!lua flags=allow-oom\n";
const READS: &str = "#!lua flags=no-writes\n";

macro_rules! script {
    ($flags:expr, $($file:literal),+) => {
        LazyLock::new(|| {
            let parts = [$flags, include_str!("scripts/common.lua"), $(include_str!($file)),+];
            let text = parts.concat();
            Source { sha: Script::new(&text).get_hash().to_owned(), text }
        })
    };
}

/// A script's text, and the name that a server knows it by once it was sent.
pub(super) struct Source {
    pub(super) sha: String,
    pub(super) text: String,
}

static BEGIN: LazyLock<Source> = script!(GROWS, "scripts/receipt.lua", "scripts/begin.lua");
static RESERVE: LazyLock<Source> =
    script!(GROWS, "scripts/receipt.lua", "scripts/lease.lua", "scripts/reserve.lua");
static COMPLETE: LazyLock<Source> =
    script!(GROWS, "scripts/receipt.lua", "scripts/settle.lua", "scripts/complete.lua");
static TOMBSTONE: LazyLock<Source> = script!(
    ALLOWED_WITHOUT_MEMORY,
    "scripts/receipt.lua",
    "scripts/settle.lua",
    "scripts/tombstone.lua"
);
static RELEASE: LazyLock<Source> = script!(
    ALLOWED_WITHOUT_MEMORY,
    "scripts/receipt.lua",
    "scripts/settle.lua",
    "scripts/release.lua"
);
static RENEW: LazyLock<Source> =
    script!(ALLOWED_WITHOUT_MEMORY, "scripts/lease.lua", "scripts/renew.lua");
static OCCUPANCY: LazyLock<Source> = script!(READS, "scripts/occupancy.lua");
static RECEIPTS: LazyLock<Source> = script!(READS, "scripts/receipts.lua");

impl Operation {
    /// Every script that a server must take.
    pub(super) const ALL: [Self; 8] = [
        Self::Begin,
        Self::Reserve,
        Self::Complete,
        Self::Tombstone,
        Self::Release,
        Self::Renew,
        Self::Occupancy,
        Self::Receipts,
    ];

    pub(super) fn source(self) -> &'static Source {
        match self {
            Self::Begin => &BEGIN,
            Self::Reserve => &RESERVE,
            Self::Complete => &COMPLETE,
            Self::Tombstone => &TOMBSTONE,
            Self::Release => &RELEASE,
            Self::Renew => &RENEW,
            Self::Occupancy => &OCCUPANCY,
            Self::Receipts => &RECEIPTS,
        }
    }
}
