//! Servers that hear another request, or other answers, than the client gave: they list and send what was
//! left out, what was not named, what is not kept, what was to stay. The client is unpatched, over ssh.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::case::{Case, peer_path};
use super::middleman::Middleman;
use super::net::Side;

/// What the server makes of a message of the client's.
type Edit = fn(&mut Value);

/// Another value of a member of the request's sync; it must be there.
fn set(message: &mut Value, member: &str, value: Value) {
    if let Some(there) = message.pointer_mut(&format!("/sync{member}")) {
        *there = value;
    }
}

fn without_filter(message: &mut Value) {
    set(message, "/filter/rules", json!([]));
}

fn without_list(message: &mut Value) {
    set(message, "/names", Value::Null);
}

fn with_links(message: &mut Value) {
    set(message, "/preserve/links", json!("kept"));
    deaf(message);
}

fn with_hard_links(message: &mut Value) {
    set(message, "/preserve/hard_links", json!(true));
    deaf(message);
}

fn with_fifos(message: &mut Value) {
    set(message, "/preserve/specials", json!(true));
    deaf(message);
}

fn with_all_directories(message: &mut Value) {
    set(message, "/directories", json!("all"));
}

/// Every decision is heard as "send".
fn deaf(message: &mut Value) {
    let Some(Value::String(choices)) = message.get_mut("choices") else { return };
    let bytes = BASE64_STANDARD.decode(&*choices).expect("base64");
    let (mut rest, mut sent) = (&bytes[..], Vec::new());
    // A decision, a reason of a failure, and what differs; numbers have 7 bits a byte (protocol 7.8).
    while let [decision, after @ ..] = rest {
        let number =
            |bytes: &[u8]| bytes.iter().position(|byte| byte & 0x80 == 0).expect("a number ends") + 1;
        let changes = match decision {
            0 | 1 | 2 | 5 => after,
            // Reasons here are shorter than 2^14.
            4 if number(after) == 1 => &after[1 + usize::from(after[0])..],
            4 => &after[2 + usize::from(after[0] & 0x7f) + (usize::from(after[1]) << 7)..],
            decision => panic!("no decision {decision} without a run before"),
        };
        let len = number(changes);
        sent.push(0);
        sent.extend_from_slice(&changes[..len]);
        rest = &changes[len..];
    }
    *choices = BASE64_STANDARD.encode(sent);
}

/// What a name is: kind, mode, number of names, content.
type Standing = (char, u32, u64, Vec<u8>);

fn states(top: &Path, below: &Path, found: &mut BTreeMap<String, Standing>) {
    for entry in fs::read_dir(below).expect("a directory").flatten() {
        let (path, stat) = (entry.path(), entry.metadata().expect("it is there"));
        let (kind, content) = if stat.is_dir() {
            states(top, &path, found);
            ('d', Vec::new())
        } else if stat.is_symlink() {
            ('l', fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes())
        } else if stat.is_file() {
            ('f', fs::read(&path).expect("own file"))
        } else {
            ('p', Vec::new())
        };
        let names = if kind == 'd' { 1 } else { stat.nlink() };
        // Our own journal: what was asked for can go on.
        if entry.file_name().as_encoded_bytes().starts_with(b".fobs-") {
            continue;
        }
        let name = path.strip_prefix(top).expect("below it").to_string_lossy().into_owned();
        found.insert(name, (kind, stat.mode() & 0o7777, names, content));
    }
}

/// The server's tree, and that of the user with some of the names in it.
fn make_trees(case: &Case) -> (std::path::PathBuf, std::path::PathBuf) {
    let (theirs, mine) = (case.path("theirs"), case.local("mine"));
    for directory in ["d/sub", "keep"] {
        fs::create_dir_all(theirs.join(directory)).expect("a fresh directory");
        fs::set_permissions(theirs.join(directory), PermissionsExt::from_mode(0o777)).expect("own");
    }
    fs::create_dir_all(mine.join("keep")).expect("a fresh directory");
    fs::set_permissions(mine.join("keep"), PermissionsExt::from_mode(0o700)).expect("own");
    for name in ["a", "b", ".bashrc", "x_1", "d/f", "d/sub/.bashrc", "keep/evil"] {
        fs::write(theirs.join(name), "evil").expect("a fresh file");
    }
    fs::hard_link(theirs.join("a"), theirs.join("h")).expect("a link");
    symlink("/etc/passwd", theirs.join("l")).expect("a link");
    let mut fifo = case.command(Side::Server, "mkfifo");
    case.run(fifo.arg(theirs.join("p"))).expect_success();
    let later = SystemTime::now() + Duration::from_secs(1_000_000);
    for name in ["b", "keep/private", "x_1", "extra"] {
        fs::write(mine.join(name), "mine, and longer").expect("a fresh file");
        let file = File::options().write(true).open(mine.join(name)).expect("own file");
        file.set_times(FileTimes::new().set_modified(later)).expect("own file");
    }
    (theirs, mine)
}

/// Pulls from a server that hears what `edit` makes of the messages, and judges what the user's tree may have
/// become: names in `may` were asked for, all else is as before.
fn play(options: &[&str], edit: Edit, may: &[&str]) {
    let case = Case::new("hostile_servers");
    let (theirs, mine) = make_trees(&case);
    let between = Middleman::new(&case);
    let mut before = BTreeMap::new();
    states(&mine, &mine, &mut before);
    let mut server = Command::new(peer_path());
    server.arg("server").env("HOME", case.path("home"));
    let serving = between.serve(server, move |body| {
        let Ok(mut message) = serde_json::from_slice::<Value>(body) else { return false };
        let said = message.clone();
        edit(&mut message);
        let is_edited = message != said;
        if is_edited {
            *body = serde_json::to_vec(&message).expect("JSON");
        }
        is_edited
    });
    fs::write(case.path("list"), "a\nd/f\n").expect("a fresh file");
    let mut sync = case.fobs(Side::Client);
    sync.args(["sync", "--transport", "ssh", "--ssh"]).arg(&between.ssh).args(options);
    sync.current_dir(case.path(""));
    let done = case.run(sync.arg(format!("127.0.0.1:{}/", theirs.display())).arg(&mine));
    let (edited, said) = (serving.join().expect("no panic"), done.said());
    assert!(edited > 0, "{options:?}: nothing was rewritten: {said}");
    assert!(!said.contains("panicked") && !said.contains("report this"), "{options:?}: {said}");
    assert_ne!(done.code, Some(0), "{options:?}: a breach is no success: {said}");
    let mut after = BTreeMap::new();
    states(&mine, &mine, &mut after);
    for name in before.keys().chain(after.keys()) {
        let is_asked_for = may.contains(&name.as_str()) && after.get(name).is_none_or(|it| it.2 == 1);
        assert!(
            before.get(name) == after.get(name) || is_asked_for,
            "{options:?}: '{name}' was {:?} and is {:?}: {said}",
            before.get(name),
            after.get(name)
        );
    }
}

const ALL: &[&str] = &["a", "b", "d", "d/f", "d/sub", "h", "x_1"];

#[test]
fn what_the_filter_left_out_is_not_stored() {
    play(&["-rt", "--exclude=.bashrc", "--exclude=x_*", "--exclude=/keep"], without_filter, &ALL[..6]);
    play(&["-a", "--filter=- .bashrc", "--filter=- keep/", "--no-l", "--no-D"], without_filter, ALL);
    play(&["-a", "--exclude=.bashrc", "--exclude=keep", "--no-l", "--no-D"], without_filter, ALL);
}

#[test]
fn what_is_left_out_is_not_deleted() {
    let may = [ALL, &["extra"]].concat();
    let options = ["-r", "--delete", "--exclude=keep", "--exclude=.bashrc"];
    play(&options, without_filter, &may);
    play(&["-r", "--delete-after", "--exclude=keep", "--exclude=.bashrc"], without_filter, &may);
}

#[test]
fn what_was_not_listed_is_not_stored() {
    let listed = ["a", "d", "d/f"];
    play(&["-rt", "--files-from=list"], without_list, &listed);
    play(&["-a", "--no-l", "--no-D", "--files-from=list"], without_list, &listed);
    play(&["-dt", "--exclude=.bashrc"], with_all_directories, ALL);
}

#[test]
fn what_is_not_kept_is_not_made() {
    let files = [ALL, &["keep", "keep/evil", ".bashrc", "d/sub/.bashrc"]].concat();
    play(&["-rt"], with_links, &files);
    play(&["-rt"], with_hard_links, &files);
    play(&["-rt"], with_fifos, &files);
}

#[test]
fn what_the_client_does_not_want_is_not_stored() {
    play(&["-r", "--existing"], deaf, &["b", "x_1", "keep"]);
    play(
        &["-r", "--ignore-existing"],
        deaf,
        &[ALL[0], "d", "d/f", "d/sub", "h", ".bashrc", "d/sub/.bashrc", "keep/evil"],
    );
    play(&["-ru"], deaf, &["a", "d", "d/f", "d/sub", "h", ".bashrc", "d/sub/.bashrc", "keep/evil"]);
    play(&["-rn"], deaf, &[]);
    play(&["-r", "--max-size=2"], deaf, &["d", "d/sub"]);
}
