//! Text in columns.

use std::fmt::{self, Display, Formatter};

use crate::output::safe;

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

    /// Adds a row. A cell is one line; one that is empty is shown as `-`.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter();
        self.rows.push(
            cells
                .map(|cell| {
                    if cell.is_empty() {
                        "-".to_owned()
                    } else {
                        safe(&cell)
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
                line.push_str(&format!("{cell:width$}  "));
            }
            if number > 0 {
                writeln!(f)?;
            }
            f.write_str(line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
