//! Files that the disk fails to read.

use std::path::Path;

use spirea_client::ClientError;
use spirea_wire::Code;
use tempfile::tempdir;

use crate::torture::damage::{answered_by, changed_repository, files};
use crate::torture::faults::Faults;
use crate::torture::service::{Http, Service, serve};
use crate::torture::table::{ROWS, archive, changes, editions, repository, snapshot};

const NAME: &str = "table";
const KEYED: &str = "keyed";

#[test]
fn a_file_that_cannot_be_read_at_the_start_is_named_or_not_needed() {
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let (path, current) = changed_repository(folder);
    let faults = Faults::new(folder);
    let mut all = Vec::new();
    files(&path, Path::new(""), &mut all);
    let (mut refused, mut answered) = (0, 0);
    for file in &all {
        faults.unreadable(file.to_str().unwrap());
        let failed = faults.failed();
        match answered_by(faults.within(serve(&[&path], &[])), folder) {
            Ok(found) => {
                answered += 1;
                assert!(found == current || found == vec![1; ROWS], "{}: {found:?}", file.display());
            }
            Err(said) => {
                refused += 1;
                assert!(faults.failed() > failed, "{}: {said}", file.display());
                let name = file.file_name().unwrap().to_string_lossy();
                assert!(said.contains(&*name), "{}: {said}", file.display());
            }
        }
    }
    println!(
        "{} files that could not be read: refused with the file's name {refused} times, answered rightly without it {answered} times",
        all.len()
    );
    assert!(refused > 0);

    // The server discards no data after an error that may be temporary.
    faults.unreadable("");
    assert_eq!(answered_by(faults.within(serve(&[&path], &[])), folder).unwrap(), current);
}

#[test]
fn a_running_server_answers_on_while_its_disk_cannot_be_read() {
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let snapshots = [1, 2].map(|edition| snapshot(folder, NAME, "simple", edition));
    let paths = [
        repository(folder, &snapshots[0]),
        repository(folder, &snapshot(folder, KEYED, "exppack-simple", 1)),
    ];
    let keys = folder.join("keys");
    let faults = Faults::new(folder);
    // Keys leave memory at once, and are read again for each request.
    let options = ["--keys-dir", keys.to_str().unwrap(), "--keys-memory", "1"];
    let command = faults.within(serve(&[&paths[0], &paths[1]], &options));
    let service = Service::started(command, &folder.join("server.log"));
    let http = Http::new();
    let cache = folder.join("cache");
    let found = |name: &str| editions(&service.url, name, &cache).unwrap();
    // The client fetches the hint now, because no client can fetch it during the fault.
    assert_eq!(found(NAME), vec![1; ROWS]);
    assert_eq!(found(KEYED), vec![1; ROWS]);

    faults.unreadable(folder.to_str().unwrap());
    let publications = [("snapshot", archive(&snapshots[1])), ("changes", changes([3], 3))];
    let mut refused = 0;
    for (what, body) in &publications {
        let failed = faults.failed();
        let reply = service.publish(&http, NAME, what, body).unwrap();
        assert_ne!(reply.status, 200, "{what}");
        let refusal = reply.refusal();
        assert_eq!(refusal.code, Code::Internal, "{refusal:?}");
        assert!(refusal.message.contains(paths[0].to_str().unwrap()), "{refusal:?}");
        assert!(faults.failed() > failed, "{what}: {refusal:?}");
        refused += 1;
        assert!(service.runs());
        assert_eq!(found(NAME), vec![1; ROWS]);
        // The client sends keys again that exist only on disk. The server cannot store them
        // elsewhere, so the client gets an error.
        let forgotten = editions(&service.url, KEYED, &cache).unwrap_err();
        assert!(matches!(forgotten, ClientError::KeysForgotten), "{forgotten}");
    }
    let failed = faults.failed();

    faults.unreadable("");
    for (what, body) in &publications {
        service.published(&http, NAME, what, body);
    }
    let mut expected = vec![2; ROWS];
    expected[3] = 3;
    assert_eq!(found(NAME), expected);
    assert_eq!(found(KEYED), vec![1; ROWS]);
    println!("{refused} publications refused and {failed} reads failed while a server answered on");
}
