//! Carrying a conversation's requests over HTTP.

use std::io::{ErrorKind, Read};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use bytes::Bytes;
use ureq::http::header::{AUTHORIZATION, ETAG, RETRY_AFTER};
use ureq::http::{HeaderName, Response};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, BodyReader, RequestBuilder};

use super::ClientOptions;
use super::trust::root_certificates;
use crate::{ClientError, Conversation, Head, Method, Received, Request, Step};

/// Bytes read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The connections to one server.
pub(super) struct Transport {
    agent: Agent,
    authorization: Option<String>,
    /// What is yet to be read of the latest response.
    body: Option<BodyReader<'static>>,
}

/// What a server's thread is to do.
enum Task {
    Send(Request),
    Read,
}

impl Transport {
    /// Connections to a server as these options say.
    pub fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        let roots = options.ca.as_deref().map(root_certificates).transpose()?.unwrap_or(RootCerts::WebPki);
        let agent = Agent::config_builder()
            .user_agent(concat!("spirea/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(options.connect_timeout))
            .timeout_per_read(Some(options.timeout))
            .timeout_per_write(Some(options.timeout))
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .build()
            .new_agent();
        let authorization = options.token.as_ref().map(|token| format!("Bearer {token}"));
        Ok(Self { agent, authorization, body: None })
    }

    fn carry(&mut self, task: Task) -> Received {
        match task {
            Task::Send(request) => self.send(&request),
            Task::Read => self.read(),
        }
    }

    fn send(&mut self, request: &Request) -> Received {
        self.body = None;
        let sent = match request.method {
            Method::Get => self.with_headers(self.agent.get(&request.url), request).call(),
            Method::Post => self.with_headers(self.agent.post(&request.url), request).send(&request.body[..]),
        };
        match sent {
            Ok(response) => {
                let head = head(&response);
                self.body = Some(response.into_body().into_reader());
                Received::Head(head)
            }
            Err(error) => Received::Failed(error.into()),
        }
    }

    fn with_headers<B>(&self, builder: RequestBuilder<B>, request: &Request) -> RequestBuilder<B> {
        let authorization = self.authorization.iter().map(|token| (AUTHORIZATION, token));
        let headers = request.headers.iter().map(|(name, value)| (HeaderName::from_static(name), value));
        authorization.chain(headers).fold(builder, |builder, (name, value)| builder.header(name, value))
    }

    fn read(&mut self) -> Received {
        let Some(body) = &mut self.body else { return Received::Piece(Bytes::new()) };
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match body.read(&mut piece) {
                Ok(length) => {
                    piece.truncate(length);
                    return Received::Piece(piece.into());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return Received::Failed(ureq::Error::from(error).into()),
            }
        }
    }
}

/// Does what a conversation asks for until it is over, each server's part on a thread of its own.
pub(super) fn hold<T>(
    transports: &mut [Transport],
    mut conversation: Conversation<'_, T>,
) -> Result<T, ClientError> {
    thread::scope(|scope| {
        let (back, received) = mpsc::channel();
        let mut tasks = Vec::new();
        for (server, transport) in transports.iter_mut().enumerate() {
            let (task, given) = mpsc::channel();
            let back = back.clone();
            tasks.push(task);
            scope.spawn(move || {
                let mut done = given.into_iter().map(|task| transport.carry(task));
                done.try_for_each(|received| back.send((server, received)))
            });
        }
        drop(back);
        let give = |server: usize, task| tasks[server].send(task).expect("its thread waits for tasks");
        loop {
            match conversation.step() {
                Step::Send { server, request } => give(server, Task::Send(request)),
                Step::Read { server } => give(server, Task::Read),
                Step::Wait { at_most } => {
                    let came = match at_most {
                        Some(length) => received.recv_timeout(length),
                        None => received.recv().map_err(RecvTimeoutError::from),
                    };
                    match came {
                        Ok((server, received)) => conversation.received(server, received),
                        Err(RecvTimeoutError::Timeout) => (),
                        Err(RecvTimeoutError::Disconnected) => panic!("the threads wait for tasks"),
                    }
                }
                Step::Done(result) => return result,
            }
        }
    })
}

fn head(response: &Response<Body>) -> Head {
    let header = |name| {
        response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    Head { status: response.status().as_u16(), etag: header(ETAG), retry_after: header(RETRY_AFTER) }
}
