//! `spirea doctor`: the whole path from a client to an answer, step by step.

mod http;
mod look_up;
mod network;
mod report;

use clap::Args;
use spirea_console::access::Access;
use spirea_console::address;
use spirea_console::output::Format;
use spirea_console::status::Status;

use self::http::Http;
use self::report::Report;
use crate::about;

/// Options of `spirea doctor`.
#[derive(Args)]
pub struct Options {
    /// Address of the server, such as http://127.0.0.1:8080.
    #[arg(value_parser = address::server, required_unless_present = "report")]
    url: Option<String>,
    /// Address of the other server, for a database that two servers answer for.
    #[arg(long, value_name = "URL", value_parser = address::server, requires = "url")]
    other: Option<String>,
    /// The database to look something up in; the first that is ready by default.
    #[arg(long, value_name = "NAME", value_parser = address::database)]
    database: Option<String>,
    /// First print the facts about the program and this machine that a bug report needs. They
    /// contain no name, path or value of yours.
    #[arg(long)]
    report: bool,
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
    if options.report {
        about::program().into_iter().chain(about::machine()).try_for_each(|fact| report.fact(&fact))?;
    }
    let urls: Vec<&str> = [&options.url, &options.other].into_iter().flatten().map(String::as_str).collect();
    let mut databases = Vec::new();
    for url in &urls {
        report.of(url);
        if let Some(address) = network::examine(&mut report, url, options.access.ca.as_deref())? {
            let http = Http::new(url, options.access.ca.as_deref(), token.as_deref())?;
            databases.push(http.examine(&mut report, &address, options.database.as_deref())?);
        }
    }
    // A look-up needs all servers. After a failure it would only repeat the reported fault.
    if !report.has_failed() && !urls.is_empty() {
        let names: Vec<_> = databases.into_iter().flatten().collect();
        look_up::examine(&mut report, &urls, &names, options.access.options()?)?;
    }
    Ok(Status::of(!report.has_failed()))
}
