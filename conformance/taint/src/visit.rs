//! A visit: a client connects to its servers and looks up values, with all secrets marked.

use std::collections::VecDeque;
use std::io::Read as _;
use std::thread::sleep;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::instance::{Instance, Message};
use crate::machine::{Machine, Trap};
use crate::module::Module;

/// Results of `step`, as numbered by `bindings/wasm`.
mod next {
    pub const SEND: u32 = 1;
    pub const READ: u32 = 2;
    pub const WAIT: u32 = 3;
    pub const FAILED: u32 = 6;
}

/// Bytes of a response in one message.
const PIECE_BYTES: usize = 1 << 18;
/// Maximum bytes of a response.
const MOST_BYTES: u64 = 1 << 30;

/// Failures of a visit.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    /// Trap of the instance.
    #[error("the instance stopped: {trap}; open calls, the innermost first: {calls:?}")]
    Stopped {
        /// The cause.
        trap: Trap,
        /// Functions that were open.
        calls: Vec<String>,
    },
    /// Failure that the client reports.
    #[error("the client failed: {0}")]
    Failed(Value),
    /// Failure of a server to answer.
    #[error("{url}: {error}")]
    Server {
        /// The address.
        url: String,
        /// The cause.
        error: Box<ureq::Error>,
    },
    /// Bytes without marks that must depend on a secret. Marks were lost, so the check proves
    /// nothing.
    #[error("{0} has no mark any more, so marks were lost on the way")]
    Unmarked(String),
}

/// Values that are looked up together.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// Values of these keys.
    Keys(Vec<String>),
    /// Values at these indices.
    Indices(Vec<u64>),
}

/// The servers and look-ups of a visit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Address of each server.
    pub addresses: Vec<String>,
    /// Name of the database.
    pub database: String,
    /// Look-ups, in order.
    pub wanted: Vec<Wanted>,
    /// True to look up by one query over several bins.
    #[serde(default)]
    pub fetch: bool,
    /// True to let a second client reuse the first client's evaluation keys.
    #[serde(default)]
    pub resume: bool,
    /// Reason whose marks are kept, so that its effects are found.
    #[serde(default)]
    pub keep: Option<String>,
}

/// A client on a visit.
struct Visitor<'m> {
    instance: Instance<'m>,
    agent: ureq::Agent,
}

impl Visitor<'_> {
    fn stopped(&self, trap: Trap) -> VisitError {
        VisitError::Stopped { trap, calls: self.instance.machine.backtrace() }
    }

    fn call(&mut self, export: &str) -> Result<u32, VisitError> {
        self.instance.call(export).map_err(|trap| self.stopped(trap))
    }

    fn output(&mut self) -> Result<Message, VisitError> {
        self.instance.output().map_err(|trap| self.stopped(trap))
    }

    fn tell(&mut self, export: &str, message: &Message) -> Result<(), VisitError> {
        match self.instance.tell(export, message) {
            Ok(true) => Ok(()),
            Ok(false) => Err(VisitError::Failed(self.output()?.head)),
            Err(trap) => Err(self.stopped(trap)),
        }
    }

    /// Sends a request; returns the messages for the instance, in order.
    fn send(&self, request: &Message) -> Result<VecDeque<Message>, VisitError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (server, url) = (&request.head["server"], text(&request.head["url"]));
        let is_post = request.head["method"] == "POST";
        if is_post && !request.is_secret() {
            return Err(VisitError::Unmarked(format!("the request to {url}")));
        }
        let failed = |error| VisitError::Server { url: url.clone(), error: Box::new(error) };
        let mut made = ureq::http::Request::builder().method(if is_post { "POST" } else { "GET" }).uri(&url);
        for header in request.head["headers"].as_array().into_iter().flatten() {
            made = made.header(text(&header[0]), text(&header[1]));
        }
        let response = match is_post {
            true => {
                self.agent.run(made.body(&request.body[..]).expect("the client's requests are well-formed"))
            }
            false => self.agent.run(made.body(()).expect("the client's requests are well-formed")),
        };
        let mut response = response.map_err(failed)?;
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let head = json!({
            "received": "head", "server": server, "status": response.status().as_u16(),
            "etag": header("etag"), "retryAfter": header("retry-after"),
        });
        let mut body = Vec::new();
        let read = response.body_mut().as_reader().take(MOST_BYTES).read_to_end(&mut body);
        read.map_err(|error| failed(error.into()))?;
        let piece = |bytes: &[u8]| Message::with_body(json!({"received": "piece", "server": server}), bytes);
        let pieces = body.chunks(PIECE_BYTES).chain([&[][..]]).map(piece);
        Ok([Message::of(head)].into_iter().chain(pieces).collect())
    }

    /// Runs the conversation to its end; returns its last message.
    fn converse(&mut self) -> Result<Message, VisitError> {
        let mut responses: Vec<VecDeque<Message>> = Vec::new();
        let mut came = VecDeque::new();
        loop {
            let next = self.call("step")?;
            let message = self.output()?;
            // Hints that a page would store are ignored: they are public.
            match next {
                next::SEND => {
                    let server = message.head["server"].as_u64().unwrap_or_default() as usize;
                    responses.resize_with(responses.len().max(server + 1), VecDeque::new);
                    responses[server] = self.send(&message)?;
                    came.extend(responses[server].pop_front());
                }
                next::READ => {
                    let server = message.head.as_u64().unwrap_or_default() as usize;
                    came.extend(responses[server].pop_front());
                }
                next::WAIT if came.is_empty() => {
                    sleep(Duration::from_secs_f64(message.head.as_f64().unwrap_or_default() / 1000.0));
                }
                next::WAIT => {
                    for received in came.drain(..).collect::<Vec<_>>() {
                        self.tell("received", &received)?;
                    }
                }
                next::FAILED => return Err(VisitError::Failed(message.head)),
                _ => return Ok(message),
            }
        }
    }

    fn connect(&mut self, plan: &Plan) -> Result<(), VisitError> {
        let addresses: Vec<_> = plan.addresses.iter().map(|address| [address]).collect();
        let options = json!({"addresses": addresses, "database": plan.database, "acceptWeakPrf": false});
        self.tell("connect", &Message::of(options))?;
        self.converse().map(|_| ())
    }

    /// Looks up values; returns the text of each value's fields, or the outcome if there is no
    /// value.
    fn look_up(&mut self, plan: &Plan, wanted: &Wanted) -> Result<Vec<Value>, VisitError> {
        let fetch = plan.fetch;
        let (head, body) = match wanted {
            Wanted::Keys(keys) => {
                let lengths: Vec<_> = keys.iter().map(String::len).collect();
                (json!({"wanted": "keys", "lengths": lengths, "fetch": fetch}), keys.concat().into_bytes())
            }
            Wanted::Indices(indices) => {
                let bytes = indices.iter().flat_map(|index| index.to_le_bytes()).collect();
                (json!({"wanted": "indices", "fetch": fetch}), bytes)
            }
        };
        self.tell("look_up", &Message::secret(head, body))?;
        let found = self.converse()?;
        if !found.body.is_empty() && !found.is_secret() {
            return Err(VisitError::Unmarked("a value".into()));
        }
        let mut rest = &found.body[..];
        let mut field = |length: &Value| {
            let (bytes, others) = rest.split_at(length.as_u64().unwrap_or_default() as usize);
            rest = others;
            Value::from(String::from_utf8_lossy(bytes))
        };
        let outcomes = found.head["values"].as_array().into_iter().flatten();
        let shown = |outcome: &Value| match outcome["value"].as_array() {
            Some(lengths) => lengths.iter().map(&mut field).collect(),
            None => outcome.clone(),
        };
        Ok(outcomes.map(shown).collect())
    }

    /// Returns the stored evaluation keys, as messages for the next client.
    fn kept_keys(&mut self) -> Result<Vec<Message>, VisitError> {
        let mut given = Vec::new();
        self.call("keep_keys")?;
        while self.call("take_keys")? != 0 {
            let Message { head, mut body, mut marks } = self.output()?;
            let record = head["record"].as_u64().unwrap_or_default() as usize;
            marks.truncate(record);
            // The server has received the keys, so they are public.
            given.push(Message::with_body(json!({"stored": "keys"}), &body.split_off(record)));
            given.push(Message { head: json!({"stored": "secret"}), body, marks });
        }
        Ok(given)
    }
}

/// Result of a visit.
pub struct Visited<'m> {
    /// Values of all look-ups, in order.
    pub values: Vec<Value>,
    /// Instances of all clients.
    pub machines: Vec<Machine<'m, crate::instance::Page>>,
}

/// Makes a visit.
///
/// # Errors
/// [`VisitError`]
pub fn visit<'m>(module: &'m Module, plan: &Plan) -> Result<Visited<'m>, VisitError> {
    let mut visited = Visited { values: Vec::new(), machines: Vec::new() };
    let mut given = Vec::new();
    for seed in 0..1 + u64::from(plan.resume) {
        let instance = Instance::new(module, seed);
        let instance = instance.map_err(|trap| VisitError::Stopped { trap, calls: Vec::new() })?;
        let agent = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).build();
        let mut visitor = Visitor { instance, agent: agent.into() };
        visitor.instance.machine.kept.clone_from(&plan.keep);
        for message in given.drain(..) {
            visitor.tell("give", &message)?;
        }
        visitor.connect(plan)?;
        for wanted in &plan.wanted {
            visited.values.extend(visitor.look_up(plan, wanted)?);
        }
        given = visitor.kept_keys()?;
        visited.machines.push(visitor.instance.machine);
    }
    Ok(visited)
}
