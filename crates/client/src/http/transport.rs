//! Transport of a conversation's requests over HTTP.

use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ureq::http::header::{AUTHORIZATION, ETAG, RETRY_AFTER};
use ureq::http::{HeaderName, Response};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, BodyReader, Proxy, RequestBuilder};

use super::trust::root_certificates;
use super::{ClientOptions, EnvironmentProxy, agent};
use crate::{ClientError, Conversation, Head, Method, Received, Request, Step, TransportError};

/// Size of a read, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Minimum rate of a request or a response, in bytes per second: each byte extends the deadline of
/// its request by the time of a byte at this rate.
const LEAST_RATE: f64 = (16 << 10) as f64;

/// Interval at which a waiting call checks whether to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Connections that carry a client's conversations. Servers have separate connections, and other
/// clients do not share them.
pub(super) struct Carriers {
    /// Connections in the order of the servers' addresses.
    connections: Vec<Connections>,
    /// Flag that ends conversations while it is true.
    stop: Option<Arc<AtomicBool>>,
}

/// The connections to one server; clones share them.
#[derive(Clone)]
struct Connections {
    /// The environment's proxy, if there is one, and the agent for addresses that are reached
    /// through it.
    proxied: Option<(EnvironmentProxy, Agent)>,
    /// Agent for all other addresses, among them this machine's.
    direct: Agent,
    authorization: Option<String>,
    timeout: Duration,
}

/// The connections to one server, and the unread rest of the latest response.
struct Transport {
    connections: Connections,
    body: Option<BodyReader<'static>>,
    /// Deadline of the request and its response.
    deadline: Instant,
}

/// Task of a server's thread.
enum Task {
    Send(Request),
    Read,
}

impl Connections {
    /// Creates connections to a server with these options.
    fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        let roots = options.ca.as_deref().map(root_certificates).transpose()?.unwrap_or(RootCerts::WebPki);
        let tls = TlsConfig::builder().root_certs(roots).build();
        let through = |proxy: Option<Proxy>| {
            let config = Agent::config_builder()
                .user_agent(concat!("spirea/", env!("CARGO_PKG_VERSION")))
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .timeout_resolve(Some(options.connect_timeout))
                .timeout_connect(Some(options.connect_timeout))
                .timeout_send_request(Some(options.timeout))
                .timeout_recv_response(Some(options.timeout))
                .timeout_per_read(Some(options.timeout))
                .timeout_per_write(Some(options.timeout))
                .tls_config(tls.clone())
                .proxy(proxy)
                .build();
            agent(config)
        };
        let authorization = options.token.as_ref().map(|token| format!("Bearer {token}"));
        Ok(Self {
            proxied: EnvironmentProxy::read()?.map(|proxy| {
                let agent = through(Some(proxy.proxy().clone()));
                (proxy, agent)
            }),
            direct: through(None),
            authorization,
            timeout: options.timeout,
        })
    }

    /// Returns the agent for an address, and the proxy that it goes through.
    fn agent(&self, url: &str) -> (&Agent, Option<&EnvironmentProxy>) {
        match &self.proxied {
            Some((proxy, agent)) if proxy.serves(url) => (agent, Some(proxy)),
            _ => (&self.direct, None),
        }
    }

    fn with_headers<B>(&self, builder: RequestBuilder<B>, request: &Request) -> RequestBuilder<B> {
        let authorization = self.authorization.iter().map(|token| (AUTHORIZATION, token));
        let headers = request.headers.iter().map(|(name, value)| (HeaderName::from_static(name), value));
        authorization.chain(headers).fold(builder, |builder, (name, value)| builder.header(name, value))
    }
}

impl Transport {
    fn carry(&mut self, task: Task) -> Received {
        match task {
            Task::Send(request) => self.send(&request),
            Task::Read => self.read(),
        }
    }

    fn send(&mut self, request: &Request) -> Received {
        self.body = None;
        let server = &self.connections;
        let upload = server.timeout + time_of(request.body.len());
        self.deadline = Instant::now() + upload;
        let (agent, proxy) = server.agent(&request.url);
        let sent = match request.method {
            Method::Get => server.with_headers(agent.get(&request.url), request).call(),
            Method::Post => {
                let post = server.with_headers(agent.post(&request.url), request);
                post.config().timeout_send_body(Some(upload)).build().send(&request.body[..])
            }
        };
        match sent {
            Ok(response) => {
                let head = head(&response);
                self.body = Some(response.into_body().into_reader());
                Received::Head(head)
            }
            Err(error) => {
                let error = error.into();
                Received::Failed(match proxy {
                    Some(proxy) => proxy.named(error),
                    None => error,
                })
            }
        }
    }

    fn read(&mut self) -> Received {
        let Some(body) = &mut self.body else { return Received::Piece(Bytes::new()) };
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match body.read(&mut piece) {
                Ok(length) => {
                    self.deadline += time_of(length);
                    if Instant::now() > self.deadline {
                        self.body = None;
                        return Received::Failed(too_slow());
                    }
                    piece.truncate(length);
                    return Received::Piece(piece.into());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return Received::Failed(ureq::Error::from(error).into()),
            }
        }
    }
}

impl Carriers {
    /// Creates connections to `servers` servers with these options.
    pub fn new(options: &ClientOptions, servers: usize) -> Result<Self, ClientError> {
        let connections = (0..servers).map(|_| Connections::new(options)).collect::<Result<_, _>>()?;
        Ok(Self { connections, stop: options.stop.clone() })
    }

    /// Creates carriers over the same connections, for conversations that `stop` ends.
    pub fn beside(&self, stop: Arc<AtomicBool>) -> Self {
        Self { connections: self.connections.clone(), stop: Some(stop) }
    }

    /// Ends conversations while `stop` is true.
    pub fn stop_by(&mut self, stop: Arc<AtomicBool>) {
        self.stop = Some(stop);
    }

    /// Performs the steps of a conversation until it is over or stopped, with one thread for each
    /// server.
    pub fn hold<T>(&self, mut conversation: Conversation<'_, T>) -> Result<T, ClientError> {
        let (back, received) = mpsc::channel();
        let start = |(server, connections)| Way::start(server, connections, &back);
        let mut ways: Vec<Way> = self.connections.iter().cloned().enumerate().map(start).collect();
        let outcome = loop {
            if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                break Err(ClientError::Stopped);
            }
            match conversation.step() {
                Step::Send { server, request } => ways[server].give(Task::Send(request)),
                Step::Read { server } => ways[server].give(Task::Read),
                Step::Wait { at_most } => {
                    let at_most = match (&self.stop, at_most) {
                        (None, at_most) => at_most,
                        (Some(_), at_most) => Some(at_most.unwrap_or(LOOK).min(LOOK)),
                    };
                    let came = match at_most {
                        Some(length) => received.recv_timeout(length),
                        None => received.recv().map_err(RecvTimeoutError::from),
                    };
                    match came {
                        Ok((server, received)) => {
                            ways[server].is_busy = false;
                            conversation.received(server, received);
                        }
                        Err(RecvTimeoutError::Timeout) => (),
                        Err(RecvTimeoutError::Disconnected) => unreachable!("this function has a sender"),
                    }
                }
                Step::Done(result) => break result,
            }
        };
        ways.into_iter().for_each(Way::end);
        outcome
    }
}

/// A thread that carries requests to one server.
struct Way {
    tasks: Sender<Task>,
    thread: JoinHandle<()>,
    /// True while the thread has a task.
    is_busy: bool,
}

impl Way {
    fn start(server: usize, connections: Connections, back: &Sender<(usize, Received)>) -> Self {
        let (tasks, given) = mpsc::channel();
        let back = back.clone();
        let thread = thread::spawn(move || {
            let mut transport = Transport { connections, body: None, deadline: Instant::now() };
            // The receiver is gone once the conversation is over.
            let _ = given.into_iter().try_for_each(|task| back.send((server, transport.carry(task))));
        });
        Self { tasks, thread, is_busy: false }
    }

    fn give(&mut self, task: Task) {
        self.is_busy = true;
        self.tasks.send(task).expect("its thread waits for tasks");
    }

    /// Waits for the thread if it is idle; its connection is then free for the next conversation. A
    /// thread with a pending request is detached instead, and ends when the server answers or the
    /// request times out.
    fn end(self) {
        let Self { tasks, thread, is_busy } = self;
        drop(tasks);
        if !is_busy && let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Returns the maximum time for this number of bytes.
fn time_of(bytes: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / LEAST_RATE)
}

fn too_slow() -> TransportError {
    TransportError::TimedOut("the response came too slowly; try again, or allow a longer timeout".into())
}

fn head(response: &Response<Body>) -> Head {
    let header = |name| {
        response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    Head { status: response.status().as_u16(), etag: header(ETAG), retry_after: header(RETRY_AFTER) }
}
