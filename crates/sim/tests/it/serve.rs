//! A short run of the lab of servers; `make serve-lab` runs it for ten minutes.

use std::path::PathBuf;
use std::time::Duration;

use vstream_sim::serve::{run, Plan};

#[test]
fn a_server_that_is_killed_under_load_loses_nothing_acknowledged() {
    let plan = Plan {
        program: PathBuf::from(env!("CARGO_BIN_EXE_serve-lab")),
        place: std::env::temp_dir(),
        seed: 20_261_125,
        time: Duration::from_secs(6),
        connections: 60,
        kills: 3,
        rate: Some(600.0),
    };
    let outcome = run(&plan).expect("a server");
    println!("{}", outcome.json());
    assert!(outcome.is_clean(), "{}", outcome.json());
    let json = outcome.json();
    let count = |what: &str| json[what].as_u64().unwrap_or(0);
    // Less would say that hardly anything was tried.
    assert!(count("answered") > 300 && count("broken") > 0 && count("hostile") > 10, "{json}");
}
