//! The language border: each function is one call of `Bridge.java`. It converts the arguments and
//! passes them on. `bridge/router.rs` has the calls of routers, `bridge/state.rs` those of shared states,
//! `bridge/texts.rs` those of texts.

use std::path::PathBuf;

use jni::errors::Error;
use jni::objects::{JByteArray, JByteBuffer, JClass, JString};
use jni::sys::{jboolean, jdouble, jint, jlong};
use jni::{jni_mangle, Env, EnvUnowned};
use vstream_settings::{CollectionSettings, MergedAudits};

use crate::failure::{Failure, ThrowEngineException};
use crate::filters::Filters;
use crate::groups::Groups;
use crate::handles::Handles;
use crate::handover::Adopting;
use crate::memory::{input, input_and_output};
use crate::partition::{Partition, Pinned, Shards};
use crate::sample::Draw;
use crate::serve::{Moment, Serve};

mod router;
mod state;
mod texts;

/// Engines that Java holds.
pub(crate) static ENGINES: Handles<Box<dyn Serve>> = Handles::new("engine", 1);
/// Pinned snapshots that Java holds.
static SNAPSHOTS: Handles<Pinned> = Handles::new("snapshot", 3);
/// Sealed rows that Java adopts.
static ADOPTIONS: Handles<Adopting> = Handles::new("adoption", 4);
/// Read snapshots that Java holds.
static READ_SNAPSHOTS: Handles<Box<dyn Moment>> = Handles::new("moment", 6);

/// Readers of filters that Java holds.
static FILTERS: Handles<Filters> = Handles::new("filters", 7);

/// Runs one call. A failure or a panic becomes an `EngineException` and the default value.
pub(crate) fn call<'frame, T: Default>(
    mut env: EnvUnowned<'frame>,
    work: impl FnOnce(&mut Env<'frame>) -> Result<T, Failure>,
) -> T {
    env.with_env(work).resolve::<ThrowEngineException>()
}

fn text(env: &Env<'_>, string: &JString<'_>, name: &str) -> Result<String, Failure> {
    string.try_to_string(env).map_err(|error| match error {
        Error::NullPtr(_) => Failure::invalid(format!("The {name} is null; pass a text.")),
        other => other.into(),
    })
}

fn settings(env: &Env<'_>, json: &JString<'_>) -> Result<CollectionSettings, Failure> {
    Ok(CollectionSettings::from_json(&text(env, json, "settings")?)?)
}

fn directory(env: &Env<'_>, path: &JString<'_>) -> Result<PathBuf, Failure> {
    Ok(PathBuf::from(text(env, path, "directory")?))
}

/// Converts a count of bytes or items in a buffer, whose capacity is a Java `int`.
fn count(items: usize) -> jint {
    jint::try_from(items).expect("a direct buffer is shorter than 2^31 bytes")
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn normalize_settings<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    json: JString<'frame>,
) -> JString<'frame> {
    call(env, |env| {
        let normalized = settings(env, &json)?.to_json();
        Ok(env.new_string(normalized)?)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_create<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    json: JString<'frame>,
) -> jlong {
    call(env, |env| {
        let settings = settings(env, &json)?;
        Ok(ENGINES.insert(Box::new(Partition::create(&settings)?)))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_restore<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    json: JString<'frame>,
    path: JString<'frame>,
) -> jlong {
    call(env, |env| {
        let partition = Partition::restore(&settings(env, &json)?, &directory(env, &path)?)?;
        Ok(ENGINES.insert(Box::new(partition)))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_create_in<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    json: JString<'frame>,
    path: JString<'frame>,
    first_shard: jint,
    last_shard: jint,
) -> jlong {
    call(env, |env| {
        let (settings, dir) = (settings(env, &json)?, directory(env, &path)?);
        let shards = Shards::new(first_shard, last_shard)?;
        Ok(ENGINES.insert(if settings.is_isolated() {
            Box::new(Groups::create_in(&settings, &dir, shards)?)
        } else {
            Box::new(Partition::create_in(&settings, &dir, shards)?)
        }))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_open<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    json: JString<'frame>,
    path: JString<'frame>,
    first_shard: jint,
    last_shard: jint,
) -> jlong {
    call(env, |env| {
        let (settings, dir) = (settings(env, &json)?, directory(env, &path)?);
        let shards = Shards::new(first_shard, last_shard)?;
        Ok(ENGINES.insert(if settings.is_isolated() {
            Box::new(Groups::open(&settings, &dir, shards)?)
        } else {
            Box::new(Partition::open(&settings, &dir, shards)?)
        }))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_take<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
    path: JString<'frame>,
    first_shard: jint,
    last_shard: jint,
) -> jlong {
    call(env, |env| {
        let source = directory(env, &path)?;
        let shards = Shards::new(first_shard, last_shard)?;
        Ok(ENGINES.get(engine)?.take(&source, &shards)? as jlong)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_moment<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
) -> jlong {
    call(env, |_| Ok(READ_SNAPSHOTS.insert(ENGINES.get(engine)?.moment()?)))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn moment_search<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    moment: jlong,
    queries: JByteBuffer<'frame>,
    mut answers: JByteBuffer<'frame>,
) -> jint {
    call(env, |env| {
        let moment = READ_SNAPSHOTS.get(moment)?;
        let (queries, answers) =
            input_and_output(env, (&queries, "queries"), (&mut answers, "answers"))?;
        Ok(count(moment.search(queries, answers)?))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn moment_search_fields<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    moment: jlong,
    queries: JByteBuffer<'frame>,
) -> JByteArray<'frame> {
    call(env, |env| {
        let moment = READ_SNAPSHOTS.get(moment)?;
        let answers = moment.search_fields(input(env, &queries, "queries")?)?;
        Ok(env.byte_array_from_slice(&answers)?)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn moment_close<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    moment: jlong,
) {
    call(env, |_| READ_SNAPSHOTS.remove(moment).map(drop))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_write<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
    records: JByteBuffer<'frame>,
    records_count: jint,
) -> JByteArray<'frame> {
    call(env, |env| {
        let records = input(env, &records, "records")?;
        match ENGINES.get(engine)?.write(records, records_count)?.to_bytes() {
            Some(bytes) => Ok(env.byte_array_from_slice(&bytes)?),
            None => Ok(JByteArray::default()),
        }
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_search<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
    queries: JByteBuffer<'frame>,
    mut answers: JByteBuffer<'frame>,
) -> jint {
    call(env, |env| {
        let partition = ENGINES.get(engine)?;
        let (queries, answers) =
            input_and_output(env, (&queries, "queries"), (&mut answers, "answers"))?;
        Ok(count(partition.search(queries, answers)?))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_search_fields<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
    queries: JByteBuffer<'frame>,
) -> JByteArray<'frame> {
    call(env, |env| {
        let partition = ENGINES.get(engine)?;
        let answers = partition.search_fields(input(env, &queries, "queries")?)?;
        Ok(env.byte_array_from_slice(&answers)?)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_pin<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
) -> jlong {
    call(env, |_| Ok(SNAPSHOTS.insert(ENGINES.get(engine)?.pin()?)))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn snapshot_write<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    snapshot: jlong,
    path: JString<'frame>,
    synced: jboolean,
) {
    call(env, |env| SNAPSHOTS.get(snapshot)?.write(&directory(env, &path)?, synced))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn snapshot_close<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    snapshot: jlong,
) {
    call(env, |_| SNAPSHOTS.remove(snapshot).map(drop))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_stats<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
) -> JString<'frame> {
    call(env, |env| {
        let stats = ENGINES.get(engine)?.stats_json()?;
        Ok(env.new_string(stats)?)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_aim<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
    audits: jdouble,
    lost: jdouble,
    missed: jdouble,
    own_missed: jdouble,
    own_allowed: jdouble,
) -> jdouble {
    let merged = MergedAudits { audits, lost, missed, own_missed, own_allowed };
    call(env, |_| ENGINES.get(engine)?.aim(&merged))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_close<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
) {
    call(env, |_| ENGINES.remove(engine).map(drop))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_sample<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
    share: jdouble,
    slice: jint,
    slices: jint,
) -> JByteArray<'frame> {
    call(env, |env| {
        let rows = ENGINES.get(engine)?.sample(&Draw::new(share, slice, slices)?)?;
        Ok(env.byte_array_from_slice(&rows)?)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn snapshot_write_moved<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    snapshot: jlong,
    path: JString<'frame>,
    ranges: JByteArray<'frame>,
) -> jlong {
    call(env, |env| {
        let ranges = env.convert_byte_array(&ranges)?;
        Ok(SNAPSHOTS.get(snapshot)?.write_moved(&directory(env, &path)?, &ranges)? as jlong)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_loads<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
) -> JByteArray<'frame> {
    call(env, |env| {
        let loads = ENGINES.get(engine)?.loads()?;
        Ok(env.byte_array_from_slice(&loads)?)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_await<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
    awaited: jboolean,
) {
    call(env, |_| ENGINES.get(engine)?.await_rows(awaited))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_adopt<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
    adoption: jlong,
    rows_max: jint,
) -> jint {
    call(env, |_| Ok(count(ENGINES.get(engine)?.adopt(&*ADOPTIONS.get(adoption)?, rows_max)?)))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_release<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
    ranges: JByteArray<'frame>,
    rows_max: jint,
) -> jint {
    call(env, |env| {
        let ranges = env.convert_byte_array(&ranges)?;
        Ok(jint::try_from(ENGINES.get(engine)?.release(&ranges, rows_max)?).unwrap_or(jint::MAX))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn adoption_open<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    json: JString<'frame>,
    path: JString<'frame>,
) -> jlong {
    call(env, |env| {
        let adopting = Adopting::open(&settings(env, &json)?, &directory(env, &path)?)?;
        Ok(ADOPTIONS.insert(adopting))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn adoption_close<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    adoption: jlong,
) {
    call(env, |_| ADOPTIONS.remove(adoption).map(drop))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn group_shard<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    seed: jlong,
    shards: jint,
    group: JByteArray<'frame>,
) -> jint {
    call(env, |env| {
        let group = env.convert_byte_array(&group)?;
        let group = std::str::from_utf8(&group)
            .map_err(|_| Failure::invalid("The name of a group is no UTF-8."))?;
        let shards = u16::try_from(shards).unwrap_or(0);
        // Checks the number, too.
        vstream_group::ShardRange::all(shards)?;
        Ok(jint::from(vstream_group::shard_of(group, seed as u64, shards)?))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn filters_open<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    json: JString<'frame>,
) -> jlong {
    call(env, |env| Ok(FILTERS.insert(Filters::new(settings(env, &json)?))))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn filters_compile<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    filters: jlong,
    json: JString<'frame>,
) -> JByteArray<'frame> {
    call(env, |env| {
        let bytes = FILTERS.get(filters)?.compile(&text(env, &json, "filter")?)?;
        Ok(env.byte_array_from_slice(&bytes)?)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn filters_check_ranked<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    filters: jlong,
    json: JString<'frame>,
) {
    call(env, |env| FILTERS.get(filters)?.check_ranked(&text(env, &json, "order")?))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn filters_close<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    filters: jlong,
) {
    call(env, |_| FILTERS.remove(filters).map(drop))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn yield_to_others<'frame>(env: EnvUnowned<'frame>, _class: JClass<'frame>) {
    call(env, |_| {
        vstream_engine::yield_to_others();
        Ok(())
    })
}
