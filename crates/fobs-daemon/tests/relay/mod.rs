//! Something between a client and its server that cuts their connections, as a NAT that restarts does.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A relay of TCP connections. Its threads end with the process.
pub struct Relay {
    address: SocketAddr,
    state: Arc<Carried>,
}

struct Carried {
    open: Mutex<Vec<TcpStream>>,
    refuses: AtomicBool,
    stalled_until: Mutex<Instant>,
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
        for socket in self.state.open.lock().unwrap().drain(..) {
            // It may have ended.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// From now on there are no new ones.
    pub fn refuse(&self) {
        self.state.refuses.store(true, Ordering::SeqCst);
    }

    /// For so long nothing gets through.
    pub fn stall(&self, time: Duration) {
        *self.state.stalled_until.lock().unwrap() = Instant::now() + time;
    }
}

impl Carried {
    fn carry(self: Arc<Self>, near: TcpStream, far: TcpStream) -> io::Result<()> {
        for (mut from, mut to) in
            [(near.try_clone()?, far.try_clone()?), (far.try_clone()?, near.try_clone()?)]
        {
            let state = self.clone();
            thread::spawn(move || {
                let mut room = vec![0; 64 << 10];
                loop {
                    let count = from.read(&mut room).unwrap_or(0);
                    let stall = state.stalled_until.lock().unwrap().saturating_duration_since(Instant::now());
                    thread::sleep(stall);
                    if count == 0 || to.write_all(&room[..count]).is_err() {
                        // The other one may have ended it.
                        let _ = to.shutdown(Shutdown::Write);
                        return;
                    }
                }
            });
        }
        self.open.lock().unwrap().extend([near, far]);
        Ok(())
    }
}
