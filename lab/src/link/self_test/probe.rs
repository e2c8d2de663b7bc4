//! Traffic of the self-test: sockets inside the two namespaces.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::Value;

use super::only;
use crate::link::counters::Counters;
use crate::link::emulator::{Emulator, Remote};
use crate::link::host::within;

/// Time without a packet after which none is expected: twice the longest delay of the tests.
const SILENCE: Duration = Duration::from_millis(400);
/// Receive buffer, bytes: enough for packets that arrive while the receiver is not scheduled.
const RECEIVE_BUFFER: usize = 2 << 20;
/// Bytes of packet number and departure time in each packet.
const HEADER: usize = 12;

/// Sockets at both ends of the path.
pub struct Probe {
    remote: Remote,
    namespaces: [String; 2],
    west: UdpSocket,
    east: UdpSocket,
    east_address: SocketAddr,
    epoch: Instant,
}

/// A received packet.
#[derive(Debug, Clone, Copy)]
pub struct Hop {
    pub number: u32,
    /// Length of the UDP payload.
    pub bytes: usize,
    pub sent_s: f64,
    pub received_s: f64,
}

impl Hop {
    /// One-way delay, milliseconds.
    pub fn millis(&self) -> f64 {
        (self.received_s - self.sent_s) * 1e3
    }
}

impl Probe {
    pub fn new(emulator: &Emulator) -> io::Result<Probe> {
        let hosts = emulator.hosts();
        let socket = |index: usize| {
            let host = &hosts[index];
            within(&host.namespace, || UdpSocket::bind((host.address.as_str(), 0)))?
        };
        let (west, east) = (socket(0)?, socket(1)?);
        for socket in [&west, &east] {
            set_socket_recv_buffer_size(socket, RECEIVE_BUFFER)?;
            socket.set_read_timeout(Some(SILENCE))?;
        }
        let east_address = east.local_addr()?;
        west.connect(east_address)?;
        let namespaces = [0, 1].map(|index: usize| hosts[index].namespace.clone());
        Ok(Probe {
            remote: emulator.remote().clone(),
            namespaces,
            west,
            east,
            east_address,
            epoch: Instant::now(),
        })
    }

    /// Resets the path to the self-test's, with these keys of the forward direction, and the counters.
    pub fn fresh(&self, keys: Value) -> Result<(), String> {
        self.remote.set(&only(&keys)).map_err(|error| error.to_string())?;
        // Wait for packets of the previous test that are still in flight.
        thread::sleep(Duration::from_millis(60));
        self.west.set_nonblocking(true).map_err(said)?;
        while self.west.recv(&mut [0; 2048]).is_ok() {}
        self.west.set_nonblocking(false).map_err(said)?;
        self.remote.reset().map_err(|error| error.to_string())
    }

    pub fn counters(&self) -> Result<Counters, String> {
        self.remote.counters().map_err(|error| error.to_string())
    }

    /// Round-trip times of small packets sent every 10 ms, milliseconds.
    pub fn round_trips(&self, count: u32) -> Result<Vec<f64>, String> {
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = [0; 64];
                // Ends by its timeout when no more packets arrive.
                while let Ok((bytes, from)) = self.east.recv_from(&mut buffer) {
                    let _ = self.east.send_to(&buffer[..bytes], from);
                }
            });
            let mut trips = Vec::new();
            for number in 0..count {
                let began = Instant::now();
                self.west.send(&packet(number, 0.0, HEADER)).map_err(said)?;
                self.west.recv(&mut [0; 64]).map_err(said)?;
                trips.push(began.elapsed().as_secs_f64() * 1e3);
                thread::sleep(Duration::from_millis(10));
            }
            Ok(trips)
        })
    }

    /// Sends packets from west to east at a rate in bits per second of whole IP packets; returns the received
    /// ones in order of arrival.
    pub fn stream(&self, count: u32, payload: usize, bits_per_second: f64) -> Result<Vec<Hop>, String> {
        let spacing = (payload + 28) as f64 * 8.0 / bits_per_second;
        thread::scope(|scope| {
            let receiver = scope.spawn(|| self.receive());
            let began = self.now();
            for number in 0..count {
                let ahead = began + f64::from(number) * spacing - self.now();
                if ahead > 0.0 {
                    thread::sleep(Duration::from_secs_f64(ahead));
                }
                self.west.send(&packet(number, self.now(), payload)).map_err(said)?;
            }
            receiver.join().map_err(|_| "the receiver of the self-test panicked".to_owned())?.map_err(said)
        })
    }

    fn receive(&self) -> io::Result<Vec<Hop>> {
        let mut hops = Vec::new();
        let mut buffer = [0; 2048];
        loop {
            match self.east.recv(&mut buffer) {
                Ok(bytes) if bytes >= HEADER => {
                    let [number, sent] = [&buffer[..4], &buffer[4..HEADER]];
                    hops.push(Hop {
                        number: u32::from_le_bytes(number.try_into().unwrap_or_default()),
                        bytes,
                        sent_s: f64::from_le_bytes(sent.try_into().unwrap_or_default()),
                        received_s: self.now(),
                    });
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(hops);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends bytes over TCP; returns whether they arrived unchanged, and the time in seconds.
    pub fn tcp(&self, bytes: usize) -> Result<(bool, f64), String> {
        let content: Vec<u8> = (0..bytes).map(|index| (index * 31 + index / 251) as u8).collect();
        let [west, east] = &self.namespaces;
        let address = SocketAddr::new(self.east_address.ip(), 0);
        let listener = within(east, || TcpListener::bind(address)).and_then(|bound| bound).map_err(said)?;
        let address = listener.local_addr().map_err(said)?;
        let began = Instant::now();
        let received = thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let (stream, _) = listener.accept()?;
                stream.set_read_timeout(Some(Duration::from_secs(30)))?;
                let mut received = Vec::with_capacity(bytes);
                (&stream).take(bytes as u64 + 1).read_to_end(&mut received)?;
                io::Result::Ok(received)
            });
            let sent = within(west, || {
                let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
                stream.set_write_timeout(Some(Duration::from_secs(30)))?;
                stream.write_all(&content)
            });
            sent.and_then(|sent| sent).map_err(said)?;
            receiver.join().map_err(|_| "the receiver of the self-test panicked".to_owned())?.map_err(said)
        })?;
        Ok((received == content, began.elapsed().as_secs_f64()))
    }

    fn now(&self) -> f64 {
        self.epoch.elapsed().as_secs_f64()
    }
}

fn packet(number: u32, sent: f64, bytes: usize) -> Vec<u8> {
    let mut packet = [&number.to_le_bytes()[..], &sent.to_le_bytes()].concat();
    packet.resize(bytes.max(HEADER), 0);
    packet
}

fn said(error: io::Error) -> String {
    format!("the self-test's own traffic failed: {error}")
}
