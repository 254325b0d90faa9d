//! What many runs come to.

use serde::Serialize;

/// Median and spread of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// Median and spread; `None` if there are no values.
#[must_use]
pub fn spread(values: &[f64]) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    let median = if sorted.len() % 2 == 1 {
        upper
    } else {
        (sorted.get(middle - 1)? + upper) / 2.0
    };
    Some(Spread { median, min, max })
}

/// The smallest value that at least `percent` of a hundred values do not pass (nearest rank, no
/// interpolation); `None` if there are none.
#[must_use]
pub fn percentile(values: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Of fewer values one in a hundred is none.
const FEWEST_FOR_P99: usize = 100;

/// The value that one in a hundred passes; `None` where there are too few to tell.
#[must_use]
pub fn p99(values: &[f64]) -> Option<f64> {
    percentile(values, 99).filter(|_| values.len() >= FEWEST_FOR_P99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_two() {
        let odd = spread(&[9.0, 1.0, 5.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max), (5.0, 1.0, 9.0));
        let even = spread(&[4.0, 1.0, 9.0, 2.0]).unwrap();
        assert_eq!((even.median, even.min, even.max), (3.0, 1.0, 9.0));
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn a_percentile_is_a_value_that_was_seen() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 50), Some(100.0));
        assert_eq!(percentile(&values, 99), Some(198.0));
        assert_eq!(percentile(&values, 100), Some(200.0));
        assert_eq!(percentile(&[7.0], 50), Some(7.0));
        assert_eq!(percentile(&[7.0], 0), Some(7.0));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn there_is_no_p99_of_less_than_a_hundred_values() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(p99(&values), Some(99.0));
        assert_eq!(p99(&values[..99]), None);
    }
}
