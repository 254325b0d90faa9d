//! What the functions and the command share of the world they run in: a log, clocks and time
//! limits, AWS clients, and the rows of the tables.

pub mod aws;
pub mod logging;
pub mod records;
pub mod time;
