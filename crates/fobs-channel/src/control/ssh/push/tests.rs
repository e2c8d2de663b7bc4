//! The far shell is this host's, with a home of its own, behind a script in place of `ssh`.

use super::*;
use fobs_model::options::Carrier;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Mutex;

/// A far host: its home, and programs that go before the system's.
struct Far {
    directory: tempfile::TempDir,
    notices: Arc<Mutex<Vec<String>>>,
}

/// A static program that ends at once, with 0: whatever it is asked to check is right. `exit(0)`, by hand.
#[cfg(target_arch = "x86_64")]
fn tiny_program() -> Vec<u8> {
    let code = [0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05];
    let mut program = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let base = 0x40_0000_u64;
    program.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    program.extend((base + 120).to_le_bytes());
    program.extend(64_u64.to_le_bytes());
    program.extend([0; 12]);
    program.extend([64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    program.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    let len = 120 + code.len() as u64;
    for number in [0, base, base, len, len, 0x1000] {
        program.extend(number.to_le_bytes());
    }
    program.extend(code);
    program
}

impl Far {
    fn new() -> Far {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["home", "bin", "here"] {
            fs::create_dir(directory.path().join(name)).expect("a fresh directory");
        }
        Far { directory, notices: Arc::default() }
    }

    /// Puts a script before the program of that name.
    fn with(self, name: &str, script: &str) -> Far {
        // Another process installs it: one that this one writes could be busy in a fork of another test.
        let source = self.directory.path().join("source");
        fs::write(&source, format!("#!/bin/sh\n{script}\n")).expect("a file of ours");
        let program = self.path("bin").join(name);
        let installed = Command::new("install").args(["-m", "755"]).args([&source, &program]).status();
        assert!(installed.expect("install runs").success());
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Talks to the far shell; the program is looked for in `here`.
    fn converse(&self) -> Result<()> {
        let (home, bin) = (self.path("home"), self.path("bin"));
        let (home, bin) = (home.display(), bin.display());
        let ssh = format!(
            "for last; do :; done\nunset XDG_CACHE_HOME\nHOME=${{FAR_HOME:-{home}}} PATH={bin}:/usr/bin:/bin exec sh -c \"$last\""
        );
        let program = self.path("bin").join("ssh");
        if !program.exists() {
            let source = self.path("ssh-source");
            fs::write(&source, format!("#!/bin/sh\n{ssh}\n")).expect("a file of ours");
            let installed = Command::new("install").arg("-m").arg("755").args([&source, &program]).status();
            assert!(installed.expect("install runs").success());
        }
        let mut options = TransferOptions::default();
        options.ssh.program = Some(program);
        let remote = Remote {
            carrier: Carrier::Ssh,
            user: None,
            host: "far".to_owned(),
            port: None,
            path: Vec::new(),
        };
        let mut started = Started::start(&remote, &options, &command())?;
        let notices = self.notices.clone();
        let events: Arc<dyn EventSink> = Arc::new(move |event| match event {
            Event::Notice(notice) => notices.lock().expect("no panic under the lock").push(notice),
            other => panic!("{other:?}"),
        });
        let words = heard(&mut started)?;
        converse(&mut started, &words, &events, &|machine| {
            vec![self.path("program"), self.path("here").join(machine.file_name())]
        })
    }

    fn said(&self) -> Vec<String> {
        self.notices.lock().expect("no panic under the lock").clone()
    }
}

#[test]
fn the_script_passes_through_every_shells_quotes() {
    let command = command();
    let script =
        command.strip_prefix("exec sh -c '").and_then(|rest| rest.strip_suffix('\'')).expect("one word");
    for foreign in ['\'', '\\', '\n', '!', '`'] {
        assert!(!script.contains(foreign), "{foreign:?}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_host_without_fobs_is_sent_one_and_keeps_it() {
    let far = Far::new().with("uname", "case $1 in -s) echo Linux;; *) echo x86_64;; esac");
    fs::write(far.path("here/fobs-x86_64-unknown-linux-musl"), tiny_program()).expect("a file of ours");
    far.converse().expect("sent and run");
    let stored = far.path(&format!("home/.cache/fobs/{}/fobs", env!("CARGO_PKG_VERSION")));
    assert_eq!(fs::read(&stored).expect("the program"), tiny_program());
    assert_eq!(fs::metadata(&stored).expect("the program").permissions().mode() & 0o777, 0o700);
    assert_eq!(far.said().len(), 1);
    assert!(
        far.said()[0].contains("far had no fobs: sent fobs ") && far.said()[0].contains("for x86_64"),
        "{:?}",
        far.said()
    );
    far.converse().expect("run");
    assert_eq!(far.said().len(), 1, "it is sent once");
    let installed = Far::new().with("fobs", "exit 0");
    installed.converse().expect("what is installed runs");
    assert!(installed.said().is_empty());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn what_hinders_a_pushed_program_is_said() {
    let x86 = "case $1 in -s) echo Linux;; *) echo x86_64;; esac";
    for (name, script, words) in [
        (
            "uname",
            "case $1 in -s) echo Linux;; *) echo aarch64;; esac",
            "put fobs-aarch64-unknown-linux-musl into one of",
        ),
        ("uname", "echo SunOS", "for which there is no fobs to send"),
        (
            "mkdir",
            "echo mkdir: Read-only file system >&2; exit 1",
            "Read-only file system); make the home directory writable",
        ),
        (
            "head",
            "echo head: No space left on device >&2; exit 1",
            "No space left on device); make room there",
        ),
        ("chmod", "exit 0", "mounted noexec"),
        ("mv", "exit 1", "cannot store fobs in ~/.cache on far"),
        ("sh", "echo this account is limited; exit 1", "a restricted shell or a forced command?"),
        ("ssh", "exit 255", "ssh to far failed"),
    ] {
        let mut far = Far::new();
        if name != "uname" {
            far = far.with("uname", x86);
        }
        let far = far.with(name, script);
        fs::write(far.path("here/fobs-x86_64-unknown-linux-musl"), tiny_program()).expect("a file of ours");
        let error = far.converse().expect_err(name);
        assert!(error.message.contains(words), "{name}: {error}");
        assert!(far.said().is_empty(), "{name}: {:?}", far.said());
        let cache = far.path(&format!("home/.cache/fobs/{}", env!("CARGO_PKG_VERSION")));
        let left = fs::read_dir(cache).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{name}: files are left there");
    }
}
