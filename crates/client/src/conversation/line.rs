//! Interface between a conversation, which does no I/O, and the caller that does the I/O.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Head, Received, Request, TransportError};
use crate::Clock;

/// Operation on a line.
pub(super) enum Order {
    Send(Request),
    Read,
}

/// State of a line.
enum State {
    Idle,
    Ordered(Order),
    /// The order has been handed out.
    UnderWay,
    Came(Received),
    /// Pausing until this time of the clock.
    Pausing(Duration),
}

/// The lines to all servers.
#[derive(Clone)]
pub(crate) struct Lines {
    states: Arc<Mutex<Vec<State>>>,
    clock: Clock,
}

/// The line to one server.
pub(super) struct Line {
    lines: Lines,
    server: usize,
}

impl Lines {
    /// Creates lines to `servers` servers, whose pauses are measured by `clock`.
    pub fn new(servers: usize, clock: Clock) -> Self {
        let states = (0..servers).map(|_| State::Idle).collect();
        Self { states: Arc::new(Mutex::new(states)), clock }
    }

    /// Creates lines to the same servers for another conversation at the same time.
    pub(super) fn beside(&self) -> Self {
        Self::new(self.states.lock().len(), self.clock.clone())
    }

    /// Returns the line to a server.
    pub(super) fn to(&self, server: usize) -> Line {
        Line { lines: self.clone(), server }
    }

    /// Clears the state left by an unfinished conversation.
    pub fn clear(&self) {
        self.states.lock().fill_with(|| State::Idle);
    }

    /// Takes an order that has not been handed out, with its server.
    pub(super) fn take_order(&self) -> Option<(usize, Order)> {
        self.states.lock().iter_mut().enumerate().find_map(|(server, state)| {
            match std::mem::replace(state, State::UnderWay) {
                State::Ordered(order) => Some((server, order)),
                other => {
                    *state = other;
                    None
                }
            }
        })
    }

    /// Records the result of an order that was handed out.
    ///
    /// # Panics
    /// If there was no such order.
    pub fn received(&self, server: usize, received: Received) {
        let state = &mut self.states.lock()[server];
        assert!(matches!(state, State::UnderWay), "something was received that was not asked for");
        *state = State::Came(received);
    }

    /// Returns the time until the first pause ends, if there is a pause.
    pub fn pause(&self) -> Option<Duration> {
        let now = self.clock.now();
        let left = |state: &State| match state {
            State::Pausing(until) => Some(until.saturating_sub(now)),
            _ => None,
        };
        self.states.lock().iter().filter_map(left).min()
    }
}

impl Line {
    /// Returns the line in `lines` to the same server.
    pub fn among(&self, lines: &Lines) -> Self {
        lines.to(self.server)
    }

    /// Sends a request and returns the head of its response.
    pub async fn send(&mut self, request: Request) -> Result<Head, TransportError> {
        match self.carry(Order::Send(request)).await {
            Received::Head(head) => Ok(head),
            Received::Failed(error) => Err(error),
            Received::Piece(_) => panic!("a piece of a response came before its head"),
        }
    }

    /// Returns the next piece of the response's body; an empty piece at its end.
    pub async fn read(&mut self) -> Result<Bytes, TransportError> {
        match self.carry(Order::Read).await {
            Received::Piece(piece) => Ok(piece),
            Received::Failed(error) => Err(error),
            Received::Head(_) => panic!("a head came in the middle of a response"),
        }
    }

    async fn carry(&mut self, order: Order) -> Received {
        self.set(State::Ordered(order));
        poll_fn(|_| {
            let state = &mut self.lines.states.lock()[self.server];
            match std::mem::replace(state, State::Idle) {
                State::Came(received) => Poll::Ready(received),
                other => {
                    *state = other;
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Returns the clock's time.
    pub fn now(&self) -> Duration {
        self.lines.clock.now()
    }

    /// Waits for this time.
    pub async fn pause(&mut self, length: Duration) {
        let until = self.lines.clock.now().saturating_add(length);
        self.set(State::Pausing(until));
        poll_fn(|_| if self.lines.clock.now() < until { Poll::Pending } else { Poll::Ready(()) }).await;
        self.set(State::Idle);
    }

    fn set(&self, state: State) {
        self.lines.states.lock()[self.server] = state;
    }
}
