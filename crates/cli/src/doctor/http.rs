//! Examination of the server over HTTP: its health, its databases, and the access that this
//! client's token gives.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use spirea_client::{ClientError, EnvironmentProxy, TransportError, agent, proxy_for};
use spirea_console::access::tls;
use spirea_console::output::{bytes, seconds};
use spirea_wire::{Config, Limits};
use ureq::Agent;
use ureq::http::Response;
use ureq::http::header::{AUTHORIZATION, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, EXPECT, RANGE};

use super::network::Address;
use super::report::Report;

const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of bytes read from a response's body.
const BODY_BYTES: u64 = 1 << 20;
/// Maximum length of a request that probes the limit of a proxy, in bytes.
const PROBE_BYTES: u64 = 8 << 20;
/// Clock skew above which certificates and the times in logs cause trouble.
const SKEW: Duration = Duration::from_secs(30);
/// Time above which even a tiny response counts as slow.
const SLOW: Duration = Duration::from_millis(500);

/// A database as a server lists it.
pub struct Found {
    pub name: String,
    /// Entity tag of the configuration, which is the version.
    pub version: String,
}

/// A server over HTTP.
pub struct Http {
    agent: Agent,
    /// Proxy that the environment names for requests to this server.
    through: Option<EnvironmentProxy>,
    url: String,
    authorization: Option<String>,
}

/// A response, with the time it took.
struct Reply {
    status: u16,
    response: Response<()>,
    body: Vec<u8>,
    took: Duration,
}

impl Reply {
    fn header(&self, name: ureq::http::HeaderName) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

impl Http {
    pub fn new(url: &str, ca: Option<&Path>, token: Option<&str>) -> anyhow::Result<Self> {
        let through = proxy_for(url)?;
        let config = Agent::config_builder()
            .user_agent(concat!("spirea-doctor/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(PATIENCE))
            .tls_config(tls(ca)?)
            .proxy(through.as_ref().map(|through| through.proxy().clone()))
            .build();
        let authorization = token.map(|token| format!("Bearer {token}"));
        Ok(Self { agent: agent(config), through, url: url.trim_end_matches('/').into(), authorization })
    }

    fn get(&self, path: &str, headers: &[(ureq::http::HeaderName, &str)]) -> Result<Reply, ureq::Error> {
        let started = Instant::now();
        let mut request = self.agent.get(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let (parts, body) = request.call()?.into_parts();
        let took = started.elapsed();
        let body = body.into_with_config().limit(BODY_BYTES).read_to_vec()?;
        Ok(Reply { status: parts.status.as_u16(), response: Response::from_parts(parts, ()), body, took })
    }

    /// Sends a request with the token, which goes only to endpoints that need it.
    fn get_allowed(&self, path: &str, range: Option<&str>) -> Result<Reply, ureq::Error> {
        let token = self.authorization.as_deref().map(|token| (AUTHORIZATION, token));
        let headers: Vec<_> = token.into_iter().chain(range.map(|range| (RANGE, range))).collect();
        self.get(path, &headers)
    }

    /// Examines the server and a database: `wanted`, or the first database that answers.
    pub fn examine(
        &self,
        report: &mut Report,
        address: &Address,
        wanted: Option<&str>,
    ) -> anyhow::Result<Option<Found>> {
        let Some(()) = self.examine_health(report, address)? else { return Ok(None) };
        self.examine_readiness(report)?;
        let Some(name) = self.examine_list(report, wanted)? else { return Ok(None) };
        self.examine_database(report, name)
    }

    fn examine_health(&self, report: &mut Report, address: &Address) -> anyhow::Result<Option<()>> {
        let reply = match self.get("/healthz", &[]) {
            Ok(reply) => reply,
            Err(error) => {
                let error = TransportError::from(error);
                let error = self.through.as_ref().map_or(error.clone(), |through| through.named(error));
                let said = ClientError::from(error).to_string();
                report.fail("http", said, "check that a Spirea server listens on this port")?;
                return Ok(None);
            }
        };
        if reply.status != 200 || reply.body != b"ok\n" {
            let detail = format!("/healthz gives status {} and is not a Spirea server's", reply.status);
            report.fail("http", detail, "check the address, and that proxies in between pass requests on")?;
            return Ok(None);
        }
        let took = format!("/healthz in {}", seconds(reply.took.as_secs_f64()));
        match reply.took > SLOW {
            true => report.warn("http", took, "the network or the server is slow")?,
            false => report.ok("http", took)?,
        }
        let there = reply.header(DATE).and_then(|date| httpdate::parse_http_date(date).ok());
        let skew = there.map(|there| {
            let now = SystemTime::now();
            now.duration_since(there).unwrap_or_else(|error| error.duration())
        });
        match skew {
            _ if address.is_local => (),
            Some(skew) if skew > SKEW => {
                let detail = format!("this machine's and the server's differ by {} s", skew.as_secs());
                report.warn("clock", detail, "set both by a time server")?;
            }
            Some(_) => report.ok("clock", "as the server's")?,
            None => {
                report.warn("clock", "the server's is not told", "have the proxy pass the header Date on")?
            }
        }
        Ok(Some(()))
    }

    fn examine_readiness(&self, report: &mut Report) -> anyhow::Result<()> {
        let reply = self.get("/readyz", &[])?;
        let said = reply.json().unwrap_or_default();
        if reply.status == 200 {
            return report.ok("ready", "all databases answer");
        }
        if reply.status == 404 {
            // The configurations in deploy/balancers keep /readyz from clients. The list of
            // databases is examined next.
            return report.ok("ready", "a proxy keeps /readyz from clients");
        }
        if said["leaving"] == true {
            return report.fail("ready", "the server is stopping", "wait for it to be replaced");
        }
        let databases = said["databases"].as_array().cloned().unwrap_or_default();
        let waiting = databases.iter().filter(|database| database["state"] != "ready").map(|database| {
            let word = |key: &str| database[key].as_str().unwrap_or_default().to_owned();
            format!("{} is {} {}", word("name"), word("state"), word("error")).trim().to_owned()
        });
        let detail = format!("status {}: {}", reply.status, waiting.collect::<Vec<_>>().join(", "));
        report.fail("ready", detail, "wait while databases are loading; the server's log says why one failed")
    }

    /// Checks that proxies pass requests as long as those of clients. Checks two lengths: of a
    /// request that is divided as the server asks, and of a look-up followed by the client's keys.
    fn examine_sizes(&self, report: &mut Report, name: &str, config: &[u8]) -> anyhow::Result<Option<()>> {
        let Ok(config) = Config::decode(config.to_vec().into()) else { return Ok(Some(())) };
        let limits = Limits { max_batch: 1, ..config.limits() };
        let keys: u64 = limits.parts().map(|part| part.keys_bytes as u64).sum();
        let with_keys = limits.request_bytes();
        let divided = match config.request_bytes {
            0 => with_keys,
            bytes => bytes.max(with_keys - keys),
        };
        for length in [divided, with_keys].map(|length| length.min(PROBE_BYTES)) {
            let refused = match self.probe(name, length) {
                // The server itself refused the request, so the request passed all proxies.
                Ok(415) => continue,
                Ok(status) => format!("status {status}"),
                Err(error) => error.to_string(),
            };
            let detail = format!("a request of {} does not reach the server: {refused}", bytes(length));
            if length == divided.min(PROBE_BYTES) {
                let remedy = "raise the limit of the proxy in between (nginx: client_max_body_size 72m), or lower limits.request_bytes of the server";
                report.fail("sizes", detail, remedy)?;
                return Ok(None);
            }
            let remedy = "keep clients at one replica (deploy/balancers), or raise the limit of the proxy in between (nginx: client_max_body_size 72m)";
            report.warn("sizes", format!("{detail}; clients send that where replicas take turns"), remedy)?;
            return Ok(Some(()));
        }
        report.ok("sizes", format!("requests of {} reach the server", bytes(divided.max(with_keys))))?;
        Ok(Some(()))
    }

    /// Sends a body of `length` bytes, and returns the status. The server refuses the body by its
    /// type, without reading it. A proxy that accepts no body of this length refuses it first.
    fn probe(&self, name: &str, length: u64) -> Result<u16, ureq::Error> {
        let mut request = self.agent.post(format!("{}/v1/databases/{name}/query", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let body = vec![0; usize::try_from(length).unwrap_or_default()];
        let request = request.header(CONTENT_TYPE, "application/octet-stream").header(EXPECT, "100-continue");
        Ok(request.send(&body[..])?.status().as_u16())
    }

    /// Chooses the database to go on with.
    fn examine_list(&self, report: &mut Report, wanted: Option<&str>) -> anyhow::Result<Option<String>> {
        let reply = self.get_allowed("/v1/databases", None)?;
        let given = if self.authorization.is_some() { "the token" } else { "a request without a token" };
        match reply.status {
            200 => report.ok("access", format!("the server takes {given}"))?,
            401 => {
                let remedy = "name a file with a token (--token-file), which the operator makes with `spirea token new`";
                report.fail("access", format!("the server does not take {given}"), remedy)?;
                return Ok(None);
            }
            403 => {
                report.fail("access", "the token may not query", "have the scope query added to it")?;
                return Ok(None);
            }
            429 => {
                report.fail("access", "the server or the token has too many requests", "try again later")?;
                return Ok(None);
            }
            status => {
                report.fail("access", format!("status {status}"), "the server's log says why")?;
                return Ok(None);
            }
        }
        let said = reply.json().unwrap_or_default();
        let databases = said["databases"].as_array().cloned().unwrap_or_default();
        let ready = databases.iter().filter(|database| database["state"] == "ready");
        let ready: Vec<&str> = ready.filter_map(|database| database["name"].as_str()).collect();
        let chosen = wanted.or(ready.first().copied());
        match chosen.filter(|chosen| ready.contains(chosen)) {
            Some(chosen) => {
                report.ok("list", format!("{} of {} databases answer", ready.len(), databases.len()))?;
                Ok(Some(chosen.into()))
            }
            None => {
                let detail = match chosen {
                    Some(chosen) => format!("{chosen} is not among those that answer: {}", ready.join(", ")),
                    None => "no database answers".into(),
                };
                report.fail("list", detail, "name one that does (--database), or see the server's log")?;
                Ok(None)
            }
        }
    }

    fn examine_database(&self, report: &mut Report, name: String) -> anyhow::Result<Option<Found>> {
        let config = self.get_allowed(&format!("/v1/databases/{name}/config"), None)?;
        let (200, Some(tag)) = (config.status, config.header(ETAG)) else {
            let detail = format!("{name}: status {}, entity tag {:?}", config.status, config.header(ETAG));
            report.fail("config", detail, "have proxies pass status and ETag on; see the server's log")?;
            return Ok(None);
        };
        let version = tag.trim_start_matches("W/").trim_matches('"').to_owned();
        let short: String = version.chars().take(8).collect();
        report.ok("config", format!("{name} is at version {short}…, {}", bytes(config.body.len() as u64)))?;
        let Some(()) = self.examine_sizes(report, &name, &config.body)? else { return Ok(None) };

        let hint = self.get_allowed(&format!("/v1/databases/{name}/hint"), Some("bytes=0-0"));
        let (status, range) = match &hint {
            Ok(reply) => (reply.status, reply.header(CONTENT_RANGE)),
            // A server without ranges sends the whole body, which exceeds the limit here.
            Err(ureq::Error::BodyExceedsLimit(_)) => (200, None),
            Err(error) => {
                report.fail("hint", error.to_string(), "see the server's log")?;
                return Ok(None);
            }
        };
        let total = range.and_then(|range| range.rsplit_once('/')?.1.parse::<u64>().ok());
        match (status, total) {
            (206, Some(total)) => report.ok("hint", format!("{} in ranges", bytes(total)))?,
            (416, Some(0)) => report.ok("hint", "none needed")?,
            (200, _) => report.warn(
                "hint",
                "comes as a whole only, so that a download that breaks off begins anew",
                "have proxies and caches pass Range on",
            )?,
            _ => {
                report.fail("hint", format!("status {status}"), "see the server's log")?;
                return Ok(None);
            }
        }
        Ok(Some(Found { name, version }))
    }
}
