//! Trees: names of any bytes, links, modes, times, and the destination of each entry.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::case::Case;
use super::files::{Compare, assert_same_tree, hash, make_many, make_odd_tree, names, write_random};
use super::remote::{Carrier, Direction, Route};

fn an_odd_tree(name: &'static str, carrier: Carrier, direction: Direction) {
    let case = Case::new(name);
    let route = Route::open(&case, carrier, direction);
    make_odd_tree(&route.source_path("tree"), &mut case.random());
    let done = case.run(&mut route.copy(&["-r", "-p"], "tree", "copy")).expect_success().done();
    assert_eq!(done["errors"].as_array().map(Vec::len), Some(0), "{done}");
    assert_same_tree(&route.source_path("tree"), &route.target_path("copy"), Compare::Metadata);
}

#[test]
fn an_odd_tree_is_pushed_to_the_daemon_with_modes_and_times() {
    an_odd_tree("an_odd_tree_is_pushed_to_the_daemon_with_modes_and_times", Carrier::Daemon, Direction::Push);
}

#[test]
fn an_odd_tree_is_pulled_from_the_daemon_with_modes_and_times() {
    an_odd_tree(
        "an_odd_tree_is_pulled_from_the_daemon_with_modes_and_times",
        Carrier::Daemon,
        Direction::Pull,
    );
}

#[test]
fn an_odd_tree_is_pushed_through_ssh_with_modes_and_times() {
    an_odd_tree("an_odd_tree_is_pushed_through_ssh_with_modes_and_times", Carrier::Ssh, Direction::Push);
}

#[test]
fn an_odd_tree_is_pulled_through_ssh_with_modes_and_times() {
    an_odd_tree("an_odd_tree_is_pulled_through_ssh_with_modes_and_times", Carrier::Ssh, Direction::Pull);
}

fn twenty_thousand_files(name: &'static str, carrier: Carrier, direction: Direction) {
    let case = Case::new(name);
    let route = Route::open(&case, carrier, direction);
    make_many(&route.source_path("many"), 20_000, 6_000, &mut case.random());
    let done = case.run(&mut route.copy(&["-r"], "many", "many")).expect_success().done();
    assert_eq!(done["files"], 20_000, "{done}");
    assert_same_tree(&route.source_path("many"), &route.target_path("many"), Compare::Content);
}

#[test]
fn twenty_thousand_files_are_pushed_through_the_daemon() {
    twenty_thousand_files(
        "twenty_thousand_files_are_pushed_through_the_daemon",
        Carrier::Daemon,
        Direction::Push,
    );
}

#[test]
fn twenty_thousand_files_are_pulled_through_ssh() {
    twenty_thousand_files("twenty_thousand_files_are_pulled_through_ssh", Carrier::Ssh, Direction::Pull);
}

fn where_a_directory_arrives(name: &'static str, direction: Direction) {
    let case = Case::new(name);
    let route = Route::open(&case, Carrier::Daemon, direction);
    make_many(&route.source_path("tree"), 5, 100, &mut case.random());
    let source = route.source_path("tree");
    let same = |target: &str| assert_same_tree(&source, &route.target_path(target), Compare::Content);

    // To an unused name: the directory gets that name.
    case.run(&mut route.copy(&["-r"], "tree", "free")).expect_success();
    same("free");
    // Into an existing directory: it keeps its own name there.
    fs::create_dir(route.target_path("there")).expect("a fresh directory");
    case.run(&mut route.copy(&["-r"], "tree", "there")).expect_success();
    same("there/tree");
    assert_eq!(names(&route.target_path("there")), ["tree"]);
    // With a trailing slash: its contents, into a directory that exists or not.
    fs::create_dir(route.target_path("contents")).expect("a fresh directory");
    case.run(&mut route.copy(&["-r"], "tree/", "contents")).expect_success();
    same("contents");
    case.run(&mut route.copy(&["-r"], "tree/", "fresh")).expect_success();
    same("fresh");
    // Repeated: nothing is nested or duplicated.
    case.run(&mut route.copy(&["-r"], "tree/", "contents")).expect_success();
    same("contents");
}

#[test]
fn a_trailing_slash_means_the_contents_when_pushing() {
    where_a_directory_arrives("a_trailing_slash_means_the_contents_when_pushing", Direction::Push);
}

#[test]
fn a_trailing_slash_means_the_contents_when_pulling() {
    where_a_directory_arrives("a_trailing_slash_means_the_contents_when_pulling", Direction::Pull);
}

fn several_sources(name: &'static str, carrier: Carrier, direction: Direction) {
    let case = Case::new(name);
    let route = Route::open(&case, carrier, direction);
    let mut random = case.random();
    for file in ["one", "two"] {
        write_random(&route.source_path(file), 100_000, &mut random);
    }
    make_many(&route.source_path("tree"), 7, 1000, &mut random);
    fs::create_dir(route.target_path("all")).expect("a fresh directory");
    let mut command = route.cp(&["-r"]);
    for source in ["one", "tree", "two"] {
        command.arg(route.source(source));
    }
    let done = case.run(command.arg(route.target("all"))).expect_success().done();
    assert_eq!(done["files"], 9, "{done}");
    assert_eq!(names(&route.target_path("all")), ["one", "tree", "two"]);
    for file in ["one", "two"] {
        assert_eq!(hash(&route.target_path("all").join(file)), hash(&route.source_path(file)));
    }
    assert_same_tree(&route.source_path("tree"), &route.target_path("all/tree"), Compare::Content);
}

#[test]
fn several_sources_are_pushed_into_a_directory() {
    several_sources("several_sources_are_pushed_into_a_directory", Carrier::Daemon, Direction::Push);
}

#[test]
fn several_sources_are_pulled_into_a_directory_over_ssh() {
    several_sources("several_sources_are_pulled_into_a_directory_over_ssh", Carrier::Ssh, Direction::Pull);
}

#[test]
fn a_file_into_a_directory_keeps_its_name() {
    let case = Case::new("a_file_into_a_directory_keeps_its_name");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let expected = write_random(&route.source_path("file"), 12_345, &mut case.random());
    fs::create_dir(route.target_path("directory")).expect("a fresh directory");
    for (target, arrives) in [("directory", "directory/file"), ("directory/", "directory/file"), ("", "file")]
    {
        case.run(&mut route.copy(&[], "file", target)).expect_success();
        assert_eq!(hash(&route.target_path(arrives)), expected, "{target:?}");
        fs::remove_file(route.target_path(arrives)).expect("it is there");
    }
}

#[test]
fn an_empty_directory_and_an_empty_file_are_a_transfer_too() {
    let case = Case::new("an_empty_directory_and_an_empty_file_are_a_transfer_too");
    let route = Route::open(&case, Carrier::Daemon, Direction::Pull);
    fs::create_dir_all(route.source_path("tree/empty")).expect("a fresh directory");
    fs::write(route.source_path("tree/nothing"), b"").expect("a fresh file");
    fs::create_dir(route.source_path("bare")).expect("a fresh directory");
    for tree in ["tree", "bare"] {
        case.run(&mut route.copy(&["-r"], tree, tree)).expect_success();
        assert_same_tree(&route.source_path(tree), &route.target_path(tree), Compare::Content);
    }
}

#[test]
fn a_source_named_in_bytes_that_are_no_text_is_pulled_over_ssh() {
    let case = Case::new("a_source_named_in_bytes_that_are_no_text_is_pulled_over_ssh");
    let route = Route::open(&case, Carrier::Ssh, Direction::Pull);
    let name = OsStr::from_bytes(b"caf\xe9 \xff$(touch oops)'\"\n*");
    let expected = write_random(&route.source_path(name), 4_096, &mut case.random());
    case.run(&mut route.copy(&[], name, "arrived")).expect_success();
    assert_eq!(hash(&route.target_path("arrived")), expected);
    // No shell interpreted it.
    assert_eq!(names(&route.source_path("")), [name]);
}

#[test]
fn without_p_the_times_are_new_and_with_p_they_are_the_sources() {
    let case = Case::new("without_p_the_times_are_new_and_with_p_they_are_the_sources");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::new(1_234_567_890, 987_654_321);
    let file = fs::File::create(route.source_path("file")).expect("a fresh file");
    file.set_modified(old).expect("own file");
    let time = |path| fs::metadata(path).expect("it arrived").modified().expect("a time");
    case.run(&mut route.copy(&[], "file", "without")).expect_success();
    case.run(&mut route.copy(&["-p"], "file", "with")).expect_success();
    assert!(time(route.target_path("without")) > old);
    assert_eq!(time(route.target_path("with")), old);
}

#[test]
fn a_tree_of_sockets_and_pipes_moves_what_can_be_moved() {
    let case = Case::new("a_tree_of_sockets_and_pipes_moves_what_can_be_moved");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    fs::create_dir(route.source_path("tree")).expect("a fresh directory");
    let expected = write_random(&route.source_path("tree/file"), 999, &mut case.random());
    let mut mkfifo = case.command(super::net::Side::Client, "mkfifo");
    case.run(mkfifo.arg(route.source_path("tree/pipe"))).expect_success();
    let _socket = std::os::unix::net::UnixListener::bind(route.source_path("tree/socket")).expect("a socket");
    // Entries that are no files are named and skipped; opening the pipe does not block.
    let done = case.run(&mut route.copy(&["-r"], "tree", "tree")).expect_code(23).done();
    let errors = done["errors"].as_array().expect("a list");
    for name in ["pipe", "socket"] {
        assert!(
            errors.iter().any(|e| e["path"].as_str().is_some_and(|p| p.ends_with(name))),
            "{name}: {done}"
        );
    }
    assert_eq!(names(&route.target_path("tree")), ["file"]);
    assert_eq!(hash(&route.target_path("tree/file")), expected);
}
