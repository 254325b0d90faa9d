//! All that was measured, as it is written to a file.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::deliver;
use crate::dispatch;
use crate::machine::Machine;
use crate::million::Growth;
use crate::scenario::Kind;
use crate::stats::{Spread, spread};

/// All of it.
#[derive(Debug, Default, Serialize)]
pub struct Results {
    /// Where and when.
    pub machine: Machine,
    /// Short lives.
    pub cold_starts: Option<Measured>,
    /// Long lives, by scenario, in their order.
    pub deliver: Vec<Measured>,
    /// By fan-out, in their order.
    pub dispatch: Vec<FanOut>,
    /// Many deliveries in one life.
    pub million: Option<Growth>,
    /// What was hoped for.
    pub goals: Vec<crate::goals::Goal>,
}

/// What the lives of one scenario came to.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// By which it is chosen.
    pub name: String,
    /// For people.
    pub title: String,
    /// Deliveries of each life that were measured.
    pub deliveries: usize,
    /// What they come to, by program and figure.
    pub summary: BTreeMap<Kind, BTreeMap<String, Spread>>,
    /// Each of them, in the order in which they were lived.
    pub lives: Vec<deliver::Life>,
}

/// The lives with one fan-out.
#[derive(Debug, Serialize)]
pub struct FanOut {
    /// Subscribers of the event.
    pub fan_out: usize,
    /// What they come to, by figure.
    pub summary: BTreeMap<String, Spread>,
    /// Each of them.
    pub lives: Vec<dispatch::Life>,
}

impl Measured {
    /// Sums lives up.
    #[must_use]
    pub fn new(name: &str, title: &str, deliveries: usize, lives: Vec<deliver::Life>) -> Self {
        let mut summary = BTreeMap::new();
        for kind in Kind::ALL {
            let figures = lives.iter().filter(|life| life.program == kind);
            let figures = summary_of(figures.map(|life| &life.figures));
            if !figures.is_empty() {
                summary.insert(kind, figures);
            }
        }
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            deliveries,
            summary,
            lives,
        }
    }

    /// A figure of a program.
    #[must_use]
    pub fn figure(&self, kind: Kind, name: &str) -> Option<Spread> {
        self.summary.get(&kind)?.get(name).copied()
    }
}

impl FanOut {
    /// Sums lives up.
    #[must_use]
    pub fn new(fan_out: usize, lives: Vec<dispatch::Life>) -> Self {
        Self {
            fan_out,
            summary: summary_of(lives.iter().map(|life| &life.figures)),
            lives,
        }
    }
}

impl Results {
    /// The scenario of this name.
    #[must_use]
    pub fn scenario(&self, name: &str) -> Option<&Measured> {
        self.deliver.iter().find(|scenario| scenario.name == name)
    }
}

fn summary_of<'a>(
    lives: impl Iterator<Item = &'a BTreeMap<String, f64>>,
) -> BTreeMap<String, Spread> {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for figures in lives {
        for (name, value) in figures {
            values.entry(name.clone()).or_default().push(*value);
        }
    }
    let spreads = values.into_iter();
    spreads
        .filter_map(|(name, values)| Some((name, spread(&values)?)))
        .collect()
}
