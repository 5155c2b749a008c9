//! A proxy between a client and a server that injects the faults of a network.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use vstream_vector::SplitMix;

/// The random fate of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Passes,
    /// The proxy closes it before any byte.
    Refused,
    /// The server gets the request, and the answer is cut off after this many bytes.
    Cut(usize),
    /// The proxy answers 503 itself.
    Overloaded,
    /// No answer ever comes.
    Silent,
}

/// A proxy on a port of its own. Dropping it ends the listener.
pub struct Proxy {
    /// The address of the proxy.
    pub address: SocketAddr,
    /// Connections with a fault.
    pub faults: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts a proxy before `server`. `percent` of the connections have a fault, drawn by `seed`.
    pub fn start(server: SocketAddr, percent: usize, seed: u64) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (faults, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let random = Mutex::new(SplitMix(seed));
        let (count, over) = (faults.clone(), is_over.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let Ok(client) = client else { continue };
                let fate = draw(&mut random.lock().unwrap(), percent);
                count.fetch_add(u64::from(fate != Fate::Passes), Ordering::Relaxed);
                let over = over.clone();
                thread::spawn(move || meet(client, server, fate, &over));
            }
        });
        Proxy { address, faults, is_over }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The listener checks the flag at the next connection.
        drop(TcpStream::connect(self.address));
    }
}

fn draw(random: &mut SplitMix, percent: usize) -> Fate {
    if random.below(100) >= percent {
        return Fate::Passes;
    }
    match random.below(6) {
        0 => Fate::Refused,
        1 => Fate::Overloaded,
        2 => Fate::Silent,
        3 => Fate::Cut(0),
        _ => Fate::Cut(random.below(3000)),
    }
}

/// Serves one connection. An error ends the connection, as intended.
fn meet(mut client: TcpStream, server: SocketAddr, fate: Fate, is_over: &AtomicBool) {
    let limit = match fate {
        Fate::Refused => return,
        Fate::Silent => {
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
            }
            return;
        }
        Fate::Overloaded => {
            let _ = client.read(&mut [0; 16384]);
            let answer = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = client.write_all(answer.as_bytes());
            let _ = client.shutdown(Shutdown::Write);
            // A close with unread bytes would discard the answer.
            let _ = std::io::copy(&mut client, &mut std::io::sink());
            return;
        }
        Fate::Cut(bytes) => bytes,
        Fate::Passes => usize::MAX,
    };
    let Ok(mut upstream) = TcpStream::connect(server) else { return };
    let (Ok(mut up), Ok(mut down)) = (upstream.try_clone(), client.try_clone()) else { return };
    let there = thread::spawn(move || {
        let _ = std::io::copy(&mut down, &mut up);
        let _ = up.shutdown(Shutdown::Write);
    });
    let mut left = limit;
    let mut buffer = [0; 65536];
    while let Ok(bytes @ 1..) = upstream.read(&mut buffer) {
        let passed = bytes.min(left);
        if client.write_all(&buffer[..passed]).is_err() || passed < bytes {
            break;
        }
        left -= passed;
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = upstream.shutdown(Shutdown::Both);
    let _ = there.join();
}
