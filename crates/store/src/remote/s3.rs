//! Objects in an S3 bucket, through the crate `object_store`.
//!
//! Requests run on two threads of a private runtime, and callers block until a request ends. So no
//! caller needs a runtime. The client makes no retries; `retry.rs` does.
//!
//! S3 can create a large object without replacing another one in only one way. A file of several
//! parts is uploaded under a unique name in `.staging/`. The store then copies it to its final
//! name, on the condition that no such object exists. A crash may leave objects in `.staging/`; a
//! lifecycle rule of the bucket may remove them.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{stream, StreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3CopyIfNotExists};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    ClientOptions, CopyMode, CopyOptions, ObjectStore, ObjectStoreExt, PutMode as Mode, PutOptions,
    PutPayload, RetryConfig,
};
use tokio::runtime::{Builder, Runtime};

use super::location::Bucket;
use super::objects::{Fault, FaultKind, Objects, PutMode, Upload};
use crate::buffer::Buffer;
use crate::error::{Error, ErrorKind};
use crate::store::{Entry, Range};

/// Requests of one call that run at once.
const REQUESTS_TOGETHER: usize = 16;
/// Threads of the runtime. They wait for sockets and compute nothing but TLS.
const THREADS: usize = 2;
/// Time limit of clean-up in the background.
const TIDY: Duration = Duration::from_secs(10);
const STAGING: &str = ".staging";

/// One folder of a bucket.
pub(super) struct S3 {
    inner: Arc<Inner>,
}

struct Inner {
    client: AmazonS3,
    bucket: Bucket,
    uploads: AtomicU64,
}

impl S3 {
    /// Opens the folder that `bucket` names, with credentials from the environment.
    ///
    /// Errors: `Invalid` address or credentials.
    pub(super) fn open(bucket: &Bucket) -> Result<S3, Error> {
        // Fails if another part of the process chose a provider earlier, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let invalid =
            |what: &dyn std::fmt::Display| Error::new(ErrorKind::Invalid, bucket.to_string(), what);
        let mut builder = AmazonS3Builder::from_env();
        if let Some(endpoint) = &bucket.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &bucket.region {
            builder = builder.with_region(region);
        }
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
        let is_plain = endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        if let (true, Some(endpoint)) = (is_plain, &endpoint) {
            if !is_loopback(endpoint) {
                return Err(invalid(&format_args!(
                    "the endpoint {endpoint} is not encrypted: use https; http is for addresses of \
                     this machine alone"
                )));
            }
        }
        let options = ClientOptions::new()
            .with_timeout_disabled()
            .with_connect_timeout(Duration::from_secs(5))
            .with_allow_http(is_plain);
        let client = builder
            .with_bucket_name(&bucket.name)
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .with_client_options(options)
            .with_copy_if_not_exists(S3CopyIfNotExists::Multipart)
            .with_disable_bulk_delete(true)
            .build()
            .map_err(|error| invalid(&error))?;
        let inner = Inner { client, bucket: bucket.clone(), uploads: AtomicU64::new(0) };
        Ok(S3 { inner: Arc::new(inner) })
    }

    /// Names of the folders inside this one.
    pub(super) fn folders(&self, timeout: Duration) -> Result<Vec<String>, Fault> {
        let inner = self.inner.clone();
        let listed = wait(timeout, async move {
            inner.client.list_with_delimiter(inner.folder().as_ref()).await
        })?;
        let name = |path: &Path| path.filename().map(str::to_owned);
        Ok(listed.common_prefixes.iter().filter_map(name).collect())
    }
}

impl Inner {
    fn folder(&self) -> Option<Path> {
        (!self.bucket.prefix.is_empty()).then(|| Path::from(self.bucket.prefix.as_str()))
    }

    fn path(&self, name: &str) -> Path {
        match self.bucket.prefix.as_str() {
            "" => Path::from(name),
            prefix => Path::from(format!("{prefix}/{name}")),
        }
    }

    /// A name in the staging folder that no other upload of any process has.
    fn staged(&self, name: &str) -> Path {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let number = self.uploads.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        self.path(&format!("{STAGING}/{name}-{now:x}-{process:x}-{number:x}"))
    }
}

impl Objects for S3 {
    fn put(&self, name: &str, bytes: &[u8], mode: PutMode, timeout: Duration) -> Result<(), Fault> {
        let (inner, payload) = (self.inner.clone(), PutPayload::from(bytes.to_vec()));
        let path = inner.path(name);
        let mode = match mode {
            PutMode::Create => Mode::Create,
            PutMode::Replace => Mode::Overwrite,
        };
        wait(timeout, async move {
            inner.client.put_opts(&path, payload, PutOptions::from(mode)).await.map(|_| ())
        })
    }

    fn bytes(&self, name: &str, timeout: Duration) -> Result<u64, Fault> {
        let (inner, path) = (self.inner.clone(), self.inner.path(name));
        wait(timeout, async move { inner.client.head(&path).await.map(|meta| meta.size) })
    }

    fn get(&self, name: &str, ranges: &[Range], timeout: Duration) -> Vec<Result<Buffer, Fault>> {
        let (inner, path) = (self.inner.clone(), self.inner.path(name));
        let wanted = ranges.to_vec();
        let all = run(async move {
            let get = |range: Range| {
                let (inner, path) = (inner.clone(), path.clone());
                in_time(timeout, async move {
                    let range = range.offset..range.offset + range.bytes as u64;
                    inner.client.get_range(&path, range).await
                })
            };
            stream::iter(wanted.into_iter().map(get))
                .buffered(REQUESTS_TOGETHER)
                .collect::<Vec<_>>()
                .await
        });
        match all {
            Ok(all) => all.into_iter().map(|got| got.map(|b| Buffer::from(Vec::from(b)))).collect(),
            Err(fault) => vec![Err(fault); ranges.len()],
        }
    }

    fn list(&self, prefix: &str, timeout: Duration) -> Result<Vec<Entry>, Fault> {
        let inner = self.inner.clone();
        let listed = wait(timeout, async move {
            inner.client.list_with_delimiter(inner.folder().as_ref()).await
        })?;
        let entry = |meta: &object_store::ObjectMeta| {
            let name = meta.location.filename()?;
            let entry = || Entry { name: name.to_owned(), bytes: meta.size };
            name.starts_with(prefix).then(entry)
        };
        Ok(listed.objects.iter().filter_map(entry).collect())
    }

    fn delete(&self, name: &str, timeout: Duration) -> Result<(), Fault> {
        let (inner, path) = (self.inner.clone(), self.inner.path(name));
        wait(timeout, async move { inner.client.delete(&path).await })
    }

    fn upload(&self, name: &str, timeout: Duration) -> Result<Box<dyn Upload>, Fault> {
        let (inner, staged) = (self.inner.clone(), self.inner.staged(name));
        let path = staged.clone();
        let id = wait(timeout, async move { inner.client.create_multipart(&path).await })?;
        let (inner, target) = (self.inner.clone(), self.inner.path(name));
        let parts = BTreeMap::new();
        Ok(Box::new(S3Upload { inner, staged, target, id, parts, is_staged: false }))
    }

    fn describe(&self, name: &str) -> String {
        self.inner.bucket.describe(name)
    }
}

struct S3Upload {
    inner: Arc<Inner>,
    staged: Path,
    target: Path,
    id: String,
    parts: BTreeMap<usize, PartId>,
    /// True if the parts are an object in the staging folder.
    is_staged: bool,
}

impl S3Upload {
    /// Turns the parts into an object in the staging folder.
    fn stage(&mut self, timeout: Duration) -> Result<(), Fault> {
        let (inner, path, id) = (self.inner.clone(), self.staged.clone(), self.id.clone());
        let parts = self.parts.values().cloned().collect();
        let done = wait(timeout, async move {
            inner.client.complete_multipart(&path, &id, parts).await.map(|_| ())
        });
        if done.is_err() {
            // An earlier request may have completed the upload. Then the parts do not exist any
            // more, but the staged object does.
            let (inner, path) = (self.inner.clone(), self.staged.clone());
            let there = wait(timeout, async move { inner.client.head(&path).await.map(|_| ()) });
            there.or(done)?;
        }
        self.is_staged = true;
        Ok(())
    }
}

impl Upload for S3Upload {
    fn send(&mut self, parts: &[(usize, &[u8])], timeout: Duration) -> Vec<Result<(), Fault>> {
        let (inner, path, id) = (self.inner.clone(), self.staged.clone(), self.id.clone());
        let payloads: Vec<(usize, PutPayload)> =
            parts.iter().map(|&(index, bytes)| (index, PutPayload::from(bytes.to_vec()))).collect();
        let sent = run(async move {
            let send = |(index, payload): (usize, PutPayload)| {
                let (inner, path, id) = (inner.clone(), path.clone(), id.clone());
                in_time(
                    timeout,
                    async move { inner.client.put_part(&path, &id, index, payload).await },
                )
            };
            stream::iter(payloads.into_iter().map(send))
                .buffered(REQUESTS_TOGETHER)
                .collect::<Vec<_>>()
                .await
        });
        let sent = match sent {
            Ok(sent) => sent,
            Err(fault) => return vec![Err(fault); parts.len()],
        };
        let keep = |(part, &(index, _)): (Result<PartId, Fault>, &(usize, &[u8]))| {
            self.parts.insert(index, part?);
            Ok(())
        };
        sent.into_iter().zip(parts).map(keep).collect()
    }

    fn publish(&mut self, timeout: Duration) -> Result<(), Fault> {
        if !self.is_staged {
            self.stage(timeout)?;
        }
        let (inner, from, to) = (self.inner.clone(), self.staged.clone(), self.target.clone());
        let options = CopyOptions::new().with_mode(CopyMode::Create);
        wait(timeout, async move { inner.client.copy_opts(&from, &to, options).await })
    }
}

impl Drop for S3Upload {
    fn drop(&mut self) {
        let (inner, path, id) = (self.inner.clone(), self.staged.clone(), self.id.clone());
        let is_staged = self.is_staged;
        // Best effort: the bucket's lifecycle rules remove the rest.
        let tidy = in_time(TIDY, async move {
            match is_staged {
                true => inner.client.delete(&path).await,
                false => inner.client.abort_multipart(&path, &id).await,
            }
        });
        if let Ok(runtime) = runtime() {
            drop(runtime.spawn(tidy));
        }
    }
}

/// The runtime of the process. The first request starts it, and it never stops.
fn runtime() -> Result<&'static Runtime, Fault> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("vstream-remote").enable_all().build()
    });
    let failed =
        |e: &std::io::Error| Fault::new(FaultKind::Refused, format_args!("no threads: {e}"));
    runtime.as_ref().map_err(failed)
}

/// Runs a future while the caller blocks. Works on a thread of another runtime too.
fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, Fault> {
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        // The caller waits for the result below.
        let _ = sender.send(work.await);
    });
    let gone = |_| Fault::new(FaultKind::Doubtful, "the request was given up");
    receiver.recv().map_err(gone)
}

/// Runs one request with a time limit.
fn wait<T: Send + 'static>(
    timeout: Duration,
    request: impl Future<Output = object_store::Result<T>> + Send + 'static,
) -> Result<T, Fault> {
    run(in_time(timeout, request))?
}

async fn in_time<T>(
    timeout: Duration,
    request: impl Future<Output = object_store::Result<T>>,
) -> Result<T, Fault> {
    match tokio::time::timeout(timeout, request).await {
        Ok(done) => done.map_err(|error| fault(&error)),
        Err(_) => {
            let what = format_args!("no answer within {:.1} s", timeout.as_secs_f32());
            Err(Fault::new(FaultKind::Doubtful, what))
        }
    }
}

fn fault(error: &object_store::Error) -> Fault {
    use object_store::Error as E;
    let what = error.to_string();
    // The crate reports the HTTP status only in the text of the error.
    let says = |text: &str| what.contains(text);
    let kind = match error {
        E::NotFound { .. } => FaultKind::NotFound,
        // Two conditional requests collided, and the other one may still fail.
        E::AlreadyExists { .. } if says("ConditionalRequestConflict") => FaultKind::Doubtful,
        E::AlreadyExists { .. } | E::Precondition { .. } => FaultKind::Exists,
        E::Generic { .. } => {
            let is_refused = says("status code: 4")
                && !["status code: 408", "status code: 429"].into_iter().any(says);
            if is_refused {
                FaultKind::Refused
            } else {
                FaultKind::Doubtful
            }
        }
        _ => FaultKind::Refused,
    };
    Fault { kind, what }
}

/// True if the host of `http://host:port/…` is this machine: `localhost` or a loopback address.
fn is_loopback(endpoint: &str) -> bool {
    let rest = endpoint.strip_prefix("http://").unwrap_or(endpoint);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(inside) => inside.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    // The part before an @ is a user name and not the host.
    !authority.contains('@')
        && (host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback()))
}
