//! A bad network between a replica and its writer: connections that are cut or refused.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Passes connections on, until it is told to cut them.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    /// Where connections lead to; `None`: they are closed at once.
    target: Option<SocketAddr>,
    open: Vec<TcpStream>,
}

impl Proxy {
    pub fn start(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State { target: Some(target), open: Vec::new() }));
        let shared = state.clone();
        // It ends with the process.
        std::thread::spawn(move || {
            while let Ok((from, _)) = listener.accept() {
                let mut state = shared.lock().unwrap();
                let to = state.target.and_then(|target| TcpStream::connect(target).ok());
                let Some(to) = to else { continue };
                for one in [&from, &to] {
                    state.open.push(one.try_clone().unwrap());
                }
                let back = (to.try_clone().unwrap(), from.try_clone().unwrap());
                std::thread::spawn(move || pass(from, to));
                std::thread::spawn(move || pass(back.0, back.1));
            }
        });
        Proxy { address, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends the connections that are open; new ones are passed on.
    pub fn cut(&self) {
        for one in self.state.lock().unwrap().open.drain(..) {
            // It may have ended.
            let _ = one.shutdown(Shutdown::Both);
        }
    }

    /// Ends all connections, and lets none through.
    pub fn close(&self) {
        self.state.lock().unwrap().target = None;
        self.cut();
    }

    /// Passes new connections on to this address.
    pub fn point_to(&self, target: SocketAddr) {
        self.cut();
        self.state.lock().unwrap().target = Some(target);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 1 << 14];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    for one in [from, to] {
        let _ = one.shutdown(Shutdown::Both);
    }
}
