//! The conversation between a client and its servers, without I/O.
//!
//! The conversation is written as sequential `async` functions that wait only for responses and
//! pauses. [`Conversation::step`] polls them until they wait, and says what they wait for; no
//! runtime is needed.

mod line;
mod message;
mod server;
mod servers;
#[cfg(test)]
mod tests;
mod version;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub(crate) use line::Lines;
use line::{Line, Order};
pub use message::{Head, Method, Received, Request, TransportError};
pub(crate) use servers::Servers;
pub(crate) use version::fetch;

use crate::ClientError;

/// Next action of the caller of a [`Conversation`].
#[must_use]
pub enum Step<T> {
    /// Send this request to a server and pass the result to [`Conversation::received`]: the
    /// response's head, or the reason why there is none. Pass the head on before reading more of
    /// the response.
    Send {
        /// Position of the server in the list of servers given to the client.
        server: usize,
        /// The request.
        request: Request,
    },
    /// Pass the next piece of a server's response to [`Conversation::received`], an empty piece at
    /// its end.
    Read {
        /// Position of the server.
        server: usize,
    },
    /// Wait until something is received or this time has passed; without a time, until something is
    /// received.
    Wait {
        /// Maximum time to wait.
        at_most: Option<Duration>,
    },
    /// The conversation is over.
    Done(Result<T, ClientError>),
}

/// Exchange of messages between a client and its servers, which results in a `T`.
///
/// The caller asks for the next [`step`](Self::step), performs it, passes the result to
/// [`received`](Self::received), and repeats that until the conversation is over. Steps for two
/// servers run in parallel: ask for all available steps before waiting. The conversation decides
/// which requests are sent, how often, and after which pauses. It also limits how much of a
/// response is read; pass pieces of at most a megabyte, so that this limit holds.
///
/// A conversation always ends, whatever the servers send: the number of attempts of every request
/// is bounded. A conversation dropped early leaves its client as after a failed look-up.
pub struct Conversation<'a, T> {
    lines: Lines,
    script: Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send + 'a>>,
}

impl<'a, T> Conversation<'a, T> {
    /// Creates a conversation over `lines` that runs `script`.
    pub(crate) fn new(
        lines: Lines,
        script: impl Future<Output = Result<T, ClientError>> + Send + 'a,
    ) -> Self {
        lines.clear();
        Self { lines, script: Box::pin(script) }
    }

    /// Returns the next step.
    ///
    /// # Panics
    /// If the conversation is already over.
    pub fn step(&mut self) -> Step<T> {
        let polled = self.script.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match (polled, self.lines.take_order()) {
            (Poll::Ready(result), _) => Step::Done(result),
            (Poll::Pending, Some((server, Order::Send(request)))) => Step::Send { server, request },
            (Poll::Pending, Some((server, Order::Read))) => Step::Read { server },
            (Poll::Pending, None) => Step::Wait { at_most: self.lines.pause() },
        }
    }

    /// Accepts the result of the last step for this server.
    ///
    /// # Panics
    /// If there was no such step, if a head comes instead of a piece, or a piece instead of a head.
    pub fn received(&mut self, server: usize, received: Received) {
        self.lines.received(server, received);
    }
}
