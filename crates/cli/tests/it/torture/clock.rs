//! Jumps of the system clock.

use spirea_client::HttpClient;
use spirea_wire::Code;
use tempfile::tempdir;

use crate::torture::faults::Faults;
use crate::torture::replica::token;
use crate::torture::service::{Http, Service, serve};
use crate::torture::table::{self, ROWS, changes, edition_of, editions, key, repository, snapshot};

const NAME: &str = "table";
const DAY: i64 = 24 * 60 * 60;
/// Jumps forwards, backwards, and to before the epoch.
const JUMPS: [i64; 7] = [1, -1, DAY, -DAY, 3650 * DAY, -3650 * DAY, -40_000 * DAY];

#[test]
fn jumps_of_the_clock_change_no_answer_no_order_and_no_quota() {
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let path = repository(folder, &snapshot(folder, NAME, "simple", 1));
    let faults = Faults::new(folder);
    // After each jump, one client makes two look-ups. It makes another one at the end.
    let quota = 2 * JUMPS.len() + 1;
    let (token, file) = token(folder, quota);
    let admin = ["--tokens", file.to_str().unwrap()];
    let log = folder.join("server.log");
    let open = Service::started(faults.within(serve(&[&path], &[])), &log);
    let charged = folder.join("charged");
    table::copy(&path, &charged);
    let limited = Service::started(faults.within(serve(&[&charged], &admin)), &folder.join("limited.log"));
    let connect = |url: &str, token: Option<String>| {
        let options = spirea_client::ClientOptions { token, ..table::options(&folder.join("cache")) };
        HttpClient::connect_with(&[url], NAME, options).unwrap()
    };
    let (mut client, mut charged) = (connect(&open.url, None), connect(&limited.url, Some(token)));
    let http = Http::new();
    let mut expected = vec![1; ROWS];
    for (jump, edition) in JUMPS.into_iter().zip(2..) {
        faults.clock(jump);
        let row = edition as usize % ROWS;
        open.published(&http, NAME, "changes", &changes([row], edition));
        expected[row] = edition;
        // A client connected earlier learns of the new version from its first answer. A new client
        // gets that version at once.
        let mut ask = || edition_of(row, client.get_keys(&[key(row).as_bytes()]).unwrap()[0].as_ref());
        ask();
        assert_eq!(ask(), edition, "after a jump by {jump} s");
        assert_eq!(editions(&open.url, NAME, &folder.join("cache")).unwrap(), expected);
        for row in [0, 1] {
            let values = charged.get_keys(&[key(row).as_bytes()]).unwrap();
            assert_eq!(edition_of(row, values[0].as_ref()), 1);
        }
    }
    charged.get_keys(&[key(0).as_bytes()]).unwrap();
    // Less than a day has passed, whatever the clock said.
    let refused = charged.get_keys(&[key(0).as_bytes()]).unwrap_err();
    assert!(refused.to_string().contains("quota"), "{refused} is no {:?}", Code::QuotaExceeded);

    open.published(&http, NAME, "compact", b"");
    assert_eq!(editions(&open.url, NAME, &folder.join("cache")).unwrap(), expected);
    drop(open);
    faults.clock(0);
    let again = Service::started(serve(&[&path], &[]), &log);
    assert_eq!(editions(&again.url, NAME, &folder.join("cache")).unwrap(), expected);
    println!(
        "the clock jumped {} times: all answers right, versions in order, {quota} of {quota} look-ups charged",
        JUMPS.len()
    );
}
