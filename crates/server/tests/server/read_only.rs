//! Repositories into which the server may not write, as on a read-only mount.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::{Uid, getuid};
use rustix::thread::set_thread_res_uid;
use serde_json::Value as Json;
use spirea_client::{ClientOptions, HttpClient, Keep};
use spirea_server::{Follow, Server, ServerConfig};
use spirea_store::repository::{Settings, Shrinking};
use spirea_store::{Repository, Silent};
use spirea_wire::Code;
use tempfile::tempdir;

use crate::fixture::{Running, eventually};
use crate::publish::{config, repository, snapshot};

/// Another user than the owner of the files.
const NOBODY: u32 = 65_534;

/// Sets the permissions of a folder and of everything in it: all may read, and its owner may write
/// if `writable`.
fn permit(path: &Path, writable: bool) {
    let write = if writable { 0o200 } else { 0 };
    let is_folder = path.is_dir();
    if is_folder && writable {
        set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    if is_folder {
        std::fs::read_dir(path).unwrap().for_each(|entry| permit(&entry.unwrap().path(), writable));
    }
    let mode = if is_folder { 0o555 | write } else { 0o444 | write };
    set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Runs `work` as a user who may not write into the tests' folders.
fn as_reader<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    // The user id belongs to a thread, and to the threads that it starts. Permissions do not
    // restrict the superuser.
    let as_nobody = move || {
        if getuid().is_root() {
            let nobody = Uid::from_raw(NOBODY);
            set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        work()
    };
    std::thread::spawn(as_nobody).join().unwrap()
}

/// Serves a folder as a user who may not write there.
fn serve_as_reader(path: &Path) -> Running {
    let config = config(path);
    let server = as_reader(move || Running::start(Server::bind(config)));
    eventually("the database", || server.get("/readyz").status == 200);
    server
}

fn ask(server: &Running, key: &str) -> String {
    let options = ClientOptions { keep: Keep::Memory, ..ClientOptions::default() };
    let mut client = HttpClient::connect_with(&[&server.url()], "table", options).unwrap();
    let [value] = client.get_keys(&[key.as_bytes()]).unwrap().try_into().unwrap();
    String::from_utf8(value.expect("the key is there").fields()[0].clone()).unwrap()
}

#[test]
fn a_repository_is_served_without_writing_there() {
    let folder = tempdir().unwrap();
    set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    std::fs::remove_file(path.join("lock")).unwrap();
    permit(&path, false);
    let server = serve_as_reader(&path);
    assert_eq!(ask(&server, "key-3"), "value 3 of edition 1");
    assert!(!path.join("lock").exists());
    let refused = server.post_admin("/v1/admin/databases/table/changes", br#"{"key": "a", "value": "b"}"#);
    assert_eq!((refused.status, refused.refusal().code), (409, Code::NotPublishable));

    // Another machine publishes there, and the server adopts the version when it is told to reload.
    permit(&path, true);
    let second = snapshot(folder.path(), "simple", true, 2);
    let publisher = Repository::open(&path, Settings::default()).unwrap();
    let version = publisher.add_base(&second, Shrinking::Refuse, &Silent).unwrap().version.to_string();
    drop(publisher);
    permit(&path, false);
    let reply = server.post_admin("/v1/admin/reload", b"");
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    let body: Json = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(
        (&body["databases"][0]["version"], &body["databases"][0]["new"]),
        (&version.into(), &true.into())
    );
    assert_eq!(ask(&server, "key-3"), "value 3 of edition 2");
    drop(server);
    permit(&path, true);
}

#[test]
fn a_repository_of_which_a_part_may_not_be_written_is_refused_by_name() {
    let folder = tempdir().unwrap();
    set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    std::fs::remove_file(path.join("lock")).unwrap();
    set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    for part in ["bases", "deltas", "versions"] {
        for other in ["bases", "deltas", "versions", "work"] {
            let mode = if other == part { 0o555 } else { 0o777 };
            set_permissions(path.join(other), Permissions::from_mode(mode)).unwrap();
        }
        let opened = path.clone();
        let refused = as_reader(move || Repository::open(opened, Settings::default()).map(drop));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with(path.join(part).to_str().unwrap()), "{part}: {refused}");
        assert!(refused.contains("in all folders of a repository"), "{refused}");
    }
    permit(&path, true);
}

#[test]
fn a_follower_that_may_not_write_does_not_start() {
    let folder = tempdir().unwrap();
    set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "simple", true, 1));
    permit(folder.path(), false);
    // A repository, and a folder that is not there yet.
    for path in [path, folder.path().join("new/table")] {
        let follow = Follow { url: "http://127.0.0.1:1".into(), ..Follow::default() };
        let config = ServerConfig { follow: Some(follow), ..config(&path) };
        let checked = config.clone();
        let wrong = as_reader(move || checked.check()).unwrap_err();
        assert_eq!(wrong.key, "databases.0.path");
        let refused = as_reader(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(Server::bind(config)).map(drop).unwrap_err().to_string()
        });
        assert_eq!(refused, wrong.cause);
        let place = path.to_str().unwrap();
        assert!(refused.starts_with(place) && refused.contains("make the folder writable"), "{refused}");
    }
    permit(folder.path(), true);
}
