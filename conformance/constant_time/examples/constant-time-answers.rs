//! Writes the transcript of one kind of look-ups to standard output: usage `constant-time-answers
//! KIND`.

use std::io::{BufWriter, StdoutLock, Write};
use std::sync::Arc;

use spirea_conformance::{Setup, setup_of};
use spirea_constant_time::look_ups::Servers;
use spirea_constant_time::{run, transcript};
use spirea_cpu::CpuBackend;
use spirea_protocols::registry::ProtocolParams;

/// The server half of all protocols, which records its messages in both directions.
struct Answering {
    backend: Arc<CpuBackend>,
    setup: Option<Setup>,
    transcript: BufWriter<StdoutLock<'static>>,
}

impl Answering {
    fn write(&mut self, message: &[u8]) {
        transcript::write(&mut self.transcript, message).expect("the transcript is taken");
    }
}

impl Servers for Answering {
    fn open(&mut self, params: &ProtocolParams, records: Vec<Vec<u8>>) -> Vec<u8> {
        let setup = setup_of(&self.backend, params, records);
        self.write(&setup.hint);
        self.setup.insert(setup).hint.clone()
    }

    fn register(&mut self, keys: &[u8]) {
        self.write(keys);
        let setup = self.setup.as_mut().expect("a table is open");
        setup.keys = Some(setup.servers[0].prepare_keys(keys).expect("the client's keys are taken"));
    }

    fn answer(&mut self, queries: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let setup = self.setup.as_ref().expect("a table is open");
        let answers = setup.answers(&[queries.to_vec()]).remove(0);
        queries.iter().chain(&answers).for_each(|message| self.write(message));
        answers
    }
}

fn main() {
    let kind = std::env::args().nth(1).expect("usage: constant-time-answers KIND");
    let backend = Arc::new(CpuBackend::new(1).expect("one thread"));
    let transcript = BufWriter::new(std::io::stdout().lock());
    let mut servers = Answering { backend, setup: None, transcript };
    run(&kind, &mut servers);
    servers.transcript.flush().expect("the transcript is taken");
}
