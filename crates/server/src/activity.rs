//! Activity of a connection, and the timeouts that follow from it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::Response;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::Limits;
use crate::held::{Held, Hold};
use crate::pace::{Pace, Rate};

/// Timeout of a connection without a request while other connections wait to be accepted.
const CROWDED_PATIENCE: Duration = Duration::from_secs(1);

/// A connection's state: idle, receiving a request's head, computing, or sending.
pub(crate) struct Activity(Mutex<State>);

struct State {
    /// True once there has been a request.
    asked: bool,
    /// Requests without a complete response.
    requests: usize,
    /// Deadlines of the responses that are being sent, by request number.
    sending: BTreeMap<u64, Pace>,
    /// The number of the next request.
    next: u64,
    /// End of the last request.
    rested: Instant,
    /// Arrival of the first byte after the last request.
    heard: Option<Instant>,
}

/// Free places of a port for further connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There are free places.
    Some,
    /// There are none, and connections may be waiting.
    None,
}

/// A timeout that has passed.
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
    /// Returns the timeout that has passed at `now`, or the time of the next check. Later events
    /// never set a deadline before that time.
    fn check(&self, now: Instant, limits: &Limits, room: Room) -> Result<Overdue, Instant> {
        let soonest = limits.idle_timeout.min(limits.read_timeout).min(limits.write_timeout);
        let latest = now + if room == Room::None { soonest.min(CROWDED_PATIENCE) } else { soonest };
        match self.deadline(limits, room) {
            Some((deadline, overdue)) if deadline <= now => Ok(overdue),
            Some((deadline, _)) => Err(deadline.min(latest)),
            None => Err(latest),
        }
    }

    fn deadline(&self, limits: &Limits, room: Room) -> Option<(Instant, Overdue)> {
        let patience = |time: Duration| if room == Room::None { time.min(CROWDED_PATIENCE) } else { time };
        match (self.requests, self.heard) {
            (0, None) if self.asked => Some((self.rested + patience(limits.idle_timeout), Overdue::Idle)),
            (0, None) => Some((self.rested + patience(limits.read_timeout), Overdue::Head)),
            (0, Some(heard)) => Some((heard + patience(limits.read_timeout), Overdue::Head)),
            // Computing and uploads have limits of their own.
            _ => self
                .sending
                .values()
                .map(|pace| (pace.deadline(), Overdue::Response))
                .min_by_key(|next| next.0),
        }
    }
}

impl Activity {
    /// Creates the state of a new connection.
    pub fn new() -> Arc<Self> {
        let now = Instant::now();
        let sending = BTreeMap::new();
        let state = State { asked: false, requests: 0, sending, next: 0, rested: now, heard: None };
        Arc::new(Self(Mutex::new(state)))
    }

    /// Notes that a request has come.
    pub fn begin(self: &Arc<Self>) -> Busy {
        let mut state = self.0.lock();
        state.asked = true;
        state.requests += 1;
        state.next += 1;
        let number = state.next;
        drop(state);
        Busy { activity: Arc::clone(self), number }
    }

    /// Restarts the idle timeout.
    pub fn rest(&self) {
        let mut state = self.0.lock();
        (state.rested, state.heard) = (Instant::now(), None);
    }

    /// Returns when a timeout has passed. For connections without a request, timeouts are shorter
    /// while there is no room for others.
    pub async fn overdue(&self, limits: &Limits, room: &watch::Receiver<Room>) -> Overdue {
        let mut room = room.clone();
        loop {
            let now_room = *room.borrow_and_update();
            let wake = match self.0.lock().check(Instant::now(), limits, now_room) {
                Ok(overdue) => return overdue,
                Err(wake) => wake,
            };
            // The port outlives its connections; if it is gone, nobody waits for room.
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
}

/// A request without a complete response.
pub(crate) struct Busy {
    activity: Arc<Activity>,
    number: u64,
}

impl Busy {
    /// Begins the response, which the client must take at `rate`. The request ends, and `memory` is
    /// released, when the body has been sent.
    pub fn until_sent<M: Send + Sync + 'static>(self, response: Response, rate: Rate, memory: M) -> Response {
        let pace = Pace::new(Instant::now(), rate);
        self.activity.0.lock().sending.insert(self.number, pace);
        Held::attach(response, Sending { request: self, _memory: memory })
    }
}

/// A request whose response is being sent, with the response's memory.
struct Sending<M> {
    request: Busy,
    _memory: M,
}

impl<M: Send + Sync + 'static> Hold for Sending<M> {
    fn sent(&self, bytes: usize) {
        if let Some(pace) = self.request.activity.0.lock().sending.get_mut(&self.request.number) {
            pace.moved(Instant::now(), bytes);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.activity.0.lock();
        state.requests -= 1;
        state.sending.remove(&self.number);
        (state.rested, state.heard) = (Instant::now(), None);
    }
}

/// A stream that notes in an [`Activity`] when bytes arrive.
pub(crate) struct Noted<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S> Noted<S> {
    pub fn new(stream: S, activity: &Arc<Activity>) -> Self {
        Self { stream, activity: Arc::clone(activity) }
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
            self.activity.0.lock().heard.get_or_insert_with(Instant::now);
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
        Pin::new(&mut self.stream).poll_write(context, bytes)
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
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tokio::time::timeout;

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

    /// Returns the time from `start` until a timeout passes if nothing happens meanwhile; `None`
    /// after an hour.
    fn overdue(activity: &Activity, start: Instant) -> Option<(Duration, Overdue)> {
        let mut now = start;
        while now < start + Duration::from_secs(3600) {
            match activity.0.lock().check(now, &limits(), Room::Some) {
                Ok(overdue) => return Some((now - start, overdue)),
                Err(wake) => {
                    assert!(wake > now, "a check that is due again at once would never end");
                    now = wake;
                }
            }
        }
        None
    }

    fn after(seconds: u64, overdue: Overdue) -> Option<(Duration, Overdue)> {
        Some((Duration::from_secs(seconds), overdue))
    }

    fn hear(activity: &Activity, now: Instant) {
        activity.0.lock().heard.get_or_insert(now);
    }

    #[test]
    fn a_first_byte_a_head_without_end_and_a_pause_after_a_response_have_their_times() {
        let activity = Activity::new();
        let start = activity.0.lock().rested;
        assert_eq!(overdue(&activity, start), after(30, Overdue::Head));
        let later = start + Duration::from_secs(10);
        hear(&activity, start);
        // Further bytes of a head do not extend its deadline.
        hear(&activity, later);
        assert_eq!(overdue(&activity, later), after(20, Overdue::Head));
        let activity = Activity::new();
        drop(activity.begin());
        let start = activity.0.lock().rested;
        assert_eq!(overdue(&activity, start), after(120, Overdue::Idle));
    }

    #[tokio::test]
    async fn connections_without_a_request_make_room_for_others() {
        let (port, room) = watch::channel(Room::Some);
        let (idle, busy) = (Activity::new(), Activity::new());
        idle.0.lock().rested -= 5 * CROWDED_PATIENCE;
        let _request = busy.begin();
        let limits = limits();
        let mut closed = std::pin::pin!(idle.overdue(&limits, &room));
        assert!(timeout(Duration::ZERO, &mut closed).await.is_err(), "there is room");
        port.send_replace(Room::None);
        assert_eq!(closed.await, Overdue::Head);
        let asking = timeout(2 * CROWDED_PATIENCE, busy.overdue(&limits, &room));
        assert!(asking.await.is_err(), "a request was cut off");
    }

    #[test]
    fn a_computation_has_no_end_and_a_response_that_nobody_takes_has() {
        let activity = Activity::new();
        let busy = activity.begin();
        let start = activity.0.lock().rested;
        hear(&activity, start);
        assert_eq!(overdue(&activity, start), None);
        let rate = limits().write_rate();
        let response = busy.until_sent(Response::new(Body::from("answer")), rate, ());
        let begun = activity.0.lock().sending.values().next().unwrap().deadline() - rate.patience;
        assert_eq!(overdue(&activity, begun), after(10, Overdue::Response));
        drop(response);
        let rested = activity.0.lock().rested;
        assert_eq!(overdue(&activity, rested), after(120, Overdue::Idle));
    }
}
