//! Every interleaving of threads that share a secret: after a refusal nothing is accepted, and only
//! one refusal counts.

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

mod sync {
    pub use std::sync::PoisonError;

    pub use loom::sync::{RwLock, RwLockReadGuard};
}

#[path = "../../../crates/protocols/src/life.rs"]
mod life;

use life::{Ended, Life};

const SECRET: u32 = 1;
const SPARE: u32 = 2;

/// Makes a query, decodes the answer under the secret at that time, and accepts or refuses the
/// answer. A correct answer verifies only if the secret has not been replaced before the decoding.
fn look_up(life: &Life<u32>, answer_is_right: bool) -> Option<Result<(), Ended>> {
    let asked = life.read(|&secret| secret);
    let verified = answer_is_right && life.read(|&secret| secret) == SECRET;
    let decision = if verified { life.accept() } else { life.end() };
    // The decision on a query under the spare secret does not count, because such a query tells a
    // server nothing.
    (asked == SECRET).then_some(decision)
}

fn in_a_thread(life: &Arc<Life<u32>>, answer_is_right: bool) -> JoinHandle<Option<Result<(), Ended>>> {
    let life = Arc::clone(life);
    thread::spawn(move || look_up(&life, answer_is_right))
}

#[test]
fn two_refused_answers_count_once() {
    loom::model(|| {
        let life = Arc::new(Life::new(SECRET, SPARE));
        let other = in_a_thread(&life, false);
        let decisions = [look_up(&life, false), other.join().unwrap()];
        let refused = decisions.iter().filter(|decision| **decision == Some(Ok(()))).count();
        assert_eq!(refused, 1, "{decisions:?}");
        life.read(|&secret| assert_eq!(secret, SPARE));
    });
}

#[test]
fn nothing_is_accepted_after_a_refusal() {
    loom::model(|| {
        let life = Arc::new(Life::new(SECRET, SPARE));
        let refused = in_a_thread(&life, false);
        let first = look_up(&life, true);
        let second = look_up(&life, true);
        if first != Some(Ok(())) {
            assert_ne!(second, Some(Ok(())), "accepted after {first:?}");
        }
        refused.join().unwrap();
        assert_eq!(life.accept(), Err(Ended));
    });
}

#[test]
fn three_threads_agree_on_the_first_refusal() {
    loom::model(|| {
        let life = Arc::new(Life::new(SECRET, SPARE));
        let others = [false, true].map(|right| in_a_thread(&life, right));
        let own = look_up(&life, false);
        let [refused, _] = others.map(|other| other.join().unwrap());
        let refusals = [own, refused].iter().filter(|decision| **decision == Some(Ok(()))).count();
        assert_eq!(refusals, 1);
    });
}
