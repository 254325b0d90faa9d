//! Text in columns.

use std::fmt::{self, Display, Formatter};

use crate::output::safe;

/// The most characters of a cell. What is longer is cut in the text; the JSON has all of it.
const CELL_MAX_CHARS: usize = 200;

/// Rows of cells, the first one the headings. Columns are as wide as what stands in them.
#[derive(Debug)]
pub struct Grid {
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A grid with these headings.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        Self {
            rows: vec![headings.iter().map(|text| (*text).to_owned()).collect()],
        }
    }

    /// Adds a row. A cell is one line; one that is empty is shown as `-`, and one that is long is cut.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter();
        self.rows.push(
            cells
                .map(|cell| {
                    if cell.is_empty() {
                        "-".to_owned()
                    } else {
                        cut(safe(&cell))
                    }
                })
                .collect(),
        );
    }
}

impl Display for Grid {
    /// Without a line break at its end.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                // A width in a format string can be 65535 at most, and more is a panic.
                let padding = width.saturating_sub(cell.chars().count());
                line.extend(std::iter::repeat_n(' ', padding + 2));
            }
            if number > 0 {
                writeln!(f)?;
            }
            f.write_str(line.trim_end())?;
        }
        Ok(())
    }
}

/// At most [`CELL_MAX_CHARS`] characters of a cell, the last one `…` if there were more.
fn cut(mut cell: String) -> String {
    if cell.chars().nth(CELL_MAX_CHARS).is_some() {
        cell = cell.chars().take(CELL_MAX_CHARS - 1).collect();
        cell.push('…');
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_is_long_is_cut() {
        let mut grid = Grid::new(&["a", "b"]);
        grid.push(["ä".repeat(70_000), "x".into()]);
        grid.push(["ä".repeat(200), "y".into()]);
        grid.push(["\n".repeat(101), "z".into()]);
        assert_eq!(
            grid.to_string(),
            format!(
                "a{0}  b\n{1}…  x\n{1}ä  y\n{2}\\…  z",
                " ".repeat(199),
                "ä".repeat(199),
                r"\n".repeat(99),
            )
        );
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut grid = Grid::new(&["a", "heading", "c"]);
        grid.push(["größe", "", "x\n"].map(str::to_owned));
        grid.push(["1", "2", ""].map(str::to_owned));
        assert_eq!(
            grid.to_string(),
            "a      heading  c\ngröße  -        x\\n\n1      2        -"
        );
    }
}
