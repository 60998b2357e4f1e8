//! `spirea doctor`: the whole path from a client to an answer, step by step.

mod http;
mod look_up;
mod network;
mod report;

use clap::Args;

use self::http::Http;
use self::report::Report;
use crate::access::Access;
use crate::address;
use crate::output::Format;
use crate::status::Status;

/// Options of `spirea doctor`.
#[derive(Args)]
pub struct Options {
    /// Address of the server, such as http://127.0.0.1:8080.
    #[arg(value_parser = address::server)]
    url: String,
    /// Address of the other server, for a database that two servers answer for.
    #[arg(long, value_name = "URL", value_parser = address::server)]
    other: Option<String>,
    /// The database to look something up in; the first that is ready by default.
    #[arg(long, value_name = "NAME", value_parser = address::database)]
    database: Option<String>,
    #[command(flatten)]
    access: Access,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Examines the path and prints the results. The status is 0 if a client gets answers, and 1 if a
/// check failed.
pub fn run(options: &Options) -> anyhow::Result<Status> {
    let token = options.access.token()?;
    let mut report = Report::new(Format::from_flag(options.json));
    let urls: Vec<&str> = [Some(&*options.url), options.other.as_deref()].into_iter().flatten().collect();
    let mut databases = Vec::new();
    for url in &urls {
        report.of(url);
        if let Some(address) = network::examine(&mut report, url, options.access.ca.as_deref())? {
            let http = Http::new(url, options.access.ca.as_deref(), token.as_deref())?;
            databases.push(http.examine(&mut report, &address, options.database.as_deref())?);
        }
    }
    // A look-up needs all servers; after a failure it would only repeat the cause.
    if !report.has_failed() {
        let names: Vec<_> = databases.into_iter().flatten().collect();
        look_up::examine(&mut report, &urls, &names, options.access.options()?)?;
    }
    Ok(Status::of(!report.has_failed()))
}
