//! Proxy to a worker that can delay or block bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Forwards bytes while `parted` is not set.
pub struct Proxy {
    pub address: SocketAddr,
    /// Delay of the worker's bytes, in milliseconds.
    delay: Arc<AtomicU64>,
    /// True if no bytes get through, as in a network partition.
    parted: Arc<AtomicBool>,
}

impl Proxy {
    pub fn to(worker: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (delay, parted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (of_delay, of_parted) = (Arc::clone(&delay), Arc::clone(&parted));
        // The thread ends with the process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(worker) else { continue };
                let none = Arc::new(AtomicU64::new(0));
                for (from, to, delay) in [(&client, &server, &none), (&server, &client, &of_delay)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (delay, parted) = (Arc::clone(delay), Arc::clone(&of_parted));
                    std::thread::spawn(move || pass(from, to, &delay, &parted));
                }
            }
        });
        Self { address, delay, parted }
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub fn slow_down(&self, delay: Duration) {
        self.delay.store(delay.as_millis() as u64, Ordering::Relaxed);
    }

    pub fn part(&self) {
        self.parted.store(true, Ordering::Relaxed);
    }

    pub fn join(&self) {
        self.parted.store(false, Ordering::Relaxed);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, delay: &AtomicU64, parted: &AtomicBool) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = match from.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        std::thread::sleep(Duration::from_millis(delay.load(Ordering::Relaxed)));
        // Bytes held during a partition arrive when it ends, as retransmission would deliver them.
        while parted.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
