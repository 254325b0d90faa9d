//! What becomes of seeds: the same for the same number, so that what was found is found again.

/// The most bytes of an input: what is longer only takes longer.
const MOST_BYTES: usize = 4096;

/// Pieces that readers treat in their own way.
const PIECES: [&[u8]; 28] = [
    b"\0",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    "\u{ffff}".as_bytes(),
    "\u{feff}".as_bytes(),
    "\u{ad}".as_bytes(),
    b"\r\n",
    b"\t",
    b" ",
    b".",
    b",",
    b":",
    b";",
    b"[]",
    b"{}",
    b"null",
    b"0",
    b"-1",
    b"1e400",
    b"18446744073709551616",
    b"%00",
    b"@",
    b"//",
    b"v1,",
    b"\xff",
    b"=",
];

/// A source of numbers that look random (SplitMix64).
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// The numbers that come after this one.
    #[must_use]
    pub fn new(start: u64) -> Self {
        Self(start)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one, or 0.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> Option<&'a T> {
        all.get(self.below(all.len())).copied()
    }
}

/// One of the seeds, changed in one to eight places.
///
/// # Panics
/// If there are no seeds.
#[must_use]
pub fn mutated(seeds: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    let mut input = numbers.of(&seeds).expect("seeds").to_vec();
    for _ in 0..=numbers.below(8) {
        change(&mut input, &seeds, numbers);
    }
    input.truncate(MOST_BYTES);
    input
}

fn change(input: &mut Vec<u8>, seeds: &[&[u8]], numbers: &mut Numbers) {
    let at = numbers.below(input.len() + 1);
    let is_short = numbers.below(4) > 0;
    let length = numbers.below(if is_short { 9 } else { input.len() + 1 });
    let end = (at + length).min(input.len());
    let put: Vec<u8> = match numbers.below(7) {
        // Something is left out.
        0 => Vec::new(),
        // A byte becomes another one, or comes in.
        1 | 2 => vec![u8::try_from(numbers.below(256)).unwrap_or(0)],
        // A bit is turned.
        3 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << numbers.below(8);
            }
            return;
        }
        4 => numbers.of(&PIECES).unwrap_or_default().to_vec(),
        // A part comes twice.
        5 => {
            let part = input.get(at..end).unwrap_or_default().to_vec();
            [part.clone(), part].concat()
        }
        // A part of another seed.
        _ => {
            let other = numbers.of(seeds).unwrap_or_default();
            let from = numbers.below(other.len() + 1);
            let to = (from + numbers.below(40)).min(other.len());
            other.get(from..to).unwrap_or_default().to_vec()
        }
    };
    // As often as not nothing is taken away for it.
    let end = if numbers.below(2) == 0 && !put.is_empty() {
        at
    } else {
        end
    };
    input.splice(at..end, put);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_number_gives_the_same_inputs_and_another_one_others() {
        let seeds = [b"Retry-After: 120".to_vec(), b"{}".to_vec()];
        let inputs = |start| -> Vec<Vec<u8>> {
            let mut numbers = Numbers::new(start);
            (0..50).map(|_| mutated(&seeds, &mut numbers)).collect()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(1).iter().any(|input| !seeds.contains(input)));
    }
}
