//! All targets of `fuzz/`, with the inputs that were once a problem and some random ones.
//! `SANDGLASS_SEED=n` chooses the random ones.

mod simulated;
#[path = "../fuzz/targets/mod.rs"]
mod targets;
mod whole;
mod wire;

use sandglass_db::io::Random;
use std::{
    fs, panic,
    path::Path,
    time::{Duration, Instant},
};
use targets::{TARGETS, Target};

/// How long each target is given random inputs.
const RANDOM_MAX: Duration = Duration::from_millis(150);

fn run(target: &Target, input: &[u8], what: &str) {
    if let Err(panicked) = panic::catch_unwind(|| (target.run)(input)) {
        eprintln!("target {} fails with {what}: {input:02x?}", target.name);
        panic::resume_unwind(panicked);
    }
}

/// One of the inputs, changed a little.
fn changed(inputs: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let index = |random: &mut Random, length: usize| {
        usize::try_from(random.below(length as u64)).expect("it is an index")
    };
    let mut input = inputs[index(random, inputs.len())].clone();
    for _ in 0..=random.below(4) {
        let at = index(random, input.len() + 1);
        let byte = u8::try_from(random.below(256)).expect("a byte");
        match random.below(5) {
            0 => input.insert(at, byte),
            1 => input.truncate(at),
            2 => drop(input.drain(at..(at + 3).min(input.len()))),
            3 => {
                let other = &inputs[index(random, inputs.len())];
                let from = index(random, other.len() + 1);
                input.splice(at.., other[from..].iter().copied());
            }
            _ => {
                if let Some(place) = input.get_mut(at) {
                    *place ^= byte;
                }
            }
        }
    }
    input
}

#[test]
fn what_was_once_found_does_no_harm() {
    for target in TARGETS {
        let folder = Path::new("fuzz/corpus").join(target.name);
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("the folder can be read").path();
            let input = fs::read(&path).expect("the file can be read");
            run(target, &input, &path.display().to_string());
        }
    }
}

#[test]
fn random_inputs_do_no_harm() {
    let seed = std::env::var("SANDGLASS_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    for target in TARGETS {
        let mut random = Random(seed);
        let inputs = (target.inputs)();
        for input in &inputs {
            run(target, input, "one of its own inputs");
        }
        let until = Instant::now() + RANDOM_MAX;
        while Instant::now() < until {
            run(target, &changed(&inputs, &mut random), "a random input");
        }
    }
}
