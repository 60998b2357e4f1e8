//! Addresses of servers and names of databases, as people write them.

use std::path::Path;

use spirea_store::manifest::{NAME_RULE, valid_name};

/// The address of a server that is asked.
///
/// # Errors
/// The way from a file or a folder, which has no address, to a server.
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

/// The name of a database.
///
/// # Errors
/// The rule that it breaks.
pub fn database(name: &str) -> Result<String, String> {
    if valid_name(name) { Ok(name.into()) } else { Err(format!("a database's name has {NAME_RULE}")) }
}
