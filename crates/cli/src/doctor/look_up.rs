//! A real look-up by a client, verified by the checksum in the record.

use spirea_client::{ClientOptions, HttpClient};
use spirea_console::output::{bytes, seconds};
use spirea_protocols::TableKind;

use super::http::Found;
use super::report::Report;

/// Number of look-ups for the latency.
const LOOK_UPS: usize = 5;

/// Examines one database on all its servers.
pub fn examine(
    report: &mut Report,
    urls: &[&str],
    found: &[Found],
    options: ClientOptions,
) -> anyhow::Result<()> {
    let [first, others @ ..] = found else { return Ok(()) };
    if let Some(other) =
        others.iter().find(|other| (&other.name, &other.version) != (&first.name, &first.version))
    {
        let of = |found: &Found| {
            format!("{} at {}", found.name, found.version.chars().take(8).collect::<String>())
        };
        let remedy = "publish the same snapshot on both, and name it with --database";
        return report.fail(
            "parties",
            format!("one serves {}…, the other {}…", of(first), of(other)),
            remedy,
        );
    }
    if !others.is_empty() {
        report.ok("parties", "both serve one version")?;
    }
    let remedy = "what is said there is to be done";
    let mut client = match HttpClient::connect_with(urls, &first.name, options) {
        Ok(client) => client,
        Err(error) => return report.fail("look-up", error.to_string(), remedy),
    };
    let mut round_trips = Vec::new();
    let (mut server, mut traffic) = (0.0, 0);
    for _ in 0..LOOK_UPS {
        // An absent key suffices: its answer also comes from a record with a checksum.
        let looked_up = match client.table().kind {
            TableKind::Index => client.look_up_indices(&[0]),
            TableKind::Keyword => client.look_up_keys(&[b"spirea doctor"]),
        };
        match looked_up {
            Ok(lookups) => {
                let timings = lookups.timings;
                round_trips.push((timings.server + timings.network).as_secs_f64());
                server += timings.server.as_secs_f64() / LOOK_UPS as f64;
                traffic = timings.sent_bytes + timings.received_bytes;
            }
            Err(error) => return report.fail("look-up", error.to_string(), remedy),
        }
    }
    report.ok("look-up", format!("{} answers, and the answer's checksum is right", first.name))?;
    round_trips.sort_by(f64::total_cmp);
    let (median, longest) = (round_trips[LOOK_UPS / 2], round_trips[LOOK_UPS - 1]);
    report.ok(
        "latency",
        format!(
            "median {}, longest {} of {LOOK_UPS}, of which the server computes {}; {} each",
            seconds(median),
            seconds(longest),
            seconds(server),
            bytes(traffic)
        ),
    )
}
