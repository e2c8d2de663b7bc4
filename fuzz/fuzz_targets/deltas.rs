#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fobs_daemon::fuzzing::run("deltas", input));
