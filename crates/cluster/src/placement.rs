//! Placement: the workers of each share of each snapshot, as an orchestrator tells a coordinator.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hyper::Uri;
use serde::{Deserialize, Serialize};
use spirea_backend::Share;
use spirea_protocols::Version;

/// Maximum length of the document, in bytes.
pub(crate) const MAX_PLACEMENT_BYTES: usize = 16 << 20;

/// List of workers, as a JSON document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The databases; each name occurs once.
    pub databases: Vec<DatabasePlacement>,
}

/// The snapshots of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabasePlacement {
    /// Name of the database and of its snapshots.
    pub name: String,
    /// Snapshots, oldest first. The last one whose shares all have a ready worker is current.
    pub snapshots: Vec<SnapshotPlacement>,
}

/// A snapshot and its workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotPlacement {
    /// Folder with the files that the coordinator needs: all but the matrix.
    pub path: PathBuf,
    /// Required version: the coordinator refuses a folder with any other.
    pub version: Version,
    /// Addresses of each share's replicas, in the order of the shares, such as
    /// `https://worker-3:7000`. The list of a share without replicas is empty.
    pub shares: Vec<Vec<String>>,
}

/// Error for a placement that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the placement cannot be used: {0}; the one before it stays")]
pub struct PlacementError(pub(crate) String);

impl Placement {
    /// Parses a document.
    ///
    /// # Errors
    /// [`PlacementError`] with the place of the error.
    pub fn from_json(json: &[u8]) -> Result<Self, PlacementError> {
        if json.len() > MAX_PLACEMENT_BYTES {
            return Err(PlacementError(format!("it is longer than {MAX_PLACEMENT_BYTES} bytes")));
        }
        let placement: Self =
            serde_json::from_slice(json).map_err(|error| PlacementError(error.to_string()))?;
        placement.check()?;
        Ok(placement)
    }

    fn check(&self) -> Result<(), PlacementError> {
        let wrong = |detail: String| Err(PlacementError(detail));
        let mut names = BTreeSet::new();
        for DatabasePlacement { name, snapshots } in &self.databases {
            if !names.insert(name) {
                return wrong(format!("there are two databases called {name:?}"));
            }
            let mut paths = BTreeSet::new();
            for SnapshotPlacement { path, shares, .. } in snapshots {
                let path = path.display().to_string();
                if !paths.insert(path.clone()) {
                    return wrong(format!("database {name:?} has {path} twice"));
                }
                if shares.is_empty() || shares.len() > Share::MOST {
                    return wrong(format!("{path}: a snapshot has 1 to {} shares", Share::MOST));
                }
                for replicas in shares {
                    let distinct: BTreeSet<&String> = replicas.iter().collect();
                    if distinct.len() != replicas.len() {
                        return wrong(format!("{path}: a share names one replica twice"));
                    }
                    if let Some(url) = replicas.iter().find(|url| Address::parse(url).is_none()) {
                        return wrong(format!("{path}: {url:?} is no address such as https://worker-3:7000"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Host and port on which a worker listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub host: String,
    pub port: u16,
}

impl Address {
    /// Parses a URL. Returns `None` unless it consists of `https`, a host and a port alone.
    pub fn parse(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let authority = uri.authority()?;
        let plain = uri.scheme_str() == Some("https")
            && uri.path() == "/"
            && uri.query().is_none()
            && !authority.as_str().contains('@');
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16()?;
        (plain && !host.is_empty()).then_some(Self { host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(shares: &str) -> String {
        let version = "0".repeat(64);
        format!(
            r#"{{"databases":[{{"name":"words","snapshots":[{{"path":"/a","version":"{version}","shares":{shares}}}]}}]}}"#
        )
    }

    #[test]
    fn a_document_survives_and_says_what_is_wrong_with_it() {
        let json = snapshot(r#"[["https://a:1","https://[::1]:2"],[]]"#);
        let placement = Placement::from_json(json.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&placement).unwrap(), json);
        for (wrong, message) in [
            (snapshot("[]"), "1 to 65536 shares"),
            (snapshot(r#"[["http://a:1"]]"#), "https://worker-3:7000"),
            (snapshot(r#"[["https://a"]]"#), "no address"),
            (snapshot(r#"[["https://a:1/x"]]"#), "no address"),
            (snapshot(r#"[["https://me:pw@a:1"]]"#), "no address"),
            (snapshot(r#"[["https://a:1","https://a:1"]]"#), "one replica twice"),
            (
                r#"{"databases":[{"name":"a","snapshots":[]},{"name":"a","snapshots":[]}]}"#.into(),
                "two databases",
            ),
            (json.replace("\"shares\"", "\"share\""), "unknown field"),
            (json.replace(r#""version":"0000"#, r#""version":"000"#), "cannot be used"),
            (json.replace(r#""version""#, r#""edition""#), "unknown field"),
            (
                json.replace(
                    "]}]}]}",
                    &format!(r#"]}},{{"path":"/a","version":"{}","shares":[[]]}}]}}]}}"#, "1".repeat(64)),
                ),
                "twice",
            ),
            (String::new(), "cannot be used"),
        ] {
            let error = Placement::from_json(wrong.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(message), "{wrong}: {error}");
        }
    }

    #[test]
    fn addresses_are_hosts_and_ports() {
        let address = |url| Address::parse(url).map(|Address { host, port }| (host, port));
        assert_eq!(address("https://a.b:7"), Some(("a.b".into(), 7)));
        assert_eq!(address("https://[::1]:7"), Some(("::1".into(), 7)));
        assert_eq!(address("https://a:99999"), None);
    }
}
