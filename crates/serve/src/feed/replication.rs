//! The service for replicas.

use std::collections::HashMap;
use std::fs::File as SystemFile;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::stream::Log;
use crate::access::{Access, Scope};
use crate::catalog::blocking;
use crate::collection::Collection;
use crate::failure::Failure;
use crate::grpc::access;
use crate::proto::replication_server::Replication;
use crate::proto::{
    CollectionsReply, CollectionsRequest, FetchReply, FetchRequest, File, FilesReply, FilesRequest,
    FollowReply, FollowRequest, Listed,
};
use crate::shared::Shared;

/// Time after which the collections are listed again, also if there is no change.
const LIST_AGAIN: Duration = Duration::from_secs(1);
/// Bytes of a file in one message.
const PART: usize = 256 << 10;
/// Messages of a stream that wait for its client.
const WAITING: usize = 1;

/// Answers replicas.
pub(super) struct Face(pub(super) Arc<Shared>);

type Replies<M> = ReceiverStream<Result<M, Status>>;

impl Face {
    /// The collection of a request. Errors: `FORBIDDEN` unless the key may follow it, `NOT_FOUND`.
    fn collection(&self, access: &Access, name: &str) -> Result<Arc<Collection>, Failure> {
        access.may(Scope::Follow, Some(name))?;
        self.0.catalog.get(name)
    }
}

#[tonic::async_trait]
impl Replication for Face {
    type CollectionsStream = Replies<CollectionsReply>;
    type FetchStream = Replies<FetchReply>;
    type FollowStream = Replies<FollowReply>;

    async fn collections(
        &self,
        request: Request<CollectionsRequest>,
    ) -> Result<Response<Self::CollectionsStream>, Status> {
        let (shared, access) = (self.0.clone(), access(&request)?);
        // A key for some collections is told of these.
        let may = |name: &str| access.may(Scope::Follow, Some(name)).is_ok();
        if !shared.catalog.all().iter().any(|one| may(&one.name)) {
            access.may(Scope::Follow, None)?;
        }
        let counted = shared.streams.clone().try_acquire_owned();
        let counted = counted.map_err(|_| Failure::busy("too many streams at the same time"))?;
        let (replies, stream) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            let _counted = counted;
            let (mut changes, mut stopping) = (shared.catalog.changes(), shared.stopping.clone());
            loop {
                changes.mark_unchanged();
                let reply = listed(&shared, &access);
                if replies.send(Ok(reply)).await.is_err() {
                    return;
                }
                tokio::select! {
                    _ = tokio::time::timeout(LIST_AGAIN, changes.changed()) => {}
                    _ = stopping.wait_for(|stop| *stop) => return,
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn files(&self, request: Request<FilesRequest>) -> Result<Response<FilesReply>, Status> {
        let access = access(&request)?;
        let name = request.into_inner().collection;
        let collection = self.collection(&access, &name)?;
        Ok(Response::new(files(&self.0, &collection).await?))
    }

    async fn fetch(
        &self,
        request: Request<FetchRequest>,
    ) -> Result<Response<Self::FetchStream>, Status> {
        let access = access(&request)?;
        let FetchRequest { snapshot, name, offset } = request.into_inner();
        let (collection, path) = self.0.leases.find(snapshot, &name)?;
        self.collection(&access, &collection)?;
        let counted = self.0.streams.clone().try_acquire_owned();
        let counted = counted.map_err(|_| Failure::busy("too many streams at the same time"))?;
        let mut file = blocking(move || opened(path, offset)).await??;
        let (replies, stream) = mpsc::channel(WAITING);
        let shared = self.0.clone();
        tokio::spawn(async move {
            let _counted = counted;
            loop {
                // Whoever still reads keeps the files.
                let is_kept = shared.leases.find(snapshot, &name);
                let part = match is_kept {
                    Err(failure) => Err(failure),
                    Ok(_) => blocking(move || part(&mut file).map(|bytes| (file, bytes)))
                        .await
                        .and_then(|part| part),
                };
                match part {
                    Ok((_, bytes)) if bytes.is_empty() => return,
                    Ok((rest, bytes)) => {
                        file = rest;
                        if replies.send(Ok(FetchReply { bytes: bytes.into() })).await.is_err() {
                            return;
                        }
                    }
                    Err(failure) => {
                        // A client that has gone needs no reason.
                        let _ = replies.send(Err(failure.into())).await;
                        return;
                    }
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn follow(
        &self,
        request: Request<FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let access = access(&request)?;
        let FollowRequest { collection: name, epoch, sequence } = request.into_inner();
        let collection = self.collection(&access, &name)?;
        if collection.epoch != epoch {
            let what = format!("the collection '{name}' is another one now");
            return Err(Failure::gone(what).into());
        }
        let mut log = Log::open(&self.0, collection, Some(sequence)).await?;
        let (replies, stream) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            let mut schema = Vec::new();
            loop {
                let reply = next(&mut log, &mut schema).await.map_err(Status::from);
                let is_over = reply.is_err();
                if replies.send(reply).await.is_err() || is_over {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// The next message for a replica.
///
/// * `schema`: what it was told last.
async fn next(log: &mut Log, schema: &mut Vec<u8>) -> Result<FollowReply, Failure> {
    let news = log.next().await?;
    let mut present = Vec::new();
    // A group may have values of attributes that are in the schema when it was read.
    log.feed().schema().encode(&mut present);
    let is_new = present != *schema;
    *schema = present;
    Ok(FollowReply {
        schema: is_new.then(|| schema.clone().into()),
        groups: news.groups.into_iter().map(Into::into).collect(),
        sequence: news.durable,
        time_ms: news.time_ms,
    })
}

/// The collections that a key may follow.
fn listed(shared: &Shared, access: &Access) -> CollectionsReply {
    // In this order: one that opens between the two is in both lists, and not in none.
    let (unopened, all) = (shared.catalog.broken(), shared.catalog.all());
    let may = |name: &str| access.may(Scope::Follow, Some(name)).is_ok();
    let seen = all.iter().filter(|one| may(&one.name));
    CollectionsReply {
        collections: seen.map(|one| Listed { name: one.name.clone(), epoch: one.epoch }).collect(),
        unopened: unopened.into_keys().filter(|name| may(name)).collect(),
        incomplete: shared.role.is_incomplete(),
    }
}

/// Keeps the files of a collection at this moment, and lists them.
async fn files(shared: &Arc<Shared>, collection: &Collection) -> Result<FilesReply, Failure> {
    // The replica follows from here on, so the logs stay from now on.
    let bytes = shared.limits.follow_bytes;
    let begun = collection.writes.now(move |rows| {
        let feed = rows.engine().feed(bytes);
        let state = feed.and_then(|_| rows.engine_mut().share());
        state.map(|state| (state, rows.engine().sequence()))
    });
    let (state, sequence) = begun.await??;
    let (state, files) = blocking(move || {
        let files = state.files();
        (state, files)
    })
    .await?;
    let files = files?;
    let manifest = state.manifest().to_vec().into();
    let paths: HashMap<String, PathBuf> =
        files.iter().map(|file| (file.name.clone(), PathBuf::from(&file.path))).collect();
    let snapshot = shared.leases.keep(&collection.name, state, paths)?;
    let lets_go = shared.clone();
    tokio::spawn(async move { lets_go.leases.let_go(snapshot).await });
    let file = |file: vstream_engine::SharedFile| File {
        name: file.name,
        bytes: file.bytes,
        checksum: file.checksum,
    };
    let files = files.into_iter().map(file).collect();
    Ok(FilesReply { snapshot, epoch: collection.epoch, sequence, manifest, files })
}

fn opened(path: PathBuf, offset: u64) -> Result<SystemFile, Failure> {
    let broken =
        |error: std::io::Error| Failure::broken(format!("a file of the collection: {error}"));
    let mut file = SystemFile::open(path).map_err(broken)?;
    file.seek(SeekFrom::Start(offset)).map_err(broken)?;
    Ok(file)
}

/// The next bytes of a file; none at its end.
fn part(file: &mut SystemFile) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::with_capacity(PART);
    let read = file.take(PART as u64).read_to_end(&mut bytes);
    read.map_err(|error| Failure::broken(format!("a file of the collection: {error}")))?;
    Ok(bytes)
}
