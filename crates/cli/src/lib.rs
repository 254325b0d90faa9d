//! The `webhooks` command: what an operator asks of a stack, or does to it.
//!
//! A verb is a module with the same name. It has its `Arguments`, and a `run` that gives a
//! [`Report`](output::Report): one value that is printed either as text for people or, with
//! `--json`, as data for programs. Only that goes to standard output; what there is to say beside
//! it goes to standard error.
//!
//! | module | |
//! |---|---|
//! | [`schedule`] | prints the retry policy as a contract for partners |
//! | [`subscribe`], [`unsubscribe`] | who receives what, and where |
//! | [`list`], [`show`] | all subscriptions, all about one partner |
//! | [`enable`], [`disable`] | switch subscriptions on and off |
//! | [`secret`] | the signing secrets |
//! | [`redrive`] | sends dead deliveries again |
//! | [`stats`] | how each partner fares |
//! | [`log`] | what happened to a delivery, and which there are |
//! | [`publish`] | puts events onto the bus |
//! | [`ping`] | a signed ping to a subscriber, and what came back |
//! | [`doctor`] | checks a deployed stack |
//! | [`verify`] | why a signature does not match |
//! | [`cost`] | what AWS asks for a volume of webhooks |
//! | [`args`] | the command line, and what its help says |
//! | [`stack`] | what a stack is made of, from the outputs of its CloudFormation template |
//! | [`aws`] | region, credentials and time limits, and errors that say what to do |
//! | [`tables`], [`delivery`] | what the tables say |
//! | [`input`] | files and standard input |
//! | [`subscriptions`] | the rows of who receives what, and how they are changed |
//! | [`parameters`] | the signing secrets in SSM |
//! | [`endpoint`] | whether a url may be called |
//! | `confirm` | the question before something is done that is not easily undone |
//! | [`switch`] | what `enable` and `disable` have in common |
//! | [`moment`], [`span`] | points in time and durations as people write them |
//! | [`output`], [`grid`], [`error`] | text or JSON, safe for a terminal, and exit codes |

use std::time::SystemTime;

use crate::args::{Arguments, Global, Verb};
use crate::error::{Error, Exit};

pub mod args;
pub mod aws;
mod confirm;
pub mod cost;
pub mod delivery;
pub mod disable;
pub mod doctor;
pub mod enable;
pub mod endpoint;
pub mod error;
pub mod grid;
pub mod input;
pub mod list;
pub mod log;
pub mod moment;
pub mod output;
pub mod parameters;
pub mod ping;
pub mod publish;
pub mod redrive;
pub mod schedule;
pub mod secret;
pub mod show;
pub mod span;
pub mod stack;
pub mod stats;
pub mod subscribe;
pub mod subscriptions;
pub mod switch;
pub mod tables;
pub mod unsubscribe;
pub mod verify;

/// What every verb is given beside its own arguments.
#[derive(Debug)]
pub struct Context {
    /// The options that all verbs have.
    pub global: Global,
    /// When the command was started.
    pub now: SystemTime,
}

/// Does what the command line asks for, and prints what comes of it.
///
/// # Errors
/// If it can not be done; nothing has been printed then.
pub async fn run(arguments: Arguments) -> Result<Exit, Error> {
    let json = arguments.global.json;
    let context = Context {
        global: arguments.global,
        now: SystemTime::now(),
    };
    match &arguments.verb {
        Verb::Subscribe(arguments) => {
            output::print(&subscribe::run(arguments, &context).await?, json)
        }
        Verb::Unsubscribe(arguments) => {
            output::print(&unsubscribe::run(arguments, &context).await?, json)
        }
        Verb::List(arguments) => output::print(&list::run(arguments, &context).await?, json),
        Verb::Show(arguments) => output::print(&show::run(arguments, &context).await?, json),
        Verb::Enable(arguments) => output::print(&enable::run(arguments, &context).await?, json),
        Verb::Disable(arguments) => output::print(&disable::run(arguments, &context).await?, json),
        Verb::Secret(arguments) => output::print(&secret::run(arguments, &context).await?, json),
        Verb::Redrive(arguments) => output::print(&redrive::run(arguments, &context).await?, json),
        Verb::Log(arguments) => output::print(&log::run(arguments, &context).await?, json),
        Verb::Stats(arguments) => output::print(&stats::run(arguments, &context).await?, json),
        Verb::Publish(arguments) => output::print(&publish::run(arguments, &context).await?, json),
        Verb::Ping(arguments) => output::print(&ping::run(arguments, &context).await?, json),
        Verb::Doctor(arguments) => output::print(&doctor::run(arguments, &context).await?, json),
        Verb::Verify(arguments) => output::print(&verify::run(arguments, &context).await?, json),
        Verb::Schedule(arguments) => {
            output::print(&schedule::run(arguments, &context).await?, json)
        }
        Verb::Cost(arguments) => output::print(&cost::run(arguments, &context).await?, json),
    }
}
