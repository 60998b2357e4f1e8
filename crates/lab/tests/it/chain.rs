//! `spirea-lab chain`: refusals of unusable options. `tests/system/test_chain.py` tests a run of
//! the command.

use spirea_specimens::program::folder_with;

use crate::command::refusal;

#[test]
fn options_that_cannot_be_used_are_refused() {
    let folder = folder_with(&[("file", "")]);
    let small = ["--gib", "0.01", "--changes", "10", "--every-seconds", "0.01", "--minutes", "0.01"];
    for (options, part) in [
        (&["--minutes", "0"][..], "--minutes must be above 0"),
        (&["--every-seconds", "0"], "--every-seconds must be above 0"),
        (&["--every-seconds", "20", "--minutes", "1"], "at least 4 blocks"),
        (&["--changes", "0"], "--changes must be at least 1"),
        (&["--value-bytes", "39"], "--value-bytes must be at least 40"),
        (&["--gib", "0.000001"], "twice as many accounts"),
        (&["--folder", "missing"], "missing"),
        (&["--spirea", "missing"], "there is no such program"),
        (&["--spirea", "file"], "file"),
    ] {
        let given: Vec<&str> =
            small.chunks(2).filter(|pair| !options.contains(&pair[0])).flatten().copied().collect();
        let said = refusal(folder.path(), &[&["chain"][..], options, &given].concat());
        assert!(said.contains(part), "{part:?} is missing from\n{said}");
    }
}
