//! `spirea token`.

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use spirea_console::output::{print_error, print_line};
use spirea_console::status::Status;
use spirea_server::{Quota, Scope, Secret};

/// Tokens, by which a server knows who may ask.
#[derive(Subcommand)]
pub enum Token {
    /// Make a token, and the lines for the server's file of tokens.
    New(New),
}

/// Options of `spirea token new`.
#[derive(Args)]
pub struct New {
    /// Name of the owner, unique within the file.
    #[arg(long)]
    name: String,
    /// Scope of the token; may be given again.
    #[arg(long = "scope", value_enum, required = true)]
    scopes: Vec<ScopeName>,
    /// The most queries in each period, such as 1000/day; also second, minute and hour.
    #[arg(long)]
    quota: Option<Quota>,
    /// The most requests at once.
    #[arg(long)]
    concurrency: Option<usize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ScopeName {
    Query,
    Publish,
    Admin,
    Follow,
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::Query => Self::Query,
            ScopeName::Publish => Self::Publish,
            ScopeName::Admin => Self::Admin,
            ScopeName::Follow => Self::Follow,
        }
    }
}

/// Makes a token.
pub fn run(Token::New(options): &Token) -> anyhow::Result<Status> {
    if options.name.is_empty() || options.name.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
        bail!("--name: a token's name is a text without quotes and backslashes");
    }
    if options.concurrency == Some(0) {
        bail!("--concurrency: a token that may have no request allows nothing; give at least 1");
    }
    let token = Secret::new()?;
    // Only the token goes to standard output, so that `> file` stores nothing else.
    print_error(
        "The token, which is not kept anywhere and is shown only now, is on standard output. Lines for the file of tokens:",
    );
    print_error("");
    entry(options, &token).iter().for_each(|line| print_error(line));
    print_error("");
    print_line(token.expose())?;
    Ok(Status::SUCCESS)
}

/// Formats the token's lines for the file.
fn entry(options: &New, token: &Secret) -> Vec<String> {
    let scopes: Vec<String> =
        options.scopes.iter().map(|&scope| format!("\"{}\"", Scope::from(scope).name())).collect();
    let mut lines = vec![
        "[[token]]".into(),
        format!("name = \"{}\"", options.name),
        format!("blake3 = \"{}\"", token.hash().to_hex()),
        format!("scopes = [{}]", scopes.join(", ")),
    ];
    lines.extend(options.quota.map(|quota| format!("quota = \"{quota}\"")));
    lines.extend(options.concurrency.map(|concurrency| format!("concurrency = {concurrency}")));
    lines
}
