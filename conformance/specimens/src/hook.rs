use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Runs before something that a responder does.
pub type Hook = Box<dyn Fn() + Send + Sync>;

/// A hook that does nothing.
pub fn no_hook() -> Hook {
    Box::new(|| ())
}

/// A hook that says when it begins and holds what comes after it until told to go on.
pub fn gate() -> (Hook, Receiver<()>, Sender<()>) {
    let ((begun, begins), (go, gone)) = (channel(), channel());
    let gone = Mutex::new(gone);
    let hook = move || {
        begun.send(()).expect("the test listens");
        gone.lock().expect("nothing panics here").recv().expect("the test says when to go on");
    };
    (Box::new(hook), begins, go)
}
