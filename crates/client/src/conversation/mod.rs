//! The conversation between a client and its servers, without I/O.
//!
//! It is written as what it is, one thing after the other, in functions that wait for responses and pauses and for nothing
//! else. [`Conversation::step`] runs them up to where they wait, and says what for; no runtime is needed.

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

/// What is to be done next for a [`Conversation`].
#[must_use]
pub enum Step<T> {
    /// Send this to a server, the so-manyth of those whose addresses the client was given, and hand what came of it to
    /// [`Conversation::received`]: the response's head, or why there is none. Nothing more is read of the response before it.
    Send {
        /// Which server.
        server: usize,
        /// What to send.
        request: Request,
    },
    /// Hand the next piece of a server's response to [`Conversation::received`], an empty one at its end.
    Read {
        /// Which server.
        server: usize,
    },
    /// Nothing, until something is received or so long has passed; without a time, until something is received.
    Wait {
        /// How long.
        at_most: Option<Duration>,
    },
    /// The conversation is over.
    Done(Result<T, ClientError>),
}

/// What client and servers say to each other until the client has a `T`.
///
/// Whoever holds it asks for the next [`step`](Self::step), does it, hands what came of it to
/// [`received`](Self::received), and asks again, until it is over. Steps for two servers are done at the same time: ask
/// for all there are before waiting. What is sent, how often, and after which pauses is decided here. So is how much of a
/// response is read: pieces of a megabyte or less keep the bound.
///
/// It ends, whatever the servers say: every request is made a bounded number of times. One that is dropped before leaves
/// its client as after a look-up that failed.
pub struct Conversation<'a, T> {
    lines: Lines,
    script: Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send + 'a>>,
}

impl<'a, T> Conversation<'a, T> {
    /// One over `lines` that goes as `script` says.
    pub(crate) fn new(
        lines: Lines,
        script: impl Future<Output = Result<T, ClientError>> + Send + 'a,
    ) -> Self {
        lines.clear();
        Self { lines, script: Box::pin(script) }
    }

    /// What to do next.
    ///
    /// # Panics
    /// If the conversation was over before.
    pub fn step(&mut self) -> Step<T> {
        let polled = self.script.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match (polled, self.lines.take_order()) {
            (Poll::Ready(result), _) => Step::Done(result),
            (Poll::Pending, Some((server, Order::Send(request)))) => Step::Send { server, request },
            (Poll::Pending, Some((server, Order::Read))) => Step::Read { server },
            (Poll::Pending, None) => Step::Wait { at_most: self.lines.pause() },
        }
    }

    /// Takes what came of the step that was given for this server.
    ///
    /// # Panics
    /// If there was none, or a head comes where a piece was asked for, or the other way.
    pub fn received(&mut self, server: usize, received: Received) {
        self.lines.received(server, received);
    }
}
