#!/bin/sh
# Fuzzes one target for so many seconds: fuzz/run.sh TARGET SECONDS. Stable Rust and a C++ compiler
# are enough. What is found is kept in fuzz/corpus/TARGET, which `cargo test` runs from then on.
set -eu
target=$1
seconds=$2
cd "$(dirname "$0")"
host=$(rustc -vV | sed -n 's/^host: //p')
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-pc-table"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-trace-compares"
# With a target of its own the flags are not those of build scripts, which have no libFuzzer.
RUSTFLAGS="$coverage" cargo build --release --quiet --target "$host"
inputs=target/inputs/$target
mkdir -p "$inputs" "corpus/$target"
FUZZ_TARGET=$target FUZZ_INPUTS=$inputs exec "target/$host/release/fuzz" \
  -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=1024 \
  -print_final_stats=1 -artifact_prefix="corpus/$target/" "$inputs" "corpus/$target"
