//! Forms of the tests (short, full and long), and the draw of the cases for the short form.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Command;
use std::sync::LazyLock;

use parking_lot::Mutex;
use spirea_math::random::{Seed, public_row};

/// Extent of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// Form of `make test`. If cases are slow and similar, it tests only a few, which are drawn by
    /// the commit's hash.
    Short,
    /// Form of `CI_FULL=1`: every case, except cases that only the long form tests in full.
    Full,
    /// Form of `SPIREA_CONFORMANCE=long`: everything, with the oracle for every protocol, more
    /// clients, and every number of shares.
    Long,
}

impl Form {
    /// Returns the form that the environment selects.
    pub fn of_environment() -> Self {
        let is = |variable, wanted| std::env::var(variable).is_ok_and(|value| value == wanted);
        if is("SPIREA_CONFORMANCE", "long") {
            Self::Long
        } else if is("CI_FULL", "1") {
            Self::Full
        } else {
            Self::Short
        }
    }
}

/// Seed of the draw: `SPIREA_DRAW`, or the hash of the commit, so that commits test different
/// cases.
static SEED: LazyLock<String> = LazyLock::new(|| {
    let of_commit = || {
        let output = Command::new("git").args(["rev-parse", "HEAD"]).output().ok()?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    std::env::var("SPIREA_DRAW").ok().or_else(of_commit).unwrap_or_default()
});

/// Draws of this process, by name.
static DRAWS: Mutex<BTreeMap<String, Vec<String>>> = Mutex::new(BTreeMap::new());

/// Number of cases that the short and the full form draw. The long form tests all.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// Number for the short form.
    pub short: usize,
    /// Number for the full form.
    pub full: usize,
}

/// Converts the number for the short form; the full form then tests all cases.
impl From<usize> for Count {
    fn from(short: usize) -> Self {
        Self { short, full: usize::MAX }
    }
}

/// Returns true if the form tests this case of `what`. The short and the full form draw `count` of
/// all `cases` by the commit's hash; the long form tests all cases. The first call for `what`
/// prints the draw and the command that repeats it.
///
/// # Panics
/// If `case` is not among the cases.
pub fn is_drawn(what: &str, cases: &[&str], count: impl Into<Count>, case: &str) -> bool {
    assert!(cases.contains(&case), "{case} is none of {cases:?}");
    let Count { short, full } = count.into();
    let (count, form, more) = match Form::of_environment() {
        Form::Short if full < cases.len() => (short, "", "SPIREA_CONFORMANCE=long"),
        Form::Short => (short, "", "CI_FULL=1"),
        Form::Full => (full, "CI_FULL=1 ", "SPIREA_CONFORMANCE=long"),
        Form::Long => return true,
    };
    if count >= cases.len() {
        return true;
    }
    let mut draws = DRAWS.lock();
    let drawn = draws.entry(what.to_owned()).or_insert_with(|| {
        let drawn = draw(&SEED, what, cases, count);
        let line = format!(
            "{what}: {} of {} are tested, {}. To repeat: {form}SPIREA_DRAW={} cargo test. All of them: {more} cargo test.\n",
            drawn.len(),
            cases.len(),
            drawn.join(", "),
            *SEED,
        );
        // Written directly to standard error, because the harness hides the output of tests that
        // pass.
        let _ = std::io::stderr().write_all(line.as_bytes());
        drawn
    });
    drawn.iter().any(|drawn| drawn == case)
}

/// Returns the first `count` cases, in an order that the seed and `what` determine.
fn draw(seed: &str, what: &str, cases: &[&str], count: usize) -> Vec<String> {
    let key = *blake3::hash(format!("{seed}\n{what}").as_bytes()).as_bytes();
    let mut order = vec![0; cases.len()];
    public_row(&Seed::new(key), 0, &mut order);
    let mut places: Vec<usize> = (0..cases.len()).collect();
    places.sort_by_key(|&place| (order[place], place));
    places.into_iter().take(count).map(|place| cases[place].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn draws_take_every_case_in_turn_and_repeat_by_their_seed() {
        let cases = ["a", "b", "c", "d", "e"];
        let mut times = BTreeMap::new();
        for seed in 0..500 {
            let drawn = draw(&seed.to_string(), "cases", &cases, 2);
            assert_eq!(drawn, draw(&seed.to_string(), "cases", &cases, 2));
            assert!(drawn.len() == 2 && drawn[0] != drawn[1], "{drawn:?}");
            drawn.into_iter().for_each(|case| *times.entry(case).or_insert(0) += 1);
        }
        // Each case is expected in 200 of the 500 draws, with a standard deviation of 11.
        assert!(
            times.len() == cases.len() && times.values().all(|&times| (130..270).contains(&times)),
            "{times:?}"
        );
        let orders: BTreeSet<_> = (0..500).map(|seed| draw(&seed.to_string(), "cases", &cases, 5)).collect();
        assert!(orders.len() > 100, "{} of 120 orders", orders.len());
    }
}
