//! A Redis server for tests: a fake in this process, or a real `redis-server` with `CI_FULL=1`.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::{Client, Connection, cmd};
use tempfile::TempDir;

use crate::fixture::eventually;

/// Name of an entry, the seconds until it expires, and its bytes.
pub type Entry = (Vec<u8>, u64, Vec<u8>);

/// A Redis server under the control of a test.
pub trait Redis {
    fn url(&self, password: Option<&str>) -> String;
    fn entries(&self) -> Vec<Entry>;
    fn set(&self, name: &[u8], seconds: u64, bytes: &[u8]);
    fn remove_all(&self);
    /// Makes the server refuse new entries for lack of memory.
    fn fill_memory(&self);
    /// Stops the server and drops its entries.
    fn stop(&mut self);
    fn start_again(&mut self);

    /// Returns the only entry.
    fn only(&self) -> Entry {
        let mut entries = self.entries();
        assert_eq!(entries.len(), 1);
        entries.remove(0)
    }
}

/// Starts a server that requires `password` of its clients, if given.
pub fn start(password: Option<&str>) -> Box<dyn Redis> {
    if std::env::var_os("CI_FULL").is_some_and(|value| value == "1") {
        Box::new(Real::start(password))
    } else {
        Box::new(Fake::start(password))
    }
}

/// Entries with their expiry times.
type Stored = HashMap<Vec<u8>, (Instant, Vec<u8>)>;

#[derive(Default)]
struct State {
    password: Option<String>,
    stored: Stored,
    full: bool,
    stopped: bool,
    connections: Vec<TcpStream>,
}

/// A server that speaks the part of Redis' protocol that replicas need.
struct Fake {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Fake {
    fn start(password: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State { password: password.map(str::to_owned), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.unwrap(), Arc::clone(&shared));
                // A stopped server keeps its port, so that no other test gets the port, and closes
                // every connection.
                let mut locked = state.lock();
                if !locked.stopped {
                    locked.connections.push(stream.try_clone().unwrap());
                    drop(locked);
                    std::thread::spawn(move || converse(stream, &state));
                }
            }
        });
        Self { port, state }
    }
}

impl Redis for Fake {
    fn url(&self, password: Option<&str>) -> String {
        let login = password.map(|password| format!(":{password}@")).unwrap_or_default();
        format!("redis://{login}127.0.0.1:{}", self.port)
    }

    fn entries(&self) -> Vec<Entry> {
        let (now, state) = (Instant::now(), self.state.lock());
        let left = |end: Instant| end.saturating_duration_since(now).as_secs_f64().ceil() as u64;
        let entries = state.stored.iter().filter(|(_, (end, _))| *end > now);
        entries.map(|(name, (end, bytes))| (name.clone(), left(*end), bytes.clone())).collect()
    }

    fn set(&self, name: &[u8], seconds: u64, bytes: &[u8]) {
        let end = Instant::now() + Duration::from_secs(seconds);
        self.state.lock().stored.insert(name.to_vec(), (end, bytes.to_vec()));
    }

    fn remove_all(&self) {
        self.state.lock().stored.clear();
    }

    fn fill_memory(&self) {
        self.state.lock().full = true;
    }

    fn stop(&mut self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.stored.clear();
        for connection in state.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    fn start_again(&mut self) {
        self.state.lock().stopped = false;
    }
}

fn converse(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    let mut known = state.lock().password.is_none();
    while let Some(command) = command(&mut reader) {
        let reply = reply(&command, &mut known, &mut state.lock());
        if writer.write_all(&reply).is_err() {
            return;
        }
    }
}

/// Returns the reply to a command; `known` becomes true once the client gave the password.
fn reply(command: &[Vec<u8>], known: &mut bool, state: &mut State) -> Vec<u8> {
    let number = |i: usize| std::str::from_utf8(&command[i]).unwrap().parse::<u64>().unwrap();
    match command[0].to_ascii_uppercase().as_slice() {
        b"AUTH" => {
            *known = state.password.as_ref().is_some_and(|password| command[1] == password.as_bytes());
            if *known { b"+OK\r\n".to_vec() } else { b"-WRONGPASS invalid password\r\n".to_vec() }
        }
        _ if !*known => b"-NOAUTH Authentication required.\r\n".to_vec(),
        b"SETEX" if state.full => b"-OOM command not allowed when used memory > 'maxmemory'.\r\n".to_vec(),
        b"SETEX" => {
            let end = Instant::now() + Duration::from_secs(number(2));
            state.stored.insert(command[1].clone(), (end, command[3].clone()));
            b"+OK\r\n".to_vec()
        }
        b"GETRANGE" => {
            let found = state.stored.get(&command[1]).filter(|(end, _)| *end > Instant::now());
            let value = found.map(|(_, value)| value.as_slice()).unwrap_or_default();
            let end = value.len().min(number(3) as usize + 1);
            [format!("${end}\r\n").as_bytes(), &value[..end], b"\r\n"].concat()
        }
        _ => panic!("the fake does not know {command:?}"),
    }
}

/// Reads the words of the next command; `None` at the end.
fn command(reader: &mut BufReader<TcpStream>) -> Option<Vec<Vec<u8>>> {
    let mut count = |sign: char| {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&bytes| bytes > 0)?;
        let count = line.trim_end().strip_prefix(sign).unwrap().parse::<usize>().unwrap();
        let mut word = vec![0; if sign == '$' { count + 2 } else { 0 }];
        reader.read_exact(&mut word).ok()?;
        word.truncate(count);
        Some((count, word))
    };
    let (words, _) = count('*')?;
    (0..words).map(|_| count('$').map(|(_, word)| word)).collect()
}

/// `redis-server` at a socket in its own folder, since another program might take a free port.
struct Real {
    folder: TempDir,
    password: Option<String>,
    process: Child,
}

impl Real {
    fn start(password: Option<&str>) -> Self {
        let (folder, password) = (TempDir::new().unwrap(), password.map(str::to_owned));
        let process = spawn(&folder, password.as_deref());
        let redis = Self { folder, password, process };
        redis.wait();
        redis
    }

    /// Waits until the server answers.
    fn wait(&self) {
        eventually("redis-server answers", || {
            let pong = self.try_connect().and_then(|mut link| cmd("PING").query::<String>(&mut link));
            pong.is_ok_and(|pong| pong == "PONG")
        });
    }

    fn try_connect(&self) -> redis::RedisResult<Connection> {
        Client::open(self.url(self.password.as_deref())).unwrap().get_connection()
    }

    fn connect(&self) -> Connection {
        self.try_connect().unwrap()
    }
}

fn socket(folder: &TempDir) -> PathBuf {
    folder.path().join("redis.sock")
}

fn spawn(folder: &TempDir, password: Option<&str>) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--save", "", "--appendonly", "no"]).arg("--unixsocket").arg(socket(folder));
    if let Some(password) = password {
        command.args(["--requirepass", password]);
    }
    let process = command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    process.unwrap_or_else(|error| match error.kind() {
        ErrorKind::NotFound => {
            panic!(
                "CI_FULL=1 tests with a real redis-server, and there is none: apt-get install redis-server"
            )
        }
        _ => panic!("redis-server does not start: {error}"),
    })
}

impl Redis for Real {
    fn url(&self, password: Option<&str>) -> String {
        let login = password.map(|password| format!("?pass={password}")).unwrap_or_default();
        format!("redis+unix://{}{login}", socket(&self.folder).display())
    }

    fn entries(&self) -> Vec<Entry> {
        let mut link = self.connect();
        let names: Vec<Vec<u8>> = cmd("KEYS").arg("*").query(&mut link).unwrap();
        let entry = |name: Vec<u8>| {
            let milliseconds: i64 = cmd("PTTL").arg(&name).query(&mut link).unwrap();
            let bytes: Option<Vec<u8>> = cmd("GET").arg(&name).query(&mut link).unwrap();
            // An entry that expired meanwhile has neither an expiry nor bytes.
            Some((name, u64::try_from(milliseconds).ok()?.div_ceil(1000), bytes?))
        };
        names.into_iter().filter_map(entry).collect()
    }

    fn set(&self, name: &[u8], seconds: u64, bytes: &[u8]) {
        cmd("SETEX").arg(name).arg(seconds).arg(bytes).query::<()>(&mut self.connect()).unwrap();
    }

    fn remove_all(&self) {
        cmd("FLUSHALL").query::<()>(&mut self.connect()).unwrap();
    }

    fn fill_memory(&self) {
        let full = ["CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction"];
        cmd(full[0]).arg(&full[1..]).query::<()>(&mut self.connect()).unwrap();
    }

    fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn start_again(&mut self) {
        self.process = spawn(&self.folder, self.password.as_deref());
        self.wait();
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
