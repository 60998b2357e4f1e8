//! A thread that carries one conversation in parallel to a client's look-ups.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use super::transport::Carriers;
use crate::{Aside, ClientError, Conversation, NextKeys};

/// Carrier of a conversation on a thread of its own, which ends soon after this is dropped.
pub(super) struct Background {
    carriers: Carriers,
    running: Option<Running>,
}

/// Running conversation, or its outcome until it is taken. Dropping this value stops the thread
/// without waiting: the thread notices within some hundredths of a second, or when it has made
/// keys. A forked process has no such thread.
struct Running {
    stop: Arc<AtomicBool>,
    outcome: Receiver<Result<NextKeys, ClientError>>,
    process: u32,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Background {
    /// Creates a carrier over the connections of `carriers`.
    pub fn new(carriers: &Carriers) -> Self {
        Self { carriers: carriers.beside(Arc::default()), running: None }
    }
}

impl Aside for Background {
    fn begin(&mut self, conversation: Conversation<'static, NextKeys>) {
        let stop = Arc::<AtomicBool>::default();
        let carriers = self.carriers.beside(Arc::clone(&stop));
        let (sender, outcome) = mpsc::channel();
        self.running = Some(Running { stop, outcome, process: process::id() });
        let carry = move || {
            // The receiver is gone if the client has been dropped.
            let _ = sender.send(carriers.hold(conversation));
        };
        // If the thread cannot be started, the channel is closed.
        let _ = thread::Builder::new().name("spirea-next-keys".into()).spawn(carry);
    }

    fn outcome(&mut self) -> Option<Result<NextKeys, ClientError>> {
        let running = self.running.as_ref()?;
        let outcome = match running.outcome.try_recv() {
            _ if running.process != process::id() => Err(ClientError::Stopped),
            Ok(outcome) => outcome,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(ClientError::Stopped),
        };
        self.running = None;
        Some(outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::Clock;
    use crate::conversation::Lines;
    use crate::http::ClientOptions;

    /// Returns a conversation that holds `held` and never ends.
    fn endless(held: Arc<()>) -> Conversation<'static, NextKeys> {
        Conversation::new(Lines::new(1, Clock::system()), async move {
            std::future::pending::<()>().await;
            drop(held);
            Ok(NextKeys::default())
        })
    }

    fn background() -> Background {
        Background::new(&Carriers::new(&ClientOptions::default(), 1).unwrap())
    }

    fn wait_until_dropped(held: &Weak<()>) {
        let begun = Instant::now();
        while held.strong_count() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(300), "the thread goes on");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_thread_ends_with_its_client_or_with_the_next_conversation() {
        let mut aside = background();
        let [first, second] = [(); 2].map(|()| {
            let held = Arc::new(());
            aside.begin(endless(Arc::clone(&held)));
            Arc::downgrade(&held)
        });
        wait_until_dropped(&first);
        assert!(aside.outcome().is_none() && second.strong_count() > 0);
        drop(aside);
        wait_until_dropped(&second);
    }

    #[test]
    fn an_outcome_is_taken_once() {
        let mut aside = background();
        assert!(aside.outcome().is_none());
        aside.begin(Conversation::new(Lines::new(1, Clock::system()), async { Ok(NextKeys::default()) }));
        let begun = Instant::now();
        let outcome = loop {
            if let Some(outcome) = aside.outcome() {
                break outcome;
            }
            assert!(begun.elapsed() < Duration::from_secs(300));
            thread::sleep(Duration::from_millis(5));
        };
        assert!(outcome.is_ok() && aside.outcome().is_none());
    }
}
