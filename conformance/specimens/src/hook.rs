use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;

/// Callback that runs before an action of a responder.
pub type Hook = Box<dyn Fn() + Send + Sync>;

/// Returns a hook that does nothing.
pub fn no_hook() -> Hook {
    Box::new(|| ())
}

/// Returns a hook that reports when it begins, and blocks until told to continue.
pub fn gate() -> (Hook, Receiver<()>, Sender<()>) {
    let ((begun, begins), (go, gone)) = (channel(), channel());
    let gone = Mutex::new(gone);
    let hook = move || {
        begun.send(()).expect("the test listens");
        gone.lock().recv().expect("the test says when to go on");
    };
    (Box::new(hook), begins, go)
}
