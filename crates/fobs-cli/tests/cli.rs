//! The program `fobs` as a person or a script runs it, where no second host is needed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Exit code and output of one run of `fobs`.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// A command that sees nothing of this host's or user's own configuration.
fn fobs_command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fobs"));
    command.args(words).stdin(Stdio::null()).env_remove("COLUMNS").env("TERM", "dumb");
    let ours =
        |name: &OsString| name.as_bytes().starts_with(b"FOBS_") || name.as_bytes().starts_with(b"XDG_");
    std::env::vars_os().map(|(name, _)| name).filter(ours).for_each(|name| {
        command.env_remove(name);
    });
    command.env("HOME", "/nonexistent").env("FOBS_SYSTEM_CONFIG", "/dev/null");
    command
}

fn finished(mut command: Command) -> Run {
    let output = command.output().expect("fobs starts");
    let text = |bytes| String::from_utf8(bytes).expect("fobs writes UTF-8");
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn fobs(words: &[&str]) -> Run {
    finished(fobs_command(words))
}

/// Standard output of a run that must succeed.
fn printed(words: &[&str]) -> String {
    let run = fobs(words);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "fobs {}", words.join(" "));
    assert!(!run.stdout.is_empty(), "fobs {} printed nothing", words.join(" "));
    run.stdout
}

/// Every published exit code, as the library defines it.
fn exit_codes() -> BTreeSet<u8> {
    // Success, and a run of which only files that vanished failed.
    fobs::ErrorKind::ALL.iter().copied().map(fobs::ErrorKind::exit_code).chain([0, 24]).collect()
}

/// Likewise of a sync, which has rsync's.
fn codes_of_a_sync() -> BTreeSet<u8> {
    fobs::SyncEnd::ALL.iter().map(|end| end.code()).collect()
}

/// The codes of a text's exit-code table: rows that start with a number.
fn codes_in(table: &str) -> BTreeSet<u8> {
    table.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

const COMMANDS: [&str; 16] = [
    "cp",
    "sync",
    "serve",
    "log",
    "keygen",
    "explain",
    "config",
    "doctor",
    "pipe",
    "submit",
    "jobs",
    "ctl",
    "top",
    "clean",
    "man",
    "completions",
];
/// A command of another package: it has a page here, and its own `--help` there.
const HANDED_OVER: &str = "cluster";

/// The flags of a help text: `-r`, `--rate`, ...
fn flags_in_help(help: &str) -> BTreeSet<String> {
    let option_lines =
        help.lines().filter(|line| line.starts_with("  ") && line.trim_start().starts_with('-'));
    option_lines
        .flat_map(|line| line.split_whitespace().take_while(|word| word.starts_with('-') && word.len() > 1))
        .map(|word| word.trim_end_matches([',', '.']).to_owned())
        .collect()
}

#[test]
fn help_and_man_page_list_every_exit_code() {
    for words in [["--help"], ["-h"], ["help"]] {
        let help = printed(&words);
        let (_, table) = help.split_once("Exit codes:").expect("help has the table");
        assert_eq!(codes_in(table), exit_codes(), "fobs {}", words[0]);
    }
    for (page, codes) in [("fobs", exit_codes()), ("cp", exit_codes()), ("sync", codes_of_a_sync())] {
        let text = printed(&["man", page]);
        let (_, section) = text.split_once(".SH \"EXIT STATUS\"").expect("the man page has the table");
        let section = section.split(".SH").next().unwrap_or_default();
        let terms = section.lines().filter_map(|line| line.strip_prefix("\\fB")?.strip_suffix("\\fR"));
        let table = terms.map(|code| format!("\n  {code}  x")).collect::<String>();
        assert_eq!(codes_in(&table), codes, "{page}");
    }
}

#[test]
fn version_is_that_of_the_package() {
    assert_eq!(printed(&["--version"]), format!("fobs {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_of_cp_lists_all_flags() {
    let flags = flags_in_help(&printed(&["cp", "--help"]));
    let expected = "-r -p -q -v -C -l -P -i -F -J -o -3 -4 -6 -S --through-here --push-binary --no-push-binary --recursive --preserve --quiet --verbose --compress --port \
                    --identity --ssh-config --jump --ssh-option --ipv4 --ipv6 --cc --rate --ack-every --burst --packet-size --udp-ports --via --lanes \
                    --fobs-path --json --known-hosts --ssh --transport --tcp-cc --tcp-buffer --stream-allotment --priority --deadline --loss-cause --explain --trace --fsync --timeout --min-rate --memory \
                    --cache --no-partial --append-verify --checksum --delta --progress -h --help";
    assert_eq!(flags, expected.split(' ').map(str::to_owned).collect());
}

#[test]
fn man_pages_and_completions_name_every_flag_and_no_hidden_command() {
    let scripts = ["bash", "zsh", "fish"].map(|shell| (shell, printed(&["completions", shell])));
    for command in COMMANDS {
        let flags = flags_in_help(&printed(&[command, "--help"]));
        assert!(flags.contains("--help"), "{command}: {flags:?}");
        let page = printed(&["man", command]).replace("\\-", "-");
        for flag in &flags {
            assert!(page.contains(&format!("\\fB{flag}\\fR")), "man page of {command}: {flag}");
            for (shell, script) in &scripts {
                // fish spells flags `-s r -l rate`.
                let fish = match flag.strip_prefix("--") {
                    Some(long) => format!("-l {long}"),
                    None => format!("-s {}", &flag[1..]),
                };
                let spelled = if *shell == "fish" { &fish } else { flag };
                assert!(script.contains(spelled.as_str()), "{shell}: {command} {flag}");
            }
        }
    }
    // The bash script has no descriptions; the others have that of every command they complete.
    for ((shell, script), trace) in
        scripts.iter().zip(["server", "The remote end of a copy", "The remote end of a copy"])
    {
        assert!(!script.contains(trace), "{shell} completes the hidden command");
    }
    assert!(!printed(&["--help"]).contains("  server"));
}

#[test]
fn man_writes_one_file_per_page() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let out = directory.path().join("man/man1");
    let run = fobs(&["man", "--out", out.to_str().expect("UTF-8")]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "", ""));
    let written: BTreeSet<String> = fs::read_dir(&out)
        .expect("it was made")
        .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"))
        .collect();
    let commands = COMMANDS.iter().chain([&HANDED_OVER]);
    let expected = commands.map(|command| format!("fobs-{command}.1")).chain(["fobs.1".to_owned()]).collect();
    assert_eq!(written, expected);
    let all = printed(&["man"]);
    for name in written {
        let page = fs::read_to_string(out.join(&name)).expect("readable");
        assert!(page.contains(".TH fobs") && all.contains(&page), "{name}");
    }
}

#[test]
fn man_errors_say_why() {
    let run = fobs(&["man", "nothing"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    assert!(
        run.stderr.starts_with("fobs: there is no manual page \"nothing\": there are fobs, fobs-cp"),
        "{}",
        run.stderr
    );

    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("file");
    fs::write(&file, "").expect("writable");
    let run = fobs(&["man", "--out", file.to_str().expect("UTF-8")]);
    assert_eq!(run.code, Some(11));
    assert!(
        run.stderr.starts_with("fobs: cannot create ") && run.stderr.lines().count() == 1,
        "{}",
        run.stderr
    );
}

/// Invalid command lines, and a part of the error for each.
const INVALID: [(&[&str], &str); 31] = [
    (&["--nonsense"], "unexpected argument '--nonsense'"),
    (&["copy", "a", "h:"], "unrecognized subcommand 'copy'"),
    (&["cp"], "required arguments were not provided"),
    (&["cp", "a"], "needs a source and a destination"),
    (&["cp", "--nonsense", "a", "h:"], "unexpected argument '--nonsense'"),
    (&["cp", "-", "-"], "both on this host: use cp"),
    (&["cp", "fobs://h/a", "i:b"], "needs ssh to both"),
    (&["sync", "h:a", "i:b", "."], "run one sync per host"),
    (&["cp", "-", "a", "h:"], "together with other sources"),
    (&["cp", "a", "ssh:///x"], "the host name is missing"),
    (&["cp", "--", "a", "-oProxyCommand=id:"], "cannot start with '-'"),
    (&["cp", "", "h:"], "the name is empty"),
    (&["cp", "a", "ssh://h:99999/"], "is not a port"),
    (&["cp", "--cc", "fixed", "a", "h:"], "--cc fixed needs its rate"),
    (&["cp", "--cc", "warp", "a", "h:"], "possible values: auto, greedy, fixed, linear, tricolor"),
    (&["cp", "--deadline", "soon", "a", "h:"], "\"soon\" is not a deadline: give a duration (90s,"),
    (&["cp", "--deadline", "1999-01-01", "a", "h:"], "is in the past"),
    (&["cp", "--rate", "10Q", "a", "h:"], "write it like 100M or 10Gbit (bits per second) or 64MiB"),
    (&["cp", "--rate", "99999999T", "a", "h:"], "too large"),
    (&["cp", "--packet-size", "70000", "a", "h:"], "a packet carries 512 to 65000 bytes"),
    (&["cp", "--udp-ports", "9-8", "a", "h:"], "the smaller one first, as in 45601-45664"),
    (&["cp", "--ack-every", "0", "a", "h:"], "invalid value '0' for '--ack-every <N>'"),
    (&["cp", "--fobs-path", "x", "a", "fobs://h/"], "is for copies over SSH"),
    (&["serve", "--root", "."], "--authorized-keys"),
    (&["serve", "--root", ".", "--authorized-keys", "k", "--listen", "somewhere"], "[::1]:45600 or 45600"),
    (&["completions", "nosh"], "possible values: bash"),
    (&["cp", "\u{2013}rate", "10M", "a", "b:"], "begins with a dash that is no '-': type --rate"),
    (&["sync", "\u{2014}a", "a", "b:"], "type -a"),
    (&["doctor", "\u{2212}-json"], "type --json"),
    (&["log", "--key"], "see 'fobs log --help'"),
    (&["cp", "--rate"], "see 'fobs cp --help'"),
];

#[test]
fn usage_errors_exit_with_1_and_one_sentence() {
    for (words, why) in INVALID {
        let run = fobs(words);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{words:?}");
        let one_line = run.stderr.lines().count() == 1 && run.stderr.ends_with('\n');
        assert!(
            one_line && run.stderr.starts_with("fobs: ") && run.stderr.contains(why),
            "{words:?}: {}",
            run.stderr
        );
    }
}

#[test]
fn usage_errors_with_json_are_a_failed_event() {
    for (words, why) in INVALID.iter().filter(|(words, _)| words[0] == "cp") {
        let words: Vec<&str> = ["cp", "--json"].into_iter().chain(words[1..].iter().copied()).collect();
        let run = fobs(&words);
        assert_eq!(run.code, Some(1), "{words:?}");
        assert_eq!(run.stdout.lines().count(), 1, "{words:?}: {}", run.stdout);
        let line: Value = serde_json::from_str(&run.stdout).expect("JSON");
        let message = line["message"].as_str().expect("a message");
        assert!(message.contains(why), "{words:?}: {message}");
        let expected =
            json!({"v": 1, "event": "failed", "code": "usage", "message": message, "exit_code": 1});
        assert_eq!(line, expected);
        assert!(run.stderr.contains(why), "{words:?}: {}", run.stderr);
    }
}

#[test]
fn json_and_data_on_standard_output_are_refused() {
    let run = fobs(&["cp", "--json", "h:a", "-"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("both write to standard output"), "{}", run.stderr);
}

#[test]
fn without_a_command_the_help_is_an_error() {
    let run = fobs(&[]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    assert!(run.stderr.contains("Usage: fobs") && run.stderr.contains("Exit codes:"), "{}", run.stderr);
}

#[test]
fn names_of_any_bytes_are_escaped_in_errors() {
    let mut command = fobs_command(&["cp", "a"]);
    command.arg(std::ffi::OsStr::from_bytes(b"ssh://h:x\x1b[31m\xff/"));
    let run = finished(command);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("\\u{1b}[31m") && !run.stderr.contains('\x1b'), "{:?}", run.stderr);
}

#[test]
fn a_closed_pipe_is_no_error() {
    for words in [&["completions", "bash"][..], &["man"], &["--help"], &["cp", "--json", "a", "b"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = fobs_command(words);
        command.stdout(writer).stderr(Stdio::piped());
        let run = finished(command);
        // The source does not exist.
        let expected = if words[0] == "cp" { 3 } else { 0 };
        assert_eq!(run.code, Some(expected), "{words:?}: {}", run.stderr);
        assert!(
            !run.stderr.contains("panicked") && !run.stderr.contains("pipe"),
            "{words:?}: {}",
            run.stderr
        );
    }
}

#[test]
fn unwritable_output_is_an_error() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let mut probe = full();
    assert!(probe.write_all(b"x").is_err(), "/dev/full takes bytes here");
    let mut command = fobs_command(&["completions", "bash"]);
    command.stdout(full()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("fobs starts");
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("UTF-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(11), "{said}");
    assert!(said.starts_with("fobs: cannot write to standard output: "), "{said}");
}

#[test]
fn moved_commands_are_usage_errors_that_name_fobs_lab() {
    for words in [
        &["sim"][..],
        &["sim", "--help"],
        &["sim", "run", "--seed", "7", "scenarios/lossy.toml"],
        &["diagnose", "classify", "--json", "windows.jsonl"],
        &["diagnose", "--", "-x"],
    ] {
        let name = words[0];
        let run = fobs(words);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{words:?}");
        let expected = format!(
            "fobs: 'fobs {name}' is now 'fobs-lab {name}', a separate program: build it with 'cargo build --release \
             -p fobs-lab'\n"
        );
        assert_eq!(run.stderr, expected, "{words:?}");
    }
}

/// The output of `fobs cp --help` on a terminal.
fn help_on_a_terminal(no_color: Option<&str>) -> Vec<u8> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    let mut terminal = fs::File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal"));
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("a terminal that can be used");
    let name = ptsname(&terminal, Vec::new()).expect("a terminal with a name");
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let inside = fs::OpenOptions::new().read(true).write(true).open(path).expect("its other end");

    let mut command = fobs_command(&["cp", "--help"]);
    command
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .env_remove("CLICOLOR");
    if let Some(value) = no_color {
        command.env("NO_COLOR", value);
    }
    let mut child = command.stdout(inside).stderr(Stdio::null()).spawn().expect("fobs starts");
    // The command holds this process's copy of the other end; without it, reading ends when fobs exits.
    drop(command);
    let mut seen = Vec::new();
    // Linux reports a closed terminal as EIO.
    let _ = terminal.read_to_end(&mut seen);
    assert!(child.wait().expect("it ends").success());
    seen
}

#[test]
fn no_color_is_respected() {
    let coloured = help_on_a_terminal(None);
    assert!(coloured.contains(&0x1b), "without NO_COLOR, headings are bold");
    let plain = help_on_a_terminal(Some("1"));
    assert!(plain.starts_with(b"Copy files") && !plain.contains(&0x1b));
}

#[test]
fn keygen_prints_the_public_key_and_the_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let key = directory.path().join("key");
    let run = fobs(&["keygen", "--out", key.to_str().expect("UTF-8")]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.lines().count() == 1 && run.stdout.ends_with('\n'), "{:?}", run.stdout);
    assert!(run.stderr.starts_with(&format!("fobs: the key is in {}, ", key.display())), "{}", run.stderr);
    assert!(key.is_file());
    let shown = fobs(&["keygen", "--show", key.to_str().expect("UTF-8")]);
    assert_eq!((shown.code, &shown.stdout, &shown.stderr), (Some(0), &run.stdout, &run.stderr));
    // The comment names the key in the daemon's log; without one it is who made it.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("the kernel knows it");
    assert!(
        run.stdout.starts_with("fobs-ed25519 ") && run.stdout.contains(&format!("@{host}")),
        "{}",
        run.stdout
    );
    let words =
        ["keygen", "--for-upload", "--comment", "ann's laptop", "--show", key.to_str().expect("UTF-8")];
    let upload = fobs(&words).stdout;
    let public = run.stdout.split(' ').nth(1).expect("the key itself");
    assert_eq!(upload, format!("append-only fobs-ed25519 {public} ann's laptop\n"));
    let none = fobs(&["keygen", "--show", directory.path().join("none").to_str().expect("UTF-8")]);
    assert_eq!(none.code, Some(5), "{}", none.stderr);
}

#[test]
fn help_of_the_servers_lists_every_right() {
    let serve = printed(&["serve", "--help"]);
    for (option, _) in fobs::key_options() {
        assert!(serve.contains(option), "fobs serve --help lacks {option}");
    }
    let server = flags_in_help(&printed(&["server", "--help"]));
    for access in fobs::Access::ALL.iter().copied().filter(|access| *access != fobs::Access::ReadWrite) {
        assert!(server.contains(&format!("--{}", access.name())), "{server:?}");
    }
    assert!(server.contains("--privileged"));
}

#[test]
fn config_names_the_place_of_values_and_of_mistakes() {
    let home = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(home.path().join("fobs")).expect("own directory");
    let file = home.path().join("fobs/config.toml");
    let path = file.to_str().expect("UTF-8");
    let run = |text: &str, words: &[&str]| {
        fs::write(&file, text).expect("own file");
        let mut command = fobs_command(words);
        command.env("XDG_CONFIG_HOME", home.path()).env("FOBS_FSYNC", "true");
        finished(command)
    };
    let shown = run("[host.'h*']\nrate = '1M'\n", &["config", "--why", "host:"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    let row =
        |name: &str| shown.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(row("rate ").ends_with(&format!("{path}:2 [host.\"h*\"]")), "{}", shown.stdout);
    assert!(row("fsync ").ends_with("FOBS_FSYNC") && row("cc ").ends_with("default"), "{}", shown.stdout);
    let listed = run("", &["config", "--path"]).stdout;
    assert!(listed.starts_with(&format!("{path}\n/dev/null")), "{listed}");
    let mut of_the_host = fobs_command(&["config", "--path"]);
    of_the_host.env_remove("FOBS_SYSTEM_CONFIG");
    let listed = finished(of_the_host).stdout;
    assert!(listed.contains("/etc/fobs/config.toml"), "{listed}");

    let wrong = run("\nrat = 1\n", &["cp", "--json", "a", "h:"]);
    assert_eq!(wrong.code, Some(1), "{}", wrong.stderr);
    let expected = format!("{path}:2: there is no key \"rat\"; did you mean \"rate\"?");
    assert_eq!(wrong.stderr, format!("fobs: {expected}\n"));
    let line: Value = serde_json::from_str(&wrong.stdout).expect("JSON");
    assert_eq!(line["message"], expected);
    assert!(run("rat = 1\n", &["cp", "--help"]).code == Some(0), "help needs no configuration");
}

/// Every test of this file again, by a user whose own files and variables would end each command.
#[test]
fn no_test_sees_the_files_of_its_user() {
    const NAME: &str = "no_test_sees_the_files_of_its_user";
    let home = tempfile::tempdir().expect("a temporary directory");
    let config = home.path().join(".config/fobs");
    fs::create_dir_all(&config).expect("own directory");
    for (file, text) in [(config.join("config.toml"), "rate = 5"), (home.path().join("system.toml"), "= x")] {
        fs::write(file, text).expect("own file");
    }
    let spoilt = |variable: &str, value: &std::ffi::OsStr| {
        let mut command = fobs_command(&["config"]);
        command.env_remove("FOBS_SYSTEM_CONFIG").env(variable, value);
        finished(command).code
    };
    let system = home.path().join("system.toml");
    // Each alone is enough.
    for (variable, value) in [
        ("HOME", home.path().as_os_str()),
        ("FOBS_SYSTEM_CONFIG", system.as_os_str()),
        ("FOBS_RATE", "5".as_ref()),
        ("FOBS_OF_ANOTHER", "x".as_ref()),
    ] {
        assert_eq!(spoilt(variable, value), Some(1), "{variable}");
    }
    let mut all = Command::new(std::env::current_exe().expect("this test"));
    all.args(["--skip", NAME]).env("HOME", home.path()).env("FOBS_SYSTEM_CONFIG", &system);
    all.env("XDG_CONFIG_HOME", home.path().join(".config")).env("FOBS_RATE", "5").env("FOBS_OF_ANOTHER", "x");
    let played = finished(all);
    assert_eq!(played.code, Some(0), "{}{}", played.stdout, played.stderr);
}
