//! Connections to the writer.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Uri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::Request;
use tower::service_fn;

use crate::proto::replication_client::ReplicationClient;
use crate::settings::FollowSettings;

/// Most bytes of a message: groups of a log, or a manifest.
const MESSAGE_BYTES: usize = 64 << 20;
/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Time after which a connection that is silent is asked for a sign of life, and for which it has to
/// answer.
const ALIVE: Duration = Duration::from_secs(5);
/// Bytes that may be on their way.
const WINDOW: u32 = 4 << 20;

/// The client of a writer.
pub(super) type Client = ReplicationClient<Channel>;

/// How the writer is reached. Clones are the same.
#[derive(Clone)]
pub(super) struct Writer {
    endpoint: Endpoint,
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    key: Option<MetadataValue<Ascii>>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Writer {
    /// Errors: a sentence, if the address, the key or the certificate cannot be.
    pub(super) fn new(settings: &FollowSettings) -> Result<Writer, String> {
        let FollowSettings { writer, key, certificate, .. } = settings;
        let wrong = || format!("'{writer}' is no address of a writer: give http://HOST:PORT");
        let uri: Uri = writer.parse().map_err(|_| wrong())?;
        let host = uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']).to_owned();
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 6333 });
        let tls = match (is_secure, certificate) {
            (false, _) => None,
            (true, Some(path)) => {
                let name = ServerName::try_from(host.clone()).map_err(|_| wrong())?;
                Some((connector(path)?, name))
            }
            (true, None) => {
                return Err("https needs the certificate of the writer, or of its authority".into())
            }
        };
        let key = key.as_deref().map(str::parse).transpose();
        let key = key.map_err(|_| "the key of the writer is no key".to_owned())?;
        // The connector encrypts, so the endpoint knows nothing of it.
        let plain = Uri::builder().scheme("http").path_and_query("/");
        let plain = plain.authority(uri.authority().ok_or_else(wrong)?.as_str()).build();
        let endpoint = Endpoint::from(plain.map_err(|_| wrong())?)
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(ALIVE)
            .keep_alive_timeout(ALIVE)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        Ok(Writer { endpoint, host, port, tls, key })
    }

    /// A client with a connection of its own, which is made when it is first used, and made again.
    pub(super) fn client(&self) -> Client {
        let Writer { endpoint, host, port, tls, .. } = self.clone();
        let connect = service_fn(move |_: Uri| {
            let (host, tls) = (host.clone(), tls.clone());
            async move {
                let stream = TcpStream::connect((host.as_str(), port)).await?;
                stream.set_nodelay(true)?;
                let stream: Box<dyn Stream> = match tls {
                    None => Box::new(stream),
                    Some((tls, name)) => Box::new(tls.connect(name, stream).await?),
                };
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        let channel = endpoint.connect_with_connector_lazy(connect);
        ReplicationClient::new(channel).max_decoding_message_size(MESSAGE_BYTES)
    }

    /// A request with the key.
    pub(super) fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        if let Some(key) = &self.key {
            request.metadata_mut().insert("api-key", key.clone());
        }
        request
    }
}

/// Makes encrypted connections to whoever has this certificate, or one of this authority. Errors: a
/// sentence.
fn connector(path: &std::path::Path) -> Result<TlsConnector, String> {
    let shown = path.display();
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("the certificate cannot be read: {shown}: {error}"))?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(format!("{shown} has no certificate"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("{shown}: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
