//! Requests that the unpatched client would refuse to make, and that reach the server all the same: a suffix
//! of backups that is a path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

use super::case::{Case, peer_path};
use super::files::names;
use super::middleman::Middleman;
use super::net::Side;
use super::process::Finished;

/// Content of the file that nobody may replace.
const KEYS: &str = "ssh-ed25519 AAAA the owner's\n";

/// A suffix of the same length, as a list of numbers too, that the client takes for one.
fn stand_in(suffix: &str) -> String {
    suffix.bytes().map(|byte| if byte < 100 { 'Z' } else { 'z' }).collect()
}

/// A suffix as it stands in a request.
fn in_request(suffix: &str) -> Vec<u8> {
    let numbers: Vec<String> = suffix.bytes().map(|byte| byte.to_string()).collect();
    format!("\"backup\":[{}]", numbers.join(",")).into_bytes()
}

/// A vault beside the keys of its owner, in which `ab` lies beside the directory `abc`, and a client that has
/// other content for both.
struct Vault {
    home: PathBuf,
    source: PathBuf,
    between: Middleman,
}

impl Vault {
    fn new(case: &Case) -> Vault {
        let (home, source) = (case.path("owner"), case.local("source"));
        for directory in ["vault/abc", ".ssh"] {
            fs::create_dir_all(home.join(directory)).expect("a fresh directory");
        }
        fs::create_dir_all(source.join("abc")).expect("a fresh directory");
        fs::write(home.join(".ssh/authorized_keys"), KEYS).expect("a fresh file");
        for name in ["ab", ".ab"] {
            // What is replaced becomes the backup, and the backup the attacker's file.
            fs::write(home.join("vault").join(name), "ssh-ed25519 AAAA the attacker's\n")
                .expect("a fresh file");
            fs::write(source.join(name), "anything else, of another length").expect("a fresh file");
        }
        Vault { home, source, between: Middleman::new(case) }
    }

    /// Serves one session whose client's bytes are rewritten; the thread returns how often.
    fn serve(&self, right: &[&str], from: Vec<u8>, to: Vec<u8>) -> JoinHandle<usize> {
        let mut server = Command::new(peer_path());
        server.args(["server", "--restrict"]).arg(self.home.join("vault")).args(right);
        server.env("HOME", &self.home).env("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 22");
        server.env("SSH_ORIGINAL_COMMAND", "fobs server");
        self.between.serve(server, move |body: &mut Vec<u8>| {
            let at = body.windows(from.len()).position(|window| window == from);
            at.inspect(|&at| drop(body.splice(at..at + from.len(), to.iter().copied()))).is_some()
        })
    }

    /// `fobs sync` with a suffix that the client takes, which becomes another one on its way.
    fn attack(&self, case: &Case, right: &[&str], suffix: &str) -> Finished {
        let taken = stand_in(suffix);
        let (from, to) = (in_request(&taken), in_request(suffix));
        let serving = self.serve(right, from, to);
        let mut sync = case.fobs(Side::Client);
        sync.args(["sync", "-rt", "--transport", "ssh", "--backup"]).arg(format!("--suffix={taken}"));
        sync.arg("--ssh")
            .arg(&self.between.ssh)
            .arg(format!("{}/", self.source.display()))
            .arg("127.0.0.1:.");
        let finished = case.run(&mut sync);
        assert_eq!(serving.join().expect("no panic"), 1, "requests that were rewritten: {}", finished.said());
        finished
    }

    #[track_caller]
    fn expect_untouched(&self) {
        let keys = fs::read_to_string(self.home.join(".ssh/authorized_keys")).expect("it is there");
        assert_eq!(keys, KEYS, "the owner's keys");
        assert_eq!(names(&self.home), [".ssh", "vault"]);
        assert_eq!(names(&self.home.join(".ssh")), ["authorized_keys"]);
    }
}

#[track_caller]
fn expect_refused(finished: &Finished) {
    assert!(matches!(finished.code, Some(1 | 2 | 4 | 5 | 23)), "{:?}: {}", finished.code, finished.said());
    let said = finished.said();
    assert!(!said.contains("panicked") && !said.contains("report this"), "{said}");
}

#[test]
fn a_suffix_rewritten_to_a_path_is_refused_at_the_server() {
    for right in [&["--write-only"][..], &[]] {
        for suffix in ["c/../../.ssh/authorized_keys", "c/../../planted", "/x", "c/../new"] {
            let case = Case::new("a_suffix_rewritten_to_a_path_is_refused_at_the_server");
            let vault = Vault::new(&case);
            let finished = vault.attack(&case, right, suffix);
            vault.expect_untouched();
            expect_refused(&finished);
            assert_eq!(
                names(&vault.home.join("vault")),
                [".ab", "ab", "abc"],
                "{suffix}: {}",
                finished.said()
            );
        }
    }
}

#[test]
fn a_suffix_rewritten_to_our_own_plants_no_journal() {
    for suffix in [".fobs-journal", ".fobs-abc123"] {
        let case = Case::new("a_suffix_rewritten_to_our_own_plants_no_journal");
        let vault = Vault::new(&case);
        let finished = vault.attack(&case, &["--write-only"], suffix);
        expect_refused(&finished);
        let planted = format!(".ab{suffix}");
        assert!(!Path::new(&vault.home.join("vault").join(planted)).exists(), "{}", finished.said());
        // The next copy to that name, by the unpatched client.
        let serving = vault.serve(&[], b"nothing like it".to_vec(), b"nothing like it".to_vec());
        let mut copy = case.fobs(Side::Client);
        copy.arg("cp").arg("--ssh").arg(&vault.between.ssh).arg(vault.source.join("ab")).arg("127.0.0.1:ab");
        case.run(&mut copy).expect_success();
        assert_eq!(serving.join().expect("no panic"), 0);
    }
}
