//! Stands between a client and a server and does what networks do.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use vstream_vector::SplitMix;

/// What happens to a connection, by chance.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Passes,
    /// It is closed before anything is said.
    Refused,
    /// The server gets the request; the answer is cut off after so many bytes.
    Cut(usize),
    /// 503 without asking the server.
    Overloaded,
    /// Nothing ever comes back.
    Silent,
}

/// A proxy on a port of its own. Dropped, it takes no more connections.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    /// Connections that did not pass.
    pub faults: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Proxy {
    /// In front of `server`; `percent` of the connections meet a fault drawn by `seed`.
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
        // The listener looks at the flag when somebody comes.
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

/// What is left of a connection is nobody's: errors end it, as they should.
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
            // Closing with bytes unread would take the answer back.
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
