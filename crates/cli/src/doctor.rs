//! `webhooks doctor`: checks a deployed stack, and says how to mend what is wrong.
//!
//! | module | |
//! |---|---|
//! | [`findings`] | what is known of a stack, or why it is not |
//! | [`read`] | finds it out |
//! | [`judge`] | makes checks of it: a function of its argument |
//! | [`check`] | one check, and all of them as a report |

use clap::Args;

use crate::error::Error;
use crate::stack::Stack;
use crate::{Context, aws};

pub mod check;
pub mod findings;
pub mod judge;
pub mod read;

use check::Examination;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Do not resolve the host names of the partners' urls
    #[arg(long)]
    pub no_resolve: bool,
}

/// Checks the stack of the command line. What can not be read is a check that was not made, and
/// not the end.
///
/// # Errors
/// If there is no such stack, or CloudFormation can not be asked what it is made of.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Examination, Error> {
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let name = stack.name.clone();
    let findings = read::all(&aws, stack, !arguments.no_resolve, context.now).await;
    Ok(Examination::new(name, judge::all(&findings)))
}
