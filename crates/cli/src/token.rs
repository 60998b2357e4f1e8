//! `spirea token`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand, ValueEnum};
use spirea_apple::privacy_pass::IssuerKey;
use spirea_console::output::{print_error, print_line};
use spirea_console::status::Status;
use spirea_server::{Quota, Scope, Secret, parse_tier};
use zeroize::Zeroizing;

use crate::private_file::write_new;

/// Tokens, by which a server knows who may ask.
#[derive(Subcommand)]
pub enum Token {
    /// Make a token, and the lines for the server's file of tokens.
    New(New),
    /// Make a key that signs private tokens of Apple's clients, in a new file that its owner alone
    /// can read; print the lines for the file of private tokens.
    Issuer {
        /// The file.
        file: PathBuf,
        /// Name of the tier whose users get the tokens.
        #[arg(long, value_parser = parse_tier)]
        tier: String,
        /// The most tokens of each user in each period, such as 100/day.
        #[arg(long)]
        issues: Option<Quota>,
    },
    /// Make a token for a user to whom private tokens are issued, and the lines for the file of
    /// private tokens.
    User {
        /// Name of the user's tier.
        #[arg(long, value_parser = parse_tier)]
        tier: String,
    },
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

/// Makes a token or a key.
pub fn run(token: &Token) -> anyhow::Result<Status> {
    match token {
        Token::New(options) => new(options),
        Token::Issuer { file, tier, issues } => issuer(file, tier, *issues),
        Token::User { tier } => user(tier),
    }
}

/// Makes an issuer's key.
fn issuer(path: &Path, tier: &str, issues: Option<Quota>) -> anyhow::Result<Status> {
    let key = IssuerKey::generate()?;
    write_new(path, &key.to_pem()?)?;
    let mut lines = vec![
        "[[key]]".into(),
        format!("tier = {tier:?}"),
        format!("private = {:?}", path.display().to_string()),
    ];
    lines.extend(issues.map(|quota| format!("issues = \"{quota}\"")));
    lines.iter().try_for_each(|line| print_line(line))?;
    Ok(Status::SUCCESS)
}

/// Makes a user's token: 32 bytes that follow from a random secret. Devices send it as Base64.
fn user(tier: &str) -> anyhow::Result<Status> {
    let secret = Secret::new()?;
    let text = Zeroizing::new(STANDARD.encode(secret.hash().as_bytes()));
    print_error(
        "The user's token, which is not kept anywhere and is shown only now, is on standard output. Lines for the file of private tokens:",
    );
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let lines = ["", "[[user]]", &format!("tier = {tier:?}"), &format!("blake3 = \"{hash}\""), ""];
    lines.iter().for_each(|line| print_error(line));
    print_line(&text)?;
    Ok(Status::SUCCESS)
}

/// Makes a token.
fn new(options: &New) -> anyhow::Result<Status> {
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
