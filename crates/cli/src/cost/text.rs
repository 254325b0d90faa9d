//! What a volume costs, as text.

use std::fmt::{self, Display, Formatter};

use super::{Amount, Cost, Row};
use crate::grid::Grid;

impl Display for Cost {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let assumed = &self.assumed;
        writeln!(
            f,
            "{} deliveries a month, {} a second: {} events for {} of {} bytes\n\
             {} of the attempts fail ({}), so that a delivery takes {} and {} of them die\n",
            grouped(self.deliveries),
            per_second(self.deliveries_per_second),
            grouped(assumed.events as f64),
            people(assumed.fanout, "subscriber", "subscribers"),
            grouped(assumed.payload_bytes as f64),
            percent(assumed.failure_rate),
            assumed.policy,
            attempts(self.attempts_per_delivery),
            percent(self.dead_share),
        )?;
        let batches = format!("batches of {}", assumed.batch);
        let mut grid = Grid::new(&["in all", "$ per million deliveries", "$ a month"]);
        let mut sum = |batches: &str, amount: Amount| {
            let [_, batches, million, month] = cells("", batches, amount);
            grid.push([batches, million, month]);
        };
        if assumed.batch > 1 {
            sum("batches of 1", self.total_in_batches_of_one);
        }
        sum(&batches, self.total);
        writeln!(f, "{grid}\n")?;
        if assumed.batch > 1 {
            writeln!(f, "{}\n", self.which_sum())?;
        }
        let mut grid = Grid::new(&["service", "for", "$ per million deliveries", "$ a month"]);
        for row in self.lines.iter().filter(|row| row.amount.per_month > 0.0) {
            grid.push(row.cells());
        }
        writeln!(f, "{grid}\n")?;
        let mut grid = Grid::new(&["service", "$ per million deliveries", "$ a month"]);
        for row in &self.services {
            let Amount {
                per_million_deliveries,
                per_month,
            } = row.amount;
            grid.push([
                row.service.to_owned(),
                dollars(per_million_deliveries),
                dollars(per_month),
            ]);
        }
        writeln!(f, "{grid}\n")?;
        let mut grid = Grid::new(&["each month, whatever the volume", "for", "$"]);
        for fixed in &self.fixed_per_month {
            grid.push([
                fixed.service.to_owned(),
                fixed.what.to_owned(),
                dollars(fixed.per_month),
            ]);
        }
        grid.push([
            "in all".to_owned(),
            String::new(),
            dollars(self.fixed_total),
        ]);
        writeln!(f, "{grid}\n")?;
        let mut grid = Grid::new(&["call", "per delivery"]);
        for (name, count) in &self.calls_per_delivery {
            let count = count.as_f64().unwrap_or_default();
            grid.push([name.clone(), format!("{count:.4}")]);
        }
        writeln!(f, "{grid}\n")?;
        for warning in &self.warnings {
            writeln!(f, "Beyond a limit: {warning}.")?;
        }
        write!(
            f,
            "Prices of {}, {}, without free tiers. A model, made without a look at a stack or an \
             account: nobody has billed it yet.",
            self.region, self.prices_of
        )
    }
}

impl Cost {
    /// Which of the two sums fits the volume.
    fn which_sum(&self) -> String {
        let full = self.assumed.batch;
        let limit = per_second(self.batches_fill_from_per_second);
        if self.deliveries_per_second < self.batches_fill_from_per_second {
            format!(
                "Batches of 1 fit this volume: below {limit} deliveries a second, evenly spread, none \
                 waits for others.\nIn bursts batches fill, and it comes to less. What follows is for \
                 batches of {full}, --batch 1 tells it for those of 1."
            )
        } else {
            format!(
                "It lies between the two: from {limit} deliveries a second on batches fill, the more \
                 the more wait.\nWhat follows is for batches of {full}."
            )
        }
    }
}

impl Row {
    fn cells(&self) -> [String; 4] {
        cells(self.service, self.what.unwrap_or_default(), self.amount)
    }
}

fn cells(service: &str, what: &str, amount: Amount) -> [String; 4] {
    [
        service.to_owned(),
        what.to_owned(),
        dollars(amount.per_million_deliveries),
        dollars(amount.per_month),
    ]
}

/// To the cent; what is less but something, as that.
pub(super) fn dollars(usd: f64) -> String {
    if usd > 0.0 && usd < 0.005 {
        "<0.01".to_owned()
    } else {
        // Half a cent is one, as people round.
        let cents = format!("{:.2}", (usd * 100.0).round() / 100.0);
        let (whole, cents) = cents.split_once('.').unwrap_or((&cents, "00"));
        format!("{}.{cents}", thousands(whole))
    }
}

/// With two digits below 10, and whole from there on.
fn per_second(number: f64) -> String {
    if number < 0.005 {
        "<0.01".to_owned()
    } else if number < 10.0 {
        format!("{number:.2}")
    } else {
        grouped(number)
    }
}

fn grouped(number: f64) -> String {
    thousands(&format!("{number:.0}"))
}

/// `1,000,000`.
fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (number, digit) in digits.chars().enumerate() {
        if number > 0 && (digits.len() - number).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.0001 {
        return "<0.0001%".to_owned();
    }
    let text = format!("{percent:.4}");
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

fn attempts(number: f64) -> String {
    if number == 1.0 {
        "1 attempt".to_owned()
    } else {
        format!("{number:.2} attempts")
    }
}

fn people(number: u32, one: &str, more: &str) -> String {
    let word = if number == 1 { one } else { more };
    format!("{} {word}", grouped(f64::from(number)))
}
