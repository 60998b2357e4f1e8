//! Look-ups without a writable folder for hints.

use std::process::Command;

use crate::command::{SPIREA, Server, expect, folder_with, text};

#[test]
fn look_ups_need_no_folder_for_hints() {
    let folder = folder_with(&[("t.csv", "k,v\na,1\nb,2\n")]);
    let folder = folder.path();
    expect(folder, 0, &["build", "--input", "t.csv", "--key", "k", "--value", "v", "--out", "t"]);
    let server = Server::ready(folder, &["t"]);
    let home = folder.join("home");
    std::fs::create_dir(&home).unwrap();
    let get = |home: Option<&str>, further: &[&str]| {
        let mut command = Command::new(SPIREA);
        command.args(["get", &server.url, "t", "a"]).args(further).current_dir(folder);
        command.env_remove("XDG_CACHE_HOME").env_remove("HOME").envs(home.map(|home| ("HOME", home)));
        let output = command.output().unwrap();
        assert_eq!(text(&output.stdout), "1\n", "{home:?} {further:?}: {}", text(&output.stderr));
    };
    get(None, &[]);
    get(Some(home.to_str().unwrap()), &["--no-cache"]);
    assert_eq!(std::fs::read_dir(&home).unwrap().count(), 0);
    // No one can create files there, not even the superuser.
    #[cfg(target_os = "linux")]
    {
        get(Some("/sys"), &[]);
        get(None, &["--cache", "/sys"]);
    }
    get(Some(home.to_str().unwrap()), &[]);
    assert_eq!(std::fs::read_dir(&home).unwrap().count(), 1);
}
