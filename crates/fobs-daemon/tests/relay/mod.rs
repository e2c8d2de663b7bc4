//! Something between a client and its server that cuts their connections, as a NAT that restarts does.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fobs::{Location, Remote, Stream, StreamBuilder, TransferOptions};

use crate::served::{Served, wait_for};

/// A window that holds everything of these tests.
pub const WINDOW: u64 = 8 << 20;

/// A daemon behind a relay that can cut its connections.
pub struct Behind {
    pub served: Served,
    pub relay: Relay,
}

impl Behind {
    pub fn start(rights: &str) -> Behind {
        let served = Served::start(|options| options.sessions_max = 64);
        served.authorize_client_with(rights);
        let relay = Relay::start(served.address());
        Behind { served, relay }
    }

    pub fn remote(&self, path: &str) -> Remote {
        let Location::Remote(remote) = self.served.remote(path) else { panic!("a remote") };
        Remote { port: Some(self.relay.address().port()), ..remote }
    }

    pub fn options(&self) -> TransferOptions {
        TransferOptions { resume_window: WINDOW, ..self.served.options() }
    }

    pub fn to(&self, name: &str) -> StreamBuilder {
        Stream::to(self.remote(name)).options(self.options())
    }

    pub fn expect_nothing_left(&self) {
        wait_for(|| (self.served.handle.sessions() == 0).then_some(()));
    }
}

/// A relay of TCP connections. Its threads end with the process.
pub struct Relay {
    address: SocketAddr,
    state: Arc<Carried>,
}

struct Carried {
    open: Mutex<Vec<Open>>,
    refuses: AtomicBool,
    stalled_until: Mutex<Instant>,
}

/// One side of a connection, and whether it carries anything.
struct Open {
    socket: TcpStream,
    is_silent: Arc<AtomicBool>,
}

impl Relay {
    pub fn start(to: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stalled_until = Mutex::new(Instant::now());
        let state =
            Arc::new(Carried { open: Mutex::default(), refuses: AtomicBool::new(false), stalled_until });
        let of_thread = state.clone();
        thread::spawn(move || {
            for near in listener.incoming() {
                let (near, state) = (near.unwrap(), of_thread.clone());
                if !state.refuses.load(Ordering::SeqCst) {
                    // A server that is gone is the test's.
                    let _ = TcpStream::connect(to).and_then(|far| state.carry(near, far));
                }
            }
        });
        Relay { address, state }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections that there are.
    pub fn cut(&self) {
        for open in self.state.open.lock().unwrap().drain(..) {
            // It may have ended.
            let _ = open.socket.shutdown(Shutdown::Both);
        }
    }

    /// From now on those that there are carry nothing, and do not end.
    pub fn fall_silent(&self) {
        for open in self.state.open.lock().unwrap().iter() {
            open.is_silent.store(true, Ordering::SeqCst);
        }
    }

    /// From now on there are no new ones.
    pub fn refuse(&self) {
        self.state.refuses.store(true, Ordering::SeqCst);
    }

    /// From now on there are again.
    pub fn admit(&self) {
        self.state.refuses.store(false, Ordering::SeqCst);
    }

    /// For so long nothing gets through.
    pub fn stall(&self, time: Duration) {
        *self.state.stalled_until.lock().unwrap() = Instant::now() + time;
    }
}

impl Carried {
    fn carry(self: Arc<Self>, near: TcpStream, far: TcpStream) -> io::Result<()> {
        let is_silent = Arc::new(AtomicBool::new(false));
        for (mut from, mut to) in
            [(near.try_clone()?, far.try_clone()?), (far.try_clone()?, near.try_clone()?)]
        {
            let (state, is_silent) = (self.clone(), is_silent.clone());
            thread::spawn(move || {
                let mut room = vec![0; 64 << 10];
                loop {
                    let count = from.read(&mut room).unwrap_or(0);
                    let stall = state.stalled_until.lock().unwrap().saturating_duration_since(Instant::now());
                    thread::sleep(stall);
                    let is_heard = !is_silent.load(Ordering::SeqCst);
                    if count == 0 || (is_heard && to.write_all(&room[..count]).is_err()) {
                        if is_heard {
                            // The other one may have ended it.
                            let _ = to.shutdown(Shutdown::Write);
                        }
                        return;
                    }
                }
            });
        }
        let sockets = [near, far].map(|socket| Open { socket, is_silent: is_silent.clone() });
        self.open.lock().unwrap().extend(sockets);
        Ok(())
    }
}
