//! Parsers of server addresses and database names on the command line.

use std::path::Path;

use spirea_store::manifest::{NAME_RULE, valid_name};

/// Parses the address of a server.
///
/// # Errors
/// If the text names a file or a folder, an error that names the commands that serve it.
pub fn server(text: &str) -> Result<String, String> {
    let path = Path::new(text);
    let steps = if text.starts_with("http://") || text.starts_with("https://") || !path.exists() {
        return Ok(text.into());
    } else if path.is_dir() {
        format!("serve it with `spirea serve {text}`")
    } else {
        format!(
            "build a snapshot of it with `spirea build --input {text} --key COLUMN --value COLUMN --out FOLDER`, serve that with `spirea serve FOLDER`"
        )
    };
    let what = if path.is_dir() { "folder" } else { "file" };
    Err(format!(
        "it is a {what}, not the address of a server: {steps}, and give the address that the server prints"
    ))
}

/// Parses the name of a database.
///
/// # Errors
/// The rule that the name breaks.
pub fn database(name: &str) -> Result<String, String> {
    if valid_name(name) { Ok(name.into()) } else { Err(format!("a database's name has {NAME_RULE}")) }
}
