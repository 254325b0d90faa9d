//! Time as a caller of AWS needs it: until when, and how long to wait before another try.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// When the time is over that lasts until `deadline`. Lambda tells an invocation's by the wall
/// clock; all that follows is measured by the monotonic one.
#[must_use]
pub fn end_of(deadline: SystemTime) -> Instant {
    Instant::now()
        + deadline
            .duration_since(SystemTime::now())
            .unwrap_or_default()
}

/// The moment that lies `margin` before `end`.
#[must_use]
pub fn before(end: Instant, margin: Duration) -> Instant {
    end.checked_sub(margin).unwrap_or(end)
}

/// Waits before another try: `first` before the second try (round 1), doubled with each further
/// one, less a random part of up to half.
pub async fn pause(first: Duration, round: u32) {
    let longest = first * 2_u32.saturating_pow(round.saturating_sub(1));
    tokio::time::sleep(longest.mul_f64(0.5 + 0.5 * rand::random::<f64>())).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_double_and_lose_half_at_most() {
        for (round, longest) in [(1, 100), (2, 200), (3, 400)] {
            let began = Instant::now();
            pause(Duration::from_millis(100), round).await;
            let ms = began.elapsed().as_millis();
            assert!((longest / 2..=longest + 1).contains(&ms), "{round}: {ms}");
        }
    }
}
