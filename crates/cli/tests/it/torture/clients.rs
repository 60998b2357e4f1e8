//! Clients send queries while versions are published continuously.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use spirea_client::Session;
use spirea_protocols::Version;
use spirea_wire::Code;
use tempfile::tempdir;

use crate::torture::edition::Edition;
use crate::torture::scale::{Dice, Scale};
use crate::torture::service::{Http, Service, serve};
use crate::torture::table::{ROWS, archive, changes, edition_of, key, repository, snapshot};

const NAME: &str = "table";
const CHANGES_EVERY: Duration = Duration::from_secs(1);
/// Every publication whose number is a multiple of this is a whole snapshot.
const SNAPSHOTS_EVERY: u64 = 5;

/// State shared by the clients, including the version that they consider the newest.
struct Shared<'a> {
    service: &'a Service,
    edition: RwLock<Arc<Edition>>,
    refreshing: Mutex<()>,
    /// Newest edition that a client may see.
    published: AtomicU64,
    done: AtomicBool,
}

impl Shared<'_> {
    fn edition(&self) -> Arc<Edition> {
        Arc::clone(&self.edition.read())
    }

    /// Downloads the newest version, once for all clients that ask.
    fn refresh(&self, http: &Http, known: &Version) {
        let _turn = self.refreshing.lock();
        if self.edition().description.version() == known {
            let newest = Arc::new(Edition::download(http, self.service, NAME));
            *self.edition.write() = newest;
        }
    }
}

/// A client, with the editions that it has seen.
struct Client {
    session: Session,
    /// Newest edition of each pair of rows. The rows of a pair are always published together.
    seen: [u64; ROWS / 2],
}

/// Results of the requests of some clients.
#[derive(Default)]
struct Tally {
    answered: u64,
    refused: BTreeMap<&'static str, u64>,
    versions: u64,
}

impl Client {
    /// Asks for a pair. Every request must end in a right answer, or in a refusal with a reason.
    fn ask(&mut self, shared: &Shared<'_>, http: &Http, pair: usize, tally: &mut Tally) {
        let newest = shared.edition();
        if newest.description.version() != self.session.description().version() {
            self.session = newest.follow(&self.session);
            tally.versions += 1;
        }
        let rows = [2 * pair, 2 * pair + 1];
        let keys = rows.map(key);
        let round = self.session.query_keys(&keys.each_ref().map(String::as_bytes)).unwrap();
        let url = shared.service.data(NAME, "query");
        let reply = http.post(&url, &[], &round.requests[0]).expect("no request is lost");
        let version = *self.session.description().version();
        if reply.status != 200 {
            let code = reply.refusal().code;
            assert!(!reply.refusal().accepted, "an accepted query was lost: {:?}", reply.refusal());
            *tally.refused.entry(code.as_str_name()).or_default() += 1;
            // If the version has changed its shape, messages have other lengths.
            assert!(matches!(code, Code::StaleVersion | Code::Malformed | Code::TooLarge | Code::Overloaded));
            if code != Code::Overloaded {
                shared.refresh(http, &version);
            }
            return;
        }
        let response = self.session.read(2, reply.body).unwrap();
        let is_newest = response.newest == version;
        let values = self.session.decode(round.pending, &[response]).unwrap().values;
        let [first, second] = [0, 1].map(|i| edition_of(rows[i], values[i].as_ref()));
        assert_eq!(first, second, "the records of one request are of two versions");
        assert!(first >= self.seen[pair], "edition {first} after {}", self.seen[pair]);
        assert!(first <= shared.published.load(Ordering::SeqCst), "edition {first} is not published yet");
        self.seen[pair] = first;
        tally.answered += 1;
        if !is_newest {
            shared.refresh(http, &version);
        }
    }
}

/// Publishes changes, and sometimes whole snapshots, until the clients have asked long enough.
fn publish(shared: &Shared<'_>, folder: &std::path::Path, until: Instant) -> [u64; 2] {
    let (http, mut dice, mut counts) = (Http::new(), Dice::new(201), [0; 2]);
    let mut next = Instant::now();
    for edition in 2.. {
        next += CHANGES_EVERY;
        thread::sleep(next.saturating_duration_since(Instant::now()));
        // Continues until each kind is published at least once, even on a slow machine.
        if Instant::now() >= until && counts.iter().all(|&count| count > 0) {
            break;
        }
        let whole = edition % SNAPSHOTS_EVERY == 0;
        let (what, body) = match whole {
            true => ("snapshot", archive(&snapshot(folder, NAME, "simple", edition))),
            false => {
                let pairs = [dice.below(ROWS / 2), dice.below(ROWS / 2)];
                let last = usize::from(pairs[0] != pairs[1]);
                let rows = pairs[..=last].iter().flat_map(|pair| [2 * pair, 2 * pair + 1]);
                ("changes", changes(rows, edition))
            }
        };
        shared.published.store(edition, Ordering::SeqCst);
        shared.service.published(&http, NAME, what, &body);
        counts[usize::from(whole)] += 1;
    }
    shared.done.store(true, Ordering::SeqCst);
    counts
}

#[test]
fn clients_are_never_wrong_while_versions_come() {
    let scale = Scale::chosen();
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let path = repository(folder, &snapshot(folder, NAME, "simple", 1));
    let service = Service::started(serve(&[&path], &[]), &folder.join("server.log"));
    let edition = Arc::new(Edition::download(&Http::new(), &service, NAME));
    let shared = Shared {
        service: &service,
        edition: RwLock::new(edition),
        refreshing: Mutex::default(),
        published: AtomicU64::new(1),
        done: AtomicBool::new(false),
    };
    let ask = |thread: usize| {
        let (http, mut dice, mut tally) = (Http::new(), Dice::new(300 + thread as u64), Tally::default());
        let count = scale.clients.div_ceil(scale.threads);
        let client = |_| Client { session: shared.edition().session(), seen: [1; ROWS / 2] };
        let mut clients: Vec<Client> = (0..count).map(client).collect();
        while !shared.done.load(Ordering::SeqCst) {
            for client in &mut clients {
                client.ask(&shared, &http, dice.below(ROWS / 2), &mut tally);
            }
        }
        tally
    };
    let ask = &ask;
    let (tallies, published) = thread::scope(|scope| {
        let asking: Vec<_> = (0..scale.threads).map(|thread| scope.spawn(move || ask(thread))).collect();
        let published = publish(&shared, folder, Instant::now() + scale.asking);
        (asking.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>(), published)
    });
    let sum = |count: fn(&Tally) -> u64| tallies.iter().map(count).sum::<u64>();
    let mut refused = BTreeMap::<&str, u64>::new();
    for (code, count) in tallies.iter().flat_map(|tally| &tally.refused) {
        *refused.entry(code).or_default() += count;
    }
    let [changes, snapshots] = published;
    println!(
        "{} clients, {changes} changes and {snapshots} snapshots: {} requests answered, {} moves to a newer version, none wrong, none lost; refused {refused:?}",
        scale.clients,
        sum(|tally| tally.answered),
        sum(|tally| tally.versions)
    );
    assert!(sum(|tally| tally.answered) > 0 && changes > 0 && snapshots > 0);
}
