//! The calls of `Bridge.java` for routers.

use jni::objects::{JByteArray, JByteBuffer, JClass, JString};
use jni::sys::{jboolean, jdouble, jint, jlong};
use jni::{jni_mangle, EnvUnowned};

use super::{call, count, settings};
use crate::handles::Handles;
use crate::memory::{input, input_and_output};
use crate::router::{Limits, Observed, Router};

/// Routers that Java holds.
static ROUTERS: Handles<Router> = Handles::new("router", 2);

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_unplaced<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    json: JString<'frame>,
) -> jlong {
    call(env, |env| Ok(ROUTERS.insert(Router::unplaced(&settings(env, &json)?))))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_train<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    json: JString<'frame>,
    sample: JByteBuffer<'frame>,
    rows: jint,
    epoch: jlong,
) -> jlong {
    call(env, |env| {
        let settings = settings(env, &json)?;
        let sample = input(env, &sample, "sample")?;
        Ok(ROUTERS.insert(Router::train(&settings, sample, rows, epoch)?))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_from_bytes<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    template: JByteArray<'frame>,
) -> jlong {
    call(env, |env| {
        let bytes = env.convert_byte_array(&template)?;
        Ok(ROUTERS.insert(Router::from_bytes(&bytes)?))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_to_bytes<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    router: jlong,
) -> JByteArray<'frame> {
    call(env, |env| {
        let bytes = ROUTERS.get(router)?.to_bytes()?;
        Ok(env.byte_array_from_slice(&bytes)?)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_epoch<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    router: jlong,
) -> jlong {
    call(env, |_| Ok(ROUTERS.get(router)?.epoch()))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_placed<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    router: jlong,
) -> jboolean {
    call(env, |_| Ok(ROUTERS.get(router)?.is_placed()))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_place<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    router: jlong,
    id: jlong,
    vector: JByteBuffer<'frame>,
    mut placements: JByteBuffer<'frame>,
) -> jint {
    call(env, |env| {
        let router = ROUTERS.get(router)?;
        let (vector, placements) =
            input_and_output(env, (&vector, "vector"), (&mut placements, "placements"))?;
        Ok(count(router.place(id, vector, placements)?))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_fan_out<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    router: jlong,
    query: JByteBuffer<'frame>,
    parallelism: jint,
    mut partitions: JByteBuffer<'frame>,
) -> jint {
    call(env, |env| {
        let router = ROUTERS.get(router)?;
        let (query, partitions) =
            input_and_output(env, (&query, "query"), (&mut partitions, "partitions"))?;
        Ok(count(router.fan_out(query, parallelism, partitions)?))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_close<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    router: jlong,
) {
    call(env, |_| ROUTERS.remove(router).map(drop))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_shard_of<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    router: jlong,
    code: jlong,
) -> jint {
    call(env, |_| Ok(ROUTERS.get(router)?.shard_of(code)))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_shards<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    router: jlong,
) -> jint {
    call(env, |_| Ok(ROUTERS.get(router)?.shards()))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_cells<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    router: jlong,
) -> jint {
    call(env, |_| Ok(count(ROUTERS.get(router)?.cells())))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_movable<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    router: jlong,
) -> jboolean {
    call(env, |_| Ok(ROUTERS.get(router)?.is_movable()))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_moves<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    router: jlong,
    older: jlong,
) -> JByteArray<'frame> {
    call(env, |env| {
        let ranges = ROUTERS.get(router)?.moves_since(&*ROUTERS.get(older)?)?;
        Ok(env.byte_array_from_slice(&ranges)?)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_rebalance<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    router: jlong,
    loads: JByteBuffer<'frame>,
    parallelism: jint,
    boundary: jboolean,
    trigger: jdouble,
    target: jdouble,
    moved_max: jdouble,
) -> JByteArray<'frame> {
    call(env, |env| {
        let limits = Limits { parallelism, boundary, trigger, target, moved_max };
        let loads = input(env, &loads, "loads")?;
        let template = ROUTERS.get(router)?.rebalance(loads, &limits)?;
        Ok(env.byte_array_from_slice(&template.unwrap_or_default())?)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn router_renew<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    router: jlong,
    json: JString<'frame>,
    loads: JByteBuffer<'frame>,
    sample: JByteArray<'frame>,
    share: jdouble,
    parallelism: jint,
    boundary: jboolean,
    trigger: jdouble,
    target: jdouble,
    moved_max: jdouble,
) -> JByteArray<'frame> {
    call(env, |env| {
        let limits = Limits { parallelism, boundary, trigger, target, moved_max };
        let settings = settings(env, &json)?;
        let sample = env.convert_byte_array(&sample)?;
        let observed = Observed { loads: input(env, &loads, "loads")?, sample: &sample, share };
        let template = ROUTERS.get(router)?.retrain(&settings, &observed, &limits)?;
        Ok(env.byte_array_from_slice(&template)?)
    })
}
