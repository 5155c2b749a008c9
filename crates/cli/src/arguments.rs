//! The command line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

/// Streaming vector search: vectors, deletes and queries in, nearest neighbours out.
#[derive(Parser)]
#[command(name = "vstream", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a job; the last line of output is its result as JSON.
    Run(RunArguments),
    /// Stream real word vectors, search while they arrive, and show how it goes.
    Demo(DemoArguments),
    /// Ask a running job whose file has `reads`: a question per line of the standard input, an answer per
    /// line of output.
    Ask(AskArguments),
    /// Check a job file and print it completed, as the job reads it.
    Check(JobArguments),
    /// Search a snapshot that a job left, or one group of a collection of groups.
    Search(SearchArguments),
    /// Describe a snapshot that a job left, a collection, or a segment.
    Inspect(InspectArguments),
    /// Read every byte of a snapshot or collection and tell of any that is not as it was written.
    Verify(VerifyArguments),
    /// Send snapshots to an object store and fetch them from there.
    #[command(subcommand)]
    Snapshot(Snapshot),
    /// Serve the collections of a folder over HTTP, by a subset of Qdrant's interface.
    Serve(ServeArguments),
    /// Serve with as many replicas as requests need: processes of this machine behind one address.
    Balance(BalanceArguments),
    /// Ask a server on this machine whether it is well; for containers, whose image has no curl.
    Health(HealthArguments),
    /// Make a key for a server: the key itself, and the entry of the file of keys that stands for it.
    Key(KeyArguments),
    /// Print the reference of job files, as Markdown: docs/guide/job-file.md.
    #[command(hide = true)]
    Reference,
}

#[derive(Subcommand)]
pub(crate) enum Snapshot {
    /// Send a closed collection, a snapshot or a folder of segments; only what is not there yet.
    Push(PushArguments),
    /// Fetch the newest snapshot, compare every byte, and go on where an earlier try stopped.
    Pull(PullArguments),
}

#[derive(Args)]
pub(crate) struct PushArguments {
    /// The folder, or that of a job's snapshot with its partitions below.
    pub(crate) folder: PathBuf,
    /// Where to: s3://bucket/folder or a folder.
    pub(crate) url: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct PullArguments {
    /// Where from: s3://bucket/folder or a folder that was pushed to.
    pub(crate) url: String,
    /// The folder to fetch to: empty, or of an earlier try.
    pub(crate) folder: PathBuf,
    /// Number of the snapshot instead of the newest.
    #[arg(long, value_name = "N")]
    pub(crate) number: Option<u64>,
    /// MiB per second at most.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) rate: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct JobArguments {
    /// The job file (YAML); `-` reads it from the standard input.
    pub(crate) job: PathBuf,
    /// Replaces one value of the file, such as workload.rate=16000; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Leaves a part out, to measure what it is worth: hot-cold, compression, threshold-stop, split,
    /// reassign, join or dynamic-partitions; may be repeated.
    #[arg(long, value_name = "PART")]
    pub(crate) without: Vec<String>,
}

#[derive(Args)]
pub(crate) struct AskArguments {
    /// Folder of the job's checkpoints, or its address.
    #[arg(value_name = "CHECKPOINTS")]
    pub(crate) checkpoints: String,
    /// Name of the search, where a program has several.
    #[arg(long, value_name = "NAME")]
    pub(crate) search: Option<String>,
    /// Rows of a question that does not say.
    #[arg(short, long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) k: u32,
    /// Milliseconds after which a question is given up.
    #[arg(long, default_value_t = 5_000, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(crate) deadline: u32,
    /// File whose first line is the key that the job's partitions know.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Certificate of the partitions, or of who signed it, in PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) certificates: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ServeArguments {
    /// Folder of the collections, each a folder with its name; made if absent. A folder that is a
    /// collection itself is served alone. Or an address such as s3://bucket/folder, to which collections are
    /// pushed (vstream snapshot push): the newest push of each is read where it is.
    #[arg(value_name = "DIR", required_unless_present = "job")]
    pub(crate) directory: Option<PathBuf>,
    /// Seconds between two looks whether something newer was pushed to that address.
    /// 10 unless given.
    #[arg(long, value_name = "SECONDS", conflicts_with = "job",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) refresh: Option<u64>,
    /// Ask a running job instead, whose file has `reads`: the folder of its checkpoints. Clients' writes are
    /// refused.
    #[arg(long, value_name = "CHECKPOINTS", conflicts_with_all = ["directory", "follow", "read_only"])]
    pub(crate) job: Option<String>,
    /// Name of the job's search, where a program has several.
    #[arg(long, value_name = "NAME", requires = "job")]
    pub(crate) job_search: Option<String>,
    /// Name of the collection that stands for the job.
    #[arg(long, value_name = "NAME", default_value = "job", requires = "job")]
    pub(crate) job_collection: String,
    /// File whose first line is the key that the job's partitions know.
    #[arg(long, value_name = "FILE", requires = "job")]
    pub(crate) job_key: Option<PathBuf>,
    /// The certificate of the job's partitions or of its authority, in PEM.
    #[arg(long, value_name = "FILE", requires = "job")]
    pub(crate) job_certificates: Option<PathBuf>,
    /// Milliseconds after which a question to the job is given up.
    #[arg(long, default_value_t = 5_000, value_name = "MS", requires = "job",
          value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(crate) job_deadline: u32,
    /// Address of the interface. One that other machines reach needs keys and a certificate.
    #[arg(long, default_value = "127.0.0.1:6333", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Address of metrics and health, which need no key.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// File of the keys that requests must have: {"keys": [ENTRY, …]}, with entries of `vstream key`.
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
    /// Certificates, in PEM, the server's own first.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// File that gets a line of JSON for every change and every refused key.
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    /// Let language models write and delete points over MCP, as far as their keys do.
    #[arg(long)]
    pub(crate) mcp_writes: bool,
    /// Be a replica of the server at http://HOST:PORT: copy its collections into DIR, apply what it writes,
    /// and answer queries. Clients' writes are refused.
    #[arg(long, value_name = "URL")]
    pub(crate) follow: Option<String>,
    /// File with a key of that server, of the scope `follow`.
    #[arg(long, value_name = "FILE", requires = "follow")]
    pub(crate) follow_key: Option<PathBuf>,
    /// That server's certificate or that of its authority, in PEM; needed for https.
    #[arg(long, value_name = "FILE", requires = "follow")]
    pub(crate) follow_certificate: Option<PathBuf>,
    /// How far behind that server this may be and still be ready (/readyz).
    #[arg(long, default_value_t = 10_000, value_name = "MS", requires = "follow")]
    pub(crate) behind_max: u64,
    /// With --follow: end when DIR has everything that that server had when this began. Again, it fetches
    /// what is new.
    #[arg(long, requires = "follow", conflicts_with = "read_only")]
    pub(crate) once: bool,
    /// Change nothing in DIR, which another process may write, or which holds snapshots. With --follow it is
    /// the folder of that server.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// End as on SIGTERM when this process, which started it, has ended (Linux).
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) ends_with_parent: Option<u32>,
}

#[derive(Args)]
pub(crate) struct BalanceArguments {
    /// Replicas at least and at most.
    #[arg(long, default_value = "1..4", value_name = "LEAST..MOST", value_parser = range)]
    pub(crate) replicas: (u32, u32),
    /// How many of these: as few as drain what waits in time, or with room for what is forecast.
    #[arg(long, default_value = "lean", value_parser = ["lean", "forecast"])]
    pub(crate) law: String,
    /// Requests at a replica at a time. The cores of this machine unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) at_a_time: Option<u32>,
    /// Requests that may wait for a replica; further ones are refused with 503.
    #[arg(long, default_value_t = 10_000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) waiting: u32,
    /// Seconds that a request waits for a replica; then it is refused with 503.
    #[arg(long, default_value_t = 30, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) wait: u64,
    /// Seconds that a replica has to become ready, with its copy of what it follows, and to end; then it is
    /// killed.
    #[arg(long, default_value_t = 300, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) patience: u64,
    /// Address of the interface. One that other machines reach needs a certificate, and replicas that ask
    /// for keys.
    #[arg(long, default_value = "127.0.0.1:6333", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Address of metrics and health, which need no key.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Certificates, in PEM, the server's own first.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// What each replica is told: arguments of `vstream serve`, without addresses and certificates. It must
    /// be one that only reads: an address that is pushed to, --read-only, --follow or --job. {replica}
    /// becomes the least number that no other replica has, for folders of its own.
    #[arg(last = true, required = true, value_name = "SERVE")]
    pub(crate) serve: Vec<String>,
}

/// `1..4`, or one number for both.
fn range(text: &str) -> Result<(u32, u32), String> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| {
        let number = text.parse::<u32>().ok().filter(|number| (1..=1_000).contains(number));
        number.ok_or_else(|| format!("'{text}' is no number from 1 to 1,000"))
    };
    match (number(least)?, number(most)?) {
        (least, most) if least <= most => Ok((least, most)),
        (least, most) => Err(format!("{least} at least are more than {most} at most")),
    }
}

#[derive(Args)]
pub(crate) struct HealthArguments {
    /// Address of the server's metrics.
    #[arg(default_value = "127.0.0.1:9100", value_name = "ADDRESS")]
    pub(crate) address: SocketAddr,
}

#[derive(Args)]
pub(crate) struct KeyArguments {
    /// Name of the key, for the audit log.
    pub(crate) name: String,
    /// What it may do: all may read, `follow` is for replicas, and admin may do everything.
    #[arg(long, default_value = "read", value_parser = ["read", "follow", "write", "admin"])]
    pub(crate) scope: String,
    /// Only this collection; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) collection: Vec<String>,
}

#[derive(Args)]
pub(crate) struct WebArguments {
    /// Also show how the job goes on a page, for browsers of this machine.
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:6335"
    )]
    pub(crate) web: Option<SocketAddr>,
}

#[derive(Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    #[command(flatten)]
    pub(crate) web: WebArguments,
    /// Go on from a checkpoint or savepoint, at any parallelism: its folder, or one above it, of
    /// which the newest is taken. Its files stay as they are.
    #[arg(long, value_name = "PATH")]
    pub(crate) restore: Option<String>,
    /// Also writes how far the job is to this file: a line of JSON per second, and the result.
    #[arg(long, value_name = "FILE")]
    pub(crate) lines: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct DemoArguments {
    /// Vectors to stream, after 30,000 that are loaded first.
    #[arg(long, default_value_t = 216_000)]
    pub(crate) rows: u64,
    /// Partitions.
    #[arg(long, default_value_t = 2)]
    pub(crate) parallelism: u32,
    /// Records per second: queries, inserts and deletes at 1 : 3 : 1.
    #[arg(long, default_value_t = 5_000)]
    pub(crate) rate: u64,
    /// Folder with the word vectors, as `make data` leaves it.
    #[arg(long, default_value = "data/glove100", value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Only the second part: filters over the words in this process, without the job and without
    /// Java.
    #[arg(long)]
    pub(crate) only_filters: bool,
    #[command(flatten)]
    pub(crate) web: WebArguments,
}

#[derive(Args)]
pub(crate) struct SearchArguments {
    /// Folder of a snapshot, of one partition or of a job with its partitions below; or of a closed
    /// collection of groups.
    #[arg(value_name = "DIR", required_unless_present = "snapshot")]
    pub(crate) folder: Option<PathBuf>,
    /// The same, as an option.
    #[arg(long, value_name = "DIR", conflicts_with = "folder")]
    pub(crate) snapshot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) what: Wanted,
    #[command(flatten)]
    pub(crate) ranked: Ranked,
    /// Neighbours per query.
    #[arg(short, default_value_t = 10)]
    pub(crate) k: usize,
    /// Answer exactly. Rows that bounds prove too far are not looked at.
    #[arg(long)]
    pub(crate) exact: bool,
    /// Only rows that match: JSON as Qdrant has it, such as
    /// '{"must": [{"key": "color", "match": {"value": "red"}}]}', or a SQL condition, such as
    /// "color = 'red' and price < 5".
    #[arg(long, value_name = "FILTER")]
    pub(crate) r#where: Option<String>,
    /// Attributes to show beside each row, and `payload`, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) with: Vec<String>,
    /// File with the query vectors for --query-id (.fbin, .u8bin or .i8bin).
    #[arg(long, value_name = "FILE", default_value = "data/glove100/query.fbin")]
    pub(crate) queries: PathBuf,
    /// Text file with the name of each id, one a line, to be shown beside the ids.
    #[arg(long, value_name = "FILE")]
    pub(crate) names: Option<PathBuf>,
    /// Print JSON lines.
    #[arg(long)]
    pub(crate) json: bool,
}

impl SearchArguments {
    /// Whether they say what to search for: a vector, or words of a group.
    pub(crate) fn asks(&self) -> bool {
        let Wanted { query_id, vector, random } = &self.what;
        let vector = query_id.is_some() || vector.is_some() || random.is_some();
        vector || self.ranked.text.is_some() || self.ranked.rank.is_some()
    }

    /// The folder to search.
    pub(crate) fn folder(&self) -> &Path {
        let folder = self.folder.as_ref().or(self.snapshot.as_ref());
        folder.expect("one of them is required")
    }
}

/// What only a collection of groups knows.
#[derive(Args)]
pub(crate) struct Ranked {
    /// The group to search, in a collection of groups; in a snapshot of shared groups, too.
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// Words, phrases and beginnings of words, such as 'invoice "last call" -spam subject:re*'.
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub(crate) text: Option<String>,
    /// The order of the answer, such as 'closeness + 0.2 * bm25(subject) + freshness(sent)'.
    #[arg(long, value_name = "EXPRESSION", allow_hyphen_values = true)]
    pub(crate) rank: Option<String>,
    /// Value of a parameter of the expression, such as w=0.5; may be repeated.
    #[arg(long, value_name = "NAME=NUMBER", requires = "rank")]
    pub(crate) param: Vec<String>,
}

/// What to search for.
#[derive(Args)]
#[group(multiple = false)]
pub(crate) struct Wanted {
    /// Row of the query file.
    #[arg(long, value_name = "ROW")]
    pub(crate) query_id: Option<u64>,
    /// A vector as a JSON array, such as "[0.1, 0.2]".
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) vector: Option<String>,
    /// This many rows of the query file, drawn by chance with a fixed seed.
    #[arg(long, value_name = "N")]
    pub(crate) random: Option<usize>,
}

#[derive(Args)]
pub(crate) struct InspectArguments {
    /// Folder of a collection, of groups or without; of a snapshot, of one partition or of a job with
    /// its partitions below; the file of a segment; or where a snapshot was pushed to, such as s3://bucket/folder, and a file of it.
    pub(crate) snapshot: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Of a segment: also print how each block is stored.
    #[arg(long, conflicts_with = "json")]
    pub(crate) blocks: bool,
}

#[derive(Args)]
pub(crate) struct VerifyArguments {
    /// Folder of a collection, of a snapshot, or of a job's snapshot with its partitions below; or
    /// where one was pushed to, such as s3://bucket/folder: there every snapshot is read.
    pub(crate) folder: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
