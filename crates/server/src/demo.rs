//! The demo page: the files of a folder, read once, beside the endpoints for clients.
//!
//! The page is a client like any other. That its server also gives it the client's code is what makes it a demo: whoever
//! does not trust a server does not take the code from it either.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use axum::Router;
use axum::extract::{Path as UrlPath, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use bytes::Bytes;

use crate::refused::Refused;

/// Its first file.
const INDEX: &str = "index.html";
/// Beside its own files it may run the compiled client, and ask other servers: a protocol may have two.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; worker-src 'self'; \
     connect-src 'self' http: https:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";
/// The most folders within each other, and the most bytes of all files.
const MOST: (usize, u64) = (4, 16 << 20);

/// Why there is no demo.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A file cannot be read.
    #[error("{}: the demo page cannot be read: {source}; `make web` makes it", .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no page.
    #[error("{}: there is no {INDEX} in it, or much that is no page: this is not the folder that `make web` makes", .0.display())]
    NoPage(PathBuf),
}

/// The files of the page by their paths, with their types.
pub(crate) struct Demo(HashMap<String, (&'static str, Bytes)>);

impl Demo {
    /// Reads the files of a folder that a page may have.
    pub fn read(folder: &Path) -> Result<Self, DemoError> {
        let mut files = HashMap::new();
        let mut left = MOST.1;
        collect(folder, "", MOST.0, &mut left, &mut files)?;
        if files.contains_key(INDEX) && left > 0 {
            Ok(Self(files))
        } else {
            Err(DemoError::NoPage(folder.into()))
        }
    }

    /// The page, below `/demo/`; whoever comes without a path is sent there.
    pub fn router(self: Arc<Self>) -> Router {
        let page = || async { Redirect::temporary("/demo/") };
        Router::new()
            .route("/", get(page))
            .route("/demo", get(page))
            .route("/demo/", get(|State(demo): State<Arc<Self>>| async move { demo.file(INDEX) }))
            .route("/demo/{*path}", get(named))
            .with_state(self)
    }

    fn file(&self, path: &str) -> Response {
        let Some((content_type, content)) = self.0.get(path) else {
            return Refused::no_such_endpoint().into_response();
        };
        let headers = [
            (CONTENT_TYPE, *content_type),
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        (headers, content.clone()).into_response()
    }
}

async fn named(State(demo): State<Arc<Demo>>, UrlPath(path): UrlPath<String>) -> Response {
    demo.file(&path)
}

fn collect(
    folder: &Path,
    prefix: &str,
    depth: usize,
    left: &mut u64,
    files: &mut HashMap<String, (&'static str, Bytes)>,
) -> Result<(), DemoError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| DemoError::Read { path, source }
    };
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let about = fs::metadata(&path).map_err(failed(&path))?;
        if about.is_dir() && depth > 0 {
            collect(&path, &format!("{prefix}{name}/"), depth - 1, left, files)?;
        } else if let Some(content_type) = content_type(name) {
            *left = left.saturating_sub(about.len());
            if *left > 0 {
                let content = fs::read(&path).map_err(failed(&path))?;
                files.insert(format!("{prefix}{name}"), (content_type, content.into()));
            }
        }
    }
    Ok(())
}

/// The type of a file that a page may have.
fn content_type(name: &str) -> Option<&'static str> {
    Some(match name.rsplit('.').next()? {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_page_are_read_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Demo::read(&folder.path().join("none")), Err(DemoError::Read { .. })));
        fs::create_dir_all(folder.path().join("worker/deep")).unwrap();
        fs::write(folder.path().join("worker/web.js"), "1").unwrap();
        fs::write(folder.path().join("private.pem"), "2").unwrap();
        assert!(matches!(Demo::read(folder.path()), Err(DemoError::NoPage(_))));
        fs::write(folder.path().join("index.html"), "<!doctype html>").unwrap();
        fs::write(folder.path().join("worker/deep/client.wasm"), "3").unwrap();
        let demo = Demo::read(folder.path()).unwrap();
        let mut paths: Vec<_> = demo.0.keys().map(String::as_str).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["index.html", "worker/deep/client.wasm", "worker/web.js"]);
        assert_eq!(demo.file("worker/deep/client.wasm").headers()[CONTENT_TYPE], "application/wasm");
        for path in ["private.pem", "../private.pem", "worker", ""] {
            assert_eq!(demo.file(path).status(), 404, "{path}");
        }
        fs::File::create(folder.path().join("large.js")).unwrap().set_len(MOST.1).unwrap();
        assert!(matches!(Demo::read(folder.path()), Err(DemoError::NoPage(_))));
    }
}
