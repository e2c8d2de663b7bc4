//! Where a sync puts what it brings.

use std::fs;

use super::case::Case;
use super::remote::{Carrier, Direction, Route};

#[test]
fn missing_directories_are_made_where_that_is_asked_for() {
    for (carrier, direction) in [
        (Carrier::Ssh, Direction::Push),
        (Carrier::Daemon, Direction::Push),
        (Carrier::Daemon, Direction::Pull),
    ] {
        let case = Case::new("missing_directories_are_made_where_that_is_asked_for");
        let route = Route::open(&case, carrier, direction);
        let source = route.source_path("tree");
        fs::create_dir_all(source.join("d")).expect("our own place");
        fs::create_dir_all(route.target_path("")).expect("our own place");
        fs::write(source.join("d/f"), "content").expect("our own place");
        let run = |options: &[&str], from: &str, to: &str| {
            let options: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
            let mut command = route.sync(&options);
            case.run(command.arg(route.source(from)).arg(route.target(to)))
        };
        run(&["-a"], "tree/", "no/such/place/").expect_code(11);
        assert!(!route.target_path("no").exists());
        run(&["-an", "--mkpath"], "tree/", "no/such/place/").expect_success();
        assert!(!route.target_path("no").exists(), "a dry run makes nothing");
        for _ in ["new", "again"] {
            run(&["-a", "--mkpath", "--delete"], "tree/", "x//y/./z/").expect_success();
            run(&["-a", "--mkpath", "--delete-before"], "tree/", "p/q").expect_success();
            run(&["-t", "--mkpath"], "tree/d/f", "one/two/name").expect_success();
        }
        for path in ["x/y/z/d/f", "p/q/d/f", "one/two/name"] {
            assert_eq!(
                fs::read(route.target_path(path)).expect(path),
                b"content",
                "{carrier:?} {direction:?}"
            );
        }
        // What is in the way stays.
        run(&["-a", "--mkpath"], "tree/", "one/two/name/more/").expect_code(3);
    }
}
