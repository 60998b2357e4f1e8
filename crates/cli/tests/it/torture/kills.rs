//! A server that is killed at random times while it publishes, compacts and receives keys.

use std::collections::HashSet;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use spirea_client::Session;
use spirea_wire::Code;
use tempfile::tempdir;

use crate::torture::edition::Edition;
use crate::torture::scale::{Dice, Scale};
use crate::torture::service::{Http, Service, serve};
use crate::torture::table::{ROWS, archive, changes, edition_of, editions, key, repository, snapshot};

/// Database for publications.
const NAME: &str = "table";
/// Database for which clients register keys.
const KEYED: &str = "keyed";
/// Number of clients whose keys are checked after each restart.
const REMEMBERED: usize = 3;
/// Far longer than a server takes to accept a client's keys, or to publish while other programs use
/// all processors.
const PATIENCE: Duration = Duration::from_secs(600);
/// First edition that changes publish; snapshots have lower editions.
const FIRST_CHANGE: u64 = 10;

/// Expected contents of the table.
struct Model {
    /// Contents with all acknowledged publications.
    settled: Vec<u64>,
    /// Contents that also include the last publication, if it was neither acknowledged nor refused.
    unknown: Option<Vec<u64>>,
    next: u64,
    acknowledged: u64,
}

impl Model {
    /// Publishes until the server is gone, one publication after another, so that only two contents
    /// are possible. Sends a message after each publication that the server acknowledged.
    fn publish(
        &mut self,
        service: &Service,
        archives: &[Vec<u8>],
        dice: &mut Dice,
        acknowledged: &Sender<()>,
    ) {
        let http = Http::new();
        loop {
            let mut wanted = self.settled.clone();
            let (what, body) = if dice.below(4) == 0 {
                let which = dice.below(archives.len());
                wanted.fill(which as u64 + 1);
                ("snapshot", archives[which].clone())
            } else {
                let rows: HashSet<usize> = (0..=dice.below(3)).map(|_| dice.below(ROWS)).collect();
                rows.iter().for_each(|&row| wanted[row] = self.next);
                let body = changes(rows, self.next);
                self.next += 1;
                ("changes", body)
            };
            self.unknown = Some(wanted);
            let Ok(reply) = service.publish(&http, NAME, what, &body) else { return };
            assert_eq!(reply.status, 200, "{what}: {:?}", reply.refusal());
            self.settled = self.unknown.take().expect("it has just been put there");
            self.acknowledged += 1;
            // The test receives only the first message.
            let _ = acknowledged.send(());
        }
    }

    /// Checks that the table has all acknowledged publications, and the last one either as a whole
    /// or not at all.
    fn check(&mut self, found: Vec<u64>) {
        let right = found == self.settled || Some(&found) == self.unknown.as_ref();
        assert!(right, "found {found:?}, acknowledged {:?}, sent {:?}", self.settled, self.unknown);
        self.settled = found;
        self.unknown = None;
    }
}

/// Registers a client's keys. Returns true if the server acknowledged them.
fn register(session: &Session, http: &Http, service: &Service) -> bool {
    session.keys().into_iter().all(|keys| {
        let Ok(reply) = http.post(&service.data(KEYED, "keys"), &[], &keys.request()) else { return false };
        assert_eq!(reply.status, 200, "{:?}", reply.refusal());
        keys.check(reply.body).unwrap();
        true
    })
}

/// Checks that the server answers under keys that it accepted before it was killed, without a new
/// upload.
fn answers(session: &mut Session, http: &Http, service: &Service) {
    let round = session.query_keys(&[key(0).as_bytes()]).unwrap();
    let reply = http.post(&service.data(KEYED, "query"), &[], &round.requests[0]).unwrap();
    assert_eq!(reply.status, 200, "{:?}", reply.refusal());
    let response = session.read(1, reply.body).unwrap();
    let values = session.decode(round.pending, &[response]).unwrap().values;
    assert_eq!(edition_of(0, values[0].as_ref()), 1);
}

/// Compacts until the server is gone.
fn compact(service: &Service) {
    let http = Http::new();
    while let Ok(reply) = service.publish(&http, NAME, "compact", b"") {
        if reply.status != 200 {
            assert_eq!(reply.refusal().code, Code::Busy);
        }
    }
}

/// Registers keys until the server is gone. Sends a message after the first client, and returns the
/// clients whose keys were accepted.
fn register_all(service: &Service, edition: &Edition, first: &Sender<()>) -> Vec<Session> {
    let http = Http::new();
    let clients = std::iter::repeat_with(|| edition.session());
    let taken = clients.take_while(|session| register(session, &http, service));
    let tell = |_: &Session| {
        // The test receives only the first message.
        let _ = first.send(());
    };
    taken.inspect(tell).collect()
}

#[test]
fn a_killed_server_comes_back_with_all_that_it_acknowledged() {
    let (scale, mut dice) = (Scale::chosen(), Dice::new(1));
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let snapshots = [1, 2, 3].map(|edition| snapshot(folder, NAME, "simple", edition));
    let archives = snapshots.each_ref().map(archive);
    let keyed = snapshot(folder, KEYED, "exppack-simple", 1);
    let paths = [repository(folder, &snapshots[0]), repository(folder, &keyed)];
    let (keys, log) = (folder.join("keys"), folder.join("server.log"));
    // A database with keys takes long to load, so only some of the servers have it.
    let command = |keyed| {
        let folders = [paths[0].as_path(), paths[1].as_path()];
        serve(&folders[..1 + usize::from(keyed)], &["--keys-dir", keys.to_str().unwrap()])
    };

    let mut model = Model { settled: vec![1; ROWS], unknown: None, next: FIRST_CHANGE, acknowledged: 0 };
    let mut remembered: Vec<Session> = Vec::new();
    let (mut taken, mut in_flight) = (0, 0);
    for kill in 0..=scale.kills {
        let keyed = kill % scale.keyed_each == 0;
        let service = Service::started(command(keyed), &log);
        model.check(editions(&service.url, NAME, &folder.join("cache")).unwrap());
        let http = Http::new();
        if keyed {
            remembered.iter_mut().for_each(|session| answers(session, &http, &service));
        }
        if kill == scale.kills {
            break;
        }
        let edition = keyed.then(|| Edition::download(&http, &service, KEYED));
        let mut publishing = Dice::new(2 + kill as u64);
        let (first, registered) = channel();
        let (acknowledge, acknowledged) = channel();
        let new = thread::scope(|scope| {
            let publisher = scope.spawn(|| model.publish(&service, &archives, &mut publishing, &acknowledge));
            let compactor = scope.spawn(|| compact(&service));
            let registrar = scope
                .spawn(|| edition.map_or_else(Vec::new, |edition| register_all(&service, &edition, &first)));
            if keyed {
                registered.recv_timeout(PATIENCE).expect("the server takes keys");
            }
            if kill == 0 {
                acknowledged.recv_timeout(PATIENCE).expect("the server publishes");
            }
            thread::sleep(dice.within(scale.life));
            service.kill();
            publisher.join().unwrap();
            compactor.join().unwrap();
            registrar.join().unwrap()
        });
        in_flight += usize::from(model.unknown.is_some());
        taken += new.len();
        remembered.extend(new);
        remembered.drain(..remembered.len().saturating_sub(REMEMBERED));
        // The server is killed while loading, too.
        if kill % 4 == 3 {
            let loading = Service::start(command(false), &log).unwrap();
            thread::sleep(dice.within(scale.life / 8));
            loading.kill();
        }
    }
    println!(
        "{} kills: {} publications acknowledged, {in_flight} in flight, keys of {taken} clients taken; none lost",
        scale.kills, model.acknowledged
    );
    assert!(model.acknowledged > 0 && taken > 0);
}
