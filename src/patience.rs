//! Waits with a bound, of which most are over before they begin.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::error::Elapsed;

/// Waits for a future no longer than `limit`. Where there is nothing to wait for, neither the clock
/// is read nor a timer made, which is most of what a bound costs.
///
/// # Errors
///
/// [`Elapsed`]: the time is over, and the future is dropped.
pub async fn within<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let at_once = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    });
    match at_once.await {
        Some(output) => Ok(output),
        None => tokio::time::timeout(limit, future).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_its_future_or_its_time() {
        let second = Duration::from_secs(1);
        assert_eq!(within(Duration::ZERO, async { 1 }).await.ok(), Some(1), "nothing to wait for");
        let soon = async { tokio::time::sleep(second).await };
        assert!(within(second * 2, soon).await.is_ok());
        let started = tokio::time::Instant::now();
        assert!(within(second, std::future::pending::<()>()).await.is_err());
        assert_eq!(started.elapsed(), second);
    }
}
