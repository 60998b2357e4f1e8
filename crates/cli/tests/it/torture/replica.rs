//! One of two servers dies while clients ask: each request is answered, and charged once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use spirea_client::{ClientOptions, HttpClient};
use spirea_wire::Code;
use tempfile::tempdir;

use crate::torture::scale::{Dice, Scale};
use crate::torture::service::{Http, SPIREA, Service, serve};
use crate::torture::table::{self, ROWS, edition_of, key, repository, snapshot};

const NAME: &str = "table";
const THREADS: usize = 2;
/// Number of repeated deliveries of one request.
const RETRIES: usize = 4;

/// Makes a token with a quota, and the file that contains it.
pub fn token(folder: &Path, quota: usize) -> (String, PathBuf) {
    let made = Command::new(SPIREA)
        .args(["token", "new", "--name", "phones", "--scope", "query", "--quota", &format!("{quota}/day")])
        .output()
        .unwrap();
    assert!(made.status.success());
    let lines = String::from_utf8(made.stderr).unwrap();
    let file = folder.join("tokens.toml");
    std::fs::write(&file, &lines[lines.find("[[token]]").unwrap()..]).unwrap();
    (String::from_utf8(made.stdout).unwrap().trim().into(), file)
}

/// Number of queries that the server has answered.
fn answered(service: &Service) -> usize {
    let reply = Http::new().get(&format!("{}/metrics", service.url)).unwrap();
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    let line = text.lines().find(|line| {
        line.starts_with("spirea_requests_total") && line.contains("/query\"") && line.contains("\"200\"")
    });
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[test]
fn a_dead_replica_costs_no_answer_and_no_second_charge() {
    let (scale, mut dice) = (Scale::chosen(), Dice::new(600));
    let folder = tempdir().unwrap();
    let folder = folder.path();
    // At the end, single queries use up the remaining quota.
    let quota = scale.lookups + 20;
    let (token, file) = token(folder, quota);
    let repositories = [repository(folder, &snapshot(folder, NAME, "simple", 1)), folder.join("copy")];
    table::copy(&repositories[0], &repositories[1]);
    let services: Vec<Service> = repositories
        .iter()
        .enumerate()
        .map(|(i, path)| {
            let command = serve(&[path], &["--tokens", file.to_str().unwrap()]);
            Service::started(command, &folder.join(format!("{i}.log")))
        })
        .collect();
    let [first, second] = &services[..] else { unreachable!("there are two repositories") };

    let asked = AtomicUsize::new(0);
    let dies_after = 1 + dice.below(scale.lookups / 2);
    let client = |thread: usize| {
        let options = ClientOptions {
            token: Some(token.clone()),
            replicas: vec![vec![second.url.clone()]],
            ..table::options(&folder.join(format!("cache-{thread}")))
        };
        HttpClient::connect_with(&[&first.url], NAME, options).unwrap()
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (asked, client) = (&asked, &client);
            scope.spawn(move || {
                let mut client = client(thread);
                for i in 0..scale.lookups / THREADS {
                    let row = i % ROWS;
                    let values = client.get_keys(&[key(row).as_bytes()]).unwrap();
                    assert_eq!(edition_of(row, values[0].as_ref()), 1);
                    asked.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        while asked.load(Ordering::SeqCst) < dies_after {
            thread::yield_now();
        }
        first.kill();
    });
    assert_eq!(asked.into_inner(), scale.lookups / THREADS * THREADS);

    // The survivor charges what it answered. Now one request is repeated, then others follow until
    // the quota is used up.
    let survivor_answered = answered(second);
    let http = Http::new();
    let bearer = format!("Bearer {token}");
    let mut session = {
        let get = |endpoint: &str| http.get_with(&second.data(NAME, endpoint), &bearer).body;
        let description = spirea_client::Description::parse(NAME, get("config")).unwrap();
        let hint = description.base().hint(get("hint").to_vec()).unwrap();
        spirea_client::Session::new(description, &[hint]).unwrap()
    };
    let mut deliver = |times: usize| {
        let round = session.query_keys(&[key(0).as_bytes()]).unwrap();
        let id = hex::encode(dice.bytes(16));
        let headers = [("authorization", bearer.as_str()), ("spirea-request-id", id.as_str())];
        let url = second.data(NAME, "query");
        let mut replies = (0..times).map(|_| http.post(&url, &headers, &round.requests[0]).unwrap());
        replies.find(|reply| reply.status != 200).map(|refused| refused.refusal().code)
    };
    assert_eq!(deliver(1 + RETRIES), None, "a retry was refused");
    let mut left = 0;
    let last = loop {
        match deliver(1) {
            None => left += 1,
            Some(code) => break code,
        }
    };
    assert_eq!(last, Code::QuotaExceeded);
    println!(
        "{} look-ups, one of two servers killed after {dies_after}: all answered, {survivor_answered} by the survivor; of a quota of {quota}, {left} were left after one request more that was delivered {} times",
        scale.lookups,
        1 + RETRIES
    );
    assert_eq!(survivor_answered + 1 + left, quota);
}
