//! Encrypted connections.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

use crate::settings::TlsFiles;

/// Reads certificate and key. Errors: a sentence.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, String> {
    let (chain, key) = (files.certificate.display(), files.key.display());
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("the certificate cannot be read: {chain}: {error}"))?;
    let private = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| format!("the key of the certificate cannot be read: {key}: {error}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let wrong = |error| format!("{chain} and {key} do not fit: {error}");
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(wrong)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
