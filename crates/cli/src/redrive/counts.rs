//! Counting deliveries by something that can be told of them.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;

use serde::{Serialize, Serializer};

/// What is counted. As data each is a field with its name.
pub(crate) trait Kind: Copy + Eq + Hash + Serialize + 'static {
    /// All of them, in the order in which they are shown.
    const ALL: &'static [Self];
}

/// How many there are of each kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counts<K: Kind>(HashMap<K, usize>);

impl<K: Kind> Default for Counts<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Kind> Counts<K> {
    pub(crate) fn add(&mut self, kind: K) {
        *self.0.entry(kind).or_default() += 1;
    }

    pub(crate) fn add_all(&mut self, others: &Self) {
        for (kind, count) in &others.0 {
            *self.0.entry(*kind).or_default() += count;
        }
    }

    pub(crate) fn of(&self, kind: K) -> usize {
        self.0.get(&kind).copied().unwrap_or(0)
    }

    pub(crate) fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// Every kind with its count, also where there is none.
    pub(crate) fn each(&self) -> impl Iterator<Item = (K, usize)> {
        K::ALL.iter().map(|kind| (*kind, self.of(*kind)))
    }

    /// The same in words.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (String, usize)>
    where
        K: Display,
    {
        self.each().map(|(kind, count)| (kind.to_string(), count))
    }
}

impl<K: Kind> Serialize for Counts<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.each())
    }
}
