//! What goes on in a connection, and when nothing has for too long.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::Response;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::Limits;
use crate::held::Held;

/// What a connection without a request may take while others wait to be accepted.
const CROWDED_PATIENCE: Duration = Duration::from_secs(1);

/// A connection's state: idle, receiving a request's head, computing, or sending.
pub(crate) struct Activity(Mutex<State>);

struct State {
    /// Whether there has been a request.
    asked: bool,
    /// Requests without a complete response.
    requests: usize,
    /// Those of them whose response has begun.
    sending: usize,
    /// When the last request ended, or something was sent since.
    rested: Instant,
    /// When the first byte after the last request came.
    heard: Option<Instant>,
    /// When something was last sent.
    sent: Instant,
}

/// Whether a port has places for more connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It has.
    Some,
    /// It has not, and there may be connections that wait.
    None,
}

/// What takes too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// No further request came.
    Idle,
    /// No first byte of a request came, or its head did not end.
    Head,
    /// The client does not take its response.
    Response,
}

impl State {
    fn deadline(&self, limits: &Limits, room: Room) -> Option<(Instant, Overdue)> {
        let patience = |time: Duration| if room == Room::None { time.min(CROWDED_PATIENCE) } else { time };
        match (self.requests, self.sending, self.heard) {
            (0, _, None) if self.asked => Some((self.rested + patience(limits.idle_timeout), Overdue::Idle)),
            (0, _, None) => Some((self.rested + patience(limits.read_timeout), Overdue::Head)),
            (0, _, Some(heard)) => Some((heard + patience(limits.read_timeout), Overdue::Head)),
            // Computing has its own bounds, and so has an upload.
            (_, 0, _) => None,
            _ => Some((self.sent + limits.write_timeout, Overdue::Response)),
        }
    }
}

impl Activity {
    /// A connection that has just been made.
    pub fn new() -> Arc<Self> {
        let now = Instant::now();
        let state = State { asked: false, requests: 0, sending: 0, rested: now, heard: None, sent: now };
        Arc::new(Self(Mutex::new(state)))
    }

    /// A request has come.
    pub fn begin(self: &Arc<Self>) -> Busy {
        let mut state = self.lock();
        state.asked = true;
        state.requests += 1;
        drop(state);
        Busy { activity: Arc::clone(self), sending: false }
    }

    /// Gives what is idle its time again.
    pub fn rest(&self) {
        let mut state = self.lock();
        (state.rested, state.heard) = (Instant::now(), None);
    }

    /// Returns when something has taken too long: for connections without a request that is sooner while there is no
    /// room for others.
    pub async fn overdue(&self, limits: &Limits, room: &watch::Receiver<Room>) -> Overdue {
        let mut room = room.clone();
        // No deadline that comes up later is sooner than this.
        let soonest = limits.idle_timeout.min(limits.read_timeout).min(limits.write_timeout);
        loop {
            let now_room = *room.borrow_and_update();
            let deadline = self.lock().deadline(limits, now_room);
            let soonest = if now_room == Room::None { soonest.min(CROWDED_PATIENCE) } else { soonest };
            let latest = Instant::now() + soonest;
            let wake = match deadline {
                Some((deadline, overdue)) if deadline <= Instant::now() => return overdue,
                Some((deadline, _)) => deadline.min(latest),
                None => latest,
            };
            // The port outlives its connections; where it does not, nobody waits for room.
            let changed = async {
                if room.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = sleep_until(wake) => (),
                () = changed => (),
            }
        }
    }

    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that has no complete response yet.
pub(crate) struct Busy {
    activity: Arc<Activity>,
    sending: bool,
}

impl Busy {
    /// The response has begun; the request ends when its body has been taken.
    pub fn until_sent(mut self, response: Response) -> Response {
        let mut state = self.activity.lock();
        state.sending += 1;
        state.sent = Instant::now();
        drop(state);
        self.sending = true;
        Held::attach(response, self)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.activity.lock();
        state.requests -= 1;
        state.sending -= usize::from(self.sending);
        (state.rested, state.heard) = (Instant::now(), None);
    }
}

/// A stream that tells when bytes come and go.
pub(crate) struct Noted<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S> Noted<S> {
    pub fn new(stream: S, activity: &Arc<Activity>) -> Self {
        Self { stream, activity: Arc::clone(activity) }
    }

    fn sent(&self, outcome: &Poll<std::io::Result<usize>>) {
        if matches!(outcome, Poll::Ready(Ok(1..))) {
            let (mut state, now) = (self.activity.lock(), Instant::now());
            (state.sent, state.rested) = (now, now);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Noted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.lock().heard.get_or_insert_with(Instant::now);
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.sent(&outcome);
        outcome
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.sent(&outcome);
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tokio::time::advance;

    use super::*;

    fn limits() -> Limits {
        let seconds = Duration::from_secs;
        Limits {
            read_timeout: seconds(30),
            idle_timeout: seconds(120),
            write_timeout: seconds(10),
            ..Limits::default()
        }
    }

    /// How long it takes until something is overdue, by the virtual clock.
    async fn overdue(activity: &Activity) -> (u64, Overdue) {
        let (started, (_port, room)) = (Instant::now(), watch::channel(Room::Some));
        let overdue = activity.overdue(&limits(), &room).await;
        (started.elapsed().as_secs(), overdue)
    }

    fn hear(activity: &Activity) {
        activity.lock().heard.get_or_insert_with(Instant::now);
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_byte_a_head_without_end_and_a_pause_after_a_response_have_their_times() {
        let activity = Activity::new();
        assert_eq!(overdue(&activity).await, (30, Overdue::Head));
        let activity = Activity::new();
        hear(&activity);
        advance(Duration::from_secs(10)).await;
        // More bytes give no more time.
        hear(&activity);
        assert_eq!(overdue(&activity).await, (20, Overdue::Head));
        let activity = Activity::new();
        drop(activity.begin());
        assert_eq!(overdue(&activity).await, (120, Overdue::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_request_make_room_for_others() {
        let (port, room) = watch::channel(Room::Some);
        let (idle, busy) = (Activity::new(), Activity::new());
        let _request = busy.begin();
        let limits = limits();
        let (closed, asking) = (idle.overdue(&limits, &room), busy.overdue(&limits, &room));
        let crowd = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            port.send_replace(Room::None);
        };
        let started = Instant::now();
        tokio::select! {
            (overdue, ()) = async { tokio::join!(closed, crowd) } => {
                assert_eq!((started.elapsed().as_secs(), overdue), (5, Overdue::Head));
            }
            _ = asking => panic!("a request was cut off"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_computation_has_no_end_and_a_response_that_nobody_takes_has() {
        let activity = Activity::new();
        let busy = activity.begin();
        hear(&activity);
        let patience = tokio::time::timeout(Duration::from_secs(3600), overdue(&activity));
        assert!(patience.await.is_err());
        let response = busy.until_sent(Response::new(Body::from("answer")));
        assert_eq!(overdue(&activity).await, (10, Overdue::Response));
        drop(response);
        assert_eq!(overdue(&activity).await, (120, Overdue::Idle));
    }
}
