//! A program in place of ssh, and a server behind it that hears what the client never said: the frames of an
//! unpatched client are rewritten on their way.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use super::case::Case;
use super::net::Side;

/// The two ways between the client's "ssh" and the server.
pub struct Middleman {
    /// What the client runs in place of ssh.
    pub ssh: PathBuf,
    up: PathBuf,
    down: PathBuf,
}

impl Middleman {
    pub fn new(case: &Case) -> Middleman {
        let (up, down, ssh) = (case.path("up"), case.path("down"), case.path("not-ssh"));
        case.run(case.command(Side::Client, "mkfifo").args([&up, &down])).expect_success();
        let script = format!(
            "#!/bin/sh\ncase \" $* \" in *' -G '*) exit 1 ;; esac\ncat '{}' &\nexec cat >'{}'\n",
            down.display(),
            up.display()
        );
        fs::write(case.path("script"), script).expect("a fresh file");
        // Another process writes it, so that no child of ours holds it open when it runs.
        let mut install = case.command(Side::Client, "install");
        case.run(install.args(["-m", "755"]).arg(case.path("script")).arg(&ssh)).expect_success();
        Middleman { ssh, up, down }
    }

    /// Serves one session; `edit` says whether it changed a frame. The thread returns how many.
    pub fn serve(
        &self,
        mut server: Command,
        edit: impl FnMut(&mut Vec<u8>) -> bool + Send + 'static,
    ) -> JoinHandle<usize> {
        let (up, down) = (self.up.clone(), self.down.clone());
        server.stdin(Stdio::piped()).stderr(Stdio::null());
        thread::spawn(move || {
            let client = File::open(up).expect("the client's side");
            let answers = File::options().write(true).open(down).expect("the client's side");
            let mut server = server.stdout(answers).spawn().expect("the server runs");
            let edited = pass_on(client, server.stdin.take().expect("a pipe"), edit);
            server.wait().expect("it ends with its client");
            edited
        })
    }
}

/// Marks a record of data in the length of a frame (protocol 11.2).
const DATA: u32 = 1 << 31;

/// Passes frames on until the client's end; how many were changed.
fn pass_on(
    mut client: impl Read,
    mut server: impl Write,
    mut edit: impl FnMut(&mut Vec<u8>) -> bool,
) -> usize {
    let (mut head, mut edited) = ([0; 4], 0);
    while client.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes(head);
        let mut body = vec![0; (length & !DATA) as usize];
        client.read_exact(&mut body).expect("a whole frame");
        if length & DATA == 0 && edit(&mut body) {
            edited += 1;
            head = u32::try_from(body.len()).expect("a short frame").to_be_bytes();
        }
        // A server that has refused takes no more.
        let _ = server.write_all(&head).and_then(|()| server.write_all(&body)).and_then(|()| server.flush());
    }
    edited
}
