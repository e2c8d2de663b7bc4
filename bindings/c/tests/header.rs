//! The header is what cbindgen makes of the source.

use std::fs;
use std::path::Path;

#[test]
fn the_header_is_of_this_source() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("its configuration");
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_config(config)
        .with_src(here.join("src/calls.rs"))
        .with_src(here.join("src/calls/streams.rs"))
        .generate()
        .expect("a header")
        .write(&mut made);
    let (file, made) = (here.join("include/fobs.h"), String::from_utf8(made).expect("text"));
    if std::env::var_os("FOBS_HEADER").is_some_and(|wish| wish == "write") {
        fs::write(&file, &made).expect("the header is ours");
    }
    assert!(
        fs::read_to_string(&file).is_ok_and(|kept| kept == made),
        "run FOBS_HEADER=write cargo test -p fobs-c --test header, and look at the difference"
    );
}
