//! How long to wait before another attempt. Pure.

use std::time::Duration;

/// The most attempts at one batch.
pub const MAX_ATTEMPTS: u32 = 6;

/// The first pause; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause, whatever the server asks for: the queue fills meanwhile.
pub const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The pause after `failures` attempts, at least what the server asked for, at most [`MAX_PAUSE`].
pub(super) fn pause(failures: u32, asked: Option<Duration>) -> Duration {
    let grown = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(MAX_ATTEMPTS));
    grown.max(asked.unwrap_or_default()).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        let millis: Vec<_> = (1..=7).map(|failures| pause(failures, None).as_millis()).collect();
        assert_eq!(millis, [100, 200, 400, 800, 1600, 3200, 5000]);
        assert_eq!(pause(u32::MAX, None), MAX_PAUSE);
    }

    #[test]
    fn a_server_may_ask_for_more_within_the_bound() {
        assert_eq!(pause(1, Some(Duration::from_secs(2))), Duration::from_secs(2));
        assert_eq!(pause(5, Some(Duration::from_secs(1))), Duration::from_millis(1600));
        assert_eq!(pause(1, Some(Duration::MAX)), MAX_PAUSE);
    }
}
