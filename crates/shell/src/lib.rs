//! What both functions need of the world they run in: a log, the invocation's clock, and AWS
//! clients with time limits.

pub mod aws;
pub mod logging;
pub mod records;
pub mod time;
