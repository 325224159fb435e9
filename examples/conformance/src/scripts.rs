//! The scripts by subject. A new script goes into the list of its subject.

pub(crate) mod cancelled;
pub(crate) mod faults;
pub(crate) mod media;
pub(crate) mod outputs;
pub(crate) mod replies;
pub(crate) mod settings;
pub(crate) mod swaps;
pub(crate) mod tools;

use toolwright_module::{Message, Reply, Request};

use crate::Check;
use crate::trial::Trial;

/// A request with one message.
fn hi() -> Request {
    Request::new([Message::system("Be brief."), Message::user("Hi!")])
}

/// Asks for a reply that must be a success.
async fn reply(trial: &Trial, request: Request) -> Check<Reply> {
    Ok(trial.ask(request).await??)
}
