//! The connection to one partition. After a failure it is dropped.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::error::Attempt;
use crate::reply::Reply;

const MAGIC: &[u8] = b"VSREAD01";
/// Bytes of an answer at most.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// A connection waits so long at least, also where the deadline is here.
const WAIT_MIN: Duration = Duration::from_millis(1);

trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// The connection to one partition.
pub(crate) struct PartitionClient {
    /// The same connection, to set how long it waits.
    socket: TcpStream,
    stream: Box<dyn Stream>,
}

impl PartitionClient {
    /// Connects and greets. Errors: `Locked` for a wrong key.
    pub(crate) fn connect(
        (host, port): &(String, u16),
        tls: Option<&Arc<ClientConfig>>,
        key: &str,
        due: Instant,
    ) -> Result<PartitionClient, Attempt> {
        let mut last = Attempt::again(format!("{host} has no address"));
        for address in (host.as_str(), *port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, left(due)) {
                Ok(socket) => return PartitionClient::greet(socket, host, tls, key, due),
                Err(error) if error.kind() == ErrorKind::TimedOut => last = Attempt::Late,
                Err(error) => last = Attempt::again(format!("{host}:{port}: {error}")),
            }
        }
        Err(last)
    }

    fn greet(
        socket: TcpStream,
        host: &str,
        tls: Option<&Arc<ClientConfig>>,
        key: &str,
        due: Instant,
    ) -> Result<PartitionClient, Attempt> {
        socket.set_nodelay(true)?;
        wait_until(&socket, due)?;
        let other = socket.try_clone()?;
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(other),
            Some(config) => {
                let name = ServerName::try_from(host.to_owned()).map_err(Attempt::again)?;
                let session =
                    ClientConnection::new(config.clone(), name).map_err(Attempt::again)?;
                Box::new(StreamOwned::new(session, other))
            }
        };
        let mut client = PartitionClient { socket, stream };
        let mut greeting = MAGIC.to_vec();
        greeting.extend_from_slice(&(key.len() as u16).to_be_bytes());
        greeting.extend_from_slice(key.as_bytes());
        client.stream.write_all(&greeting)?;
        client.stream.flush()?;
        let mut said = [0];
        match client.stream.read(&mut said)? {
            0 => Err(Attempt::again("the partition takes no more readers now")),
            _ if said == [1] => Ok(client),
            _ => Err(Attempt::Locked),
        }
    }

    /// Sends a question.
    pub(crate) fn ask(&mut self, question: &[u8]) -> Result<(), Attempt> {
        let mut frame = (question.len() as i32).to_be_bytes().to_vec();
        frame.extend_from_slice(question);
        self.stream.write_all(&frame)?;
        Ok(self.stream.flush()?)
    }

    /// Waits for its answer. Errors: those of [`Reply::of`].
    pub(crate) fn answer(&mut self, due: Instant) -> Result<Reply, Attempt> {
        wait_until(&self.socket, due)?;
        let mut head = [0; 4];
        self.stream.read_exact(&mut head)?;
        let length = i32::from_be_bytes(head);
        let length = usize::try_from(length).ok().filter(|length| *length <= REPLY_BYTES_MAX);
        let length = length.ok_or_else(|| Attempt::again("a frame of a partition is too long"))?;
        // Memory is taken as bytes come, not as a partition claims.
        let mut frame = Vec::with_capacity(length.min(1 << 16));
        let taken = Read::by_ref(&mut self.stream).take(length as u64).read_to_end(&mut frame)?;
        if taken < length {
            return Err(Attempt::again("a frame of a partition ends early"));
        }
        Reply::of(&frame)
    }
}

fn wait_until(socket: &TcpStream, due: Instant) -> Result<(), Attempt> {
    socket.set_read_timeout(Some(left(due)))?;
    Ok(socket.set_write_timeout(Some(left(due)))?)
}

fn left(due: Instant) -> Duration {
    due.saturating_duration_since(Instant::now()).max(WAIT_MIN)
}
