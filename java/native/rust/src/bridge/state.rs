//! The calls of `Bridge.java` for shared states.

use jni::objects::{JByteArray, JClass, JString};
use jni::sys::{jboolean, jlong};
use jni::{jni_mangle, EnvUnowned};

use super::{call, directory, text, ENGINES};
use crate::handles::Handles;
use crate::state::SharedStateHandle;

/// Shared states that Java holds.
static STATES: Handles<SharedStateHandle> = Handles::new("state", 5);

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_share<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
) -> jlong {
    call(env, |_| Ok(STATES.insert(ENGINES.get(engine)?.share()?)))
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn engine_inherit_remote<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
) {
    call(env, |_| ENGINES.get(engine)?.inherit_remote())
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn state_files<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    state: jlong,
    whole: jboolean,
) -> JString<'frame> {
    call(env, |env| {
        let files = STATES.get(state)?.files(whole)?;
        Ok(env.new_string(files)?)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn state_bring<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    state: jlong,
    name: JString<'frame>,
    path: JString<'frame>,
) {
    call(env, |env| {
        let (name, into) = (text(env, &name, "name")?, directory(env, &path)?);
        STATES.get(state)?.bring(&name, &into)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn state_make_own<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    state: jlong,
) {
    call(env, |_| STATES.get(state)?.make_own())
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn state_release_copied<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    state: jlong,
) -> jboolean {
    call(env, |_| STATES.get(state)?.release_copied())
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn state_end_deletes<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    state: jlong,
) {
    call(env, |_| {
        STATES.get(state)?.end_deletes();
        Ok(())
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn state_manifest<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    state: jlong,
) -> JByteArray<'frame> {
    call(env, |env| {
        let bytes = STATES.get(state)?.manifest()?;
        Ok(env.byte_array_from_slice(&bytes)?)
    })
}

#[jni_mangle("io.vstream.nativecore.Bridge")]
pub extern "system" fn state_close<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    state: jlong,
) {
    call(env, |_| STATES.remove(state).map(drop))
}
