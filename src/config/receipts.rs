//! The `[receipts]` table.

use super::entries::{Entries, Entry};
use super::error::ConfigError;
use super::values::or;
use crate::store::ReceiptSettings;

/// The most receipts that may be kept.
pub const MAX_RECEIPTS: u64 = 1_000_000;

pub(super) fn take(entries: &mut Entries) -> Result<ReceiptSettings, ConfigError> {
    let default = ReceiptSettings::default();
    Ok(ReceiptSettings {
        entries: or(entries, "receipts.entries", default.entries, |entry| {
            let most = entry.count(0, MAX_RECEIPTS)?;
            u32::try_from(most).map_err(|_| entry.wrong("is too large"))
        })?,
        retention: or(entries, "receipts.retention", default.retention, Entry::duration)?,
    })
}

/// What a status shows.
pub(super) fn summary(settings: &ReceiptSettings) -> serde_json::Value {
    serde_json::json!({
        "entries": settings.entries,
        "retention_s": settings.retention.as_secs_f64(),
    })
}
