//! Looks keys up in a table, and the server does not learn which.

use std::error::Error;
use std::process::ExitCode;

use spirea::Client;

fn look_up(url: &str, database: &str, keys: &[String]) -> Result<(), Box<dyn Error>> {
    let mut client = Client::connect(url, database)?;
    for (key, record) in keys.iter().zip(client.get_many(keys)?) {
        let Some(record) = record else {
            println!("{key}: not found");
            continue;
        };
        for (name, value) in record.fields() {
            println!("{key}: {name} = {}", String::from_utf8_lossy(value));
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [url, database, keys @ ..] if !keys.is_empty() => look_up(url, database, keys),
        _ => Err("usage: rust-client URL DATABASE KEY...".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
