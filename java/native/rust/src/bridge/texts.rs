//! The calls of `Bridge.java` for texts.

use jni::objects::{JByteArray, JClass, JString};
use jni::sys::{jint, jlong};
use jni::{jni_mangle, EnvUnowned};

use super::{call, count, text};
use crate::handles::Handles;
use crate::texts::{self, Embedder};

/// Models that Java holds.
static EMBEDDERS: Handles<Embedder> = Handles::new("embedder", 8);

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn embedder_open<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    model: JString<'frame>,
    runtime: JString<'frame>,
    tokens_max: jint,
    threads: jint,
) -> jlong {
    call(env, |env| {
        let (model, runtime) = (text(env, &model, "model")?, text(env, &runtime, "runtime")?);
        Ok(EMBEDDERS.insert(Embedder::open(&model, &runtime, tokens_max, threads)?))
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn embedder_dimension<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    embedder: jlong,
) -> jint {
    call(env, |_| Ok(count(EMBEDDERS.get(embedder)?.dimension())))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn embedder_embed<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    embedder: jlong,
    texts: JByteArray<'frame>,
) -> JByteArray<'frame> {
    call(env, |env| {
        let texts = env.convert_byte_array(&texts)?;
        let vectors = EMBEDDERS.get(embedder)?.embed(&texts)?;
        Ok(env.byte_array_from_slice(&vectors)?)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn embedder_close<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    embedder: jlong,
) {
    call(env, |_| EMBEDDERS.remove(embedder).map(drop))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn chunks_split<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    document: JByteArray<'frame>,
    size: jint,
    overlap: jint,
) -> JByteArray<'frame> {
    call(env, |env| {
        let document = env.convert_byte_array(&document)?;
        let chunks = texts::split(&document, size, overlap)?;
        Ok(env.byte_array_from_slice(&chunks)?)
    })
}
