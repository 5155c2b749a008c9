//! Failures on demand. Only the tests have the Java class that declares these calls, so product
//! code cannot reach them. Every build has them, so that the tests run the code that is shipped.

use jni::objects::{JClass, JString};
use jni::sys::{jint, jlong};
use jni::{jni_mangle, EnvUnowned};

use crate::bridge::{call, ENGINES};
use crate::failure::{Failure, Kind};

/// Panics inside a call on an engine; with handle 0, inside a call without an engine.
#[jni_mangle("io.vstream.nativecore.NativeFaults")]
pub extern "system" fn panic<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    engine: jlong,
) {
    call(env, |_| {
        if engine == 0 {
            panic!("a panic outside of any engine, asked for by a test");
        }
        ENGINES.get(engine)?.guard(&|| panic!("a panic inside an engine, asked for by a test"))
    })
}

/// Fails with the kind of this code.
#[jni_mangle("io.vstream.nativecore.NativeFaults")]
pub extern "system" fn fail<'frame>(
    env: EnvUnowned<'frame>,
    _class: JClass<'frame>,
    code: jint,
    message: JString<'frame>,
) {
    call(env, |env| {
        let message = message.try_to_string(env)?;
        Err(Failure::new(Kind::of_code(code), message))
    })
}
