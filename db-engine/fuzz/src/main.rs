//! Runs one target under libFuzzer: see `run.sh`.
#![no_main]

#[path = "../../tests/simulated/mod.rs"]
mod simulated;
#[path = "../targets/mod.rs"]
mod targets;
#[path = "../../tests/whole/mod.rs"]
mod whole;
#[path = "../../tests/wire"]
mod wire {
    #[allow(dead_code)]
    pub mod client;
}

use std::{env, fs, path::Path, sync::OnceLock};
use targets::{TARGETS, Target};

static CHOSEN: OnceLock<&Target> = OnceLock::new();

/// Finds the target by its name, and writes its first inputs where libFuzzer will look for them.
fn choose() {
    let name = env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.unwrap_or_else(|| panic!("there is no target {name}"));
    let folder = env::var("FUZZ_INPUTS").expect("FUZZ_INPUTS is the folder of inputs");
    for (number, input) in (target.inputs)().iter().enumerate() {
        let path = Path::new(&folder).join(format!("first-{number}"));
        fs::write(path, input).expect("the folder can be written");
    }
    CHOSEN.set(target).ok();
}

libfuzzer_sys::fuzz_target!(init: choose(), |bytes: &[u8]| {
    (CHOSEN.get().expect("chosen first").run)(bytes);
});
