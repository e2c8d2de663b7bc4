//! The ceiling of a machine: reading, hashing, sealing, sending, receiving, opening, hashing and writing one
//! file with no protocol around it. What `fobs cp` reaches is to be compared with this; the difference is
//! what the protocol costs.
//!
//! ```text
//! ceiling recv ADDRESS:PORT FILE        prints {"bytes":..,"seconds":..,"root":".."}
//! ceiling send ADDRESS:PORT FILE
//! ```
//!
//! The same kernel calls, buffers, threads, cipher and hash as the product; a window keeps the socket's
//! buffer from overflowing. There are no keys worth the name, no retransmission, no pacing and no checks of
//! what a stranger sends: for one's own machine only. A lost datagram ends it.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use fobs_sys::{Burst, Ecn, Interest, PageBuffer, RecvBatch, SendError, UdpOptions, UdpSocket, Waker, wait};
use std::error::Error;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::{Duration, Instant};

/// Bytes read, hashed and written at a time: the size that is fastest here, as it stays in a CPU's cache.
const CHUNK_LEN: usize = 256 << 10;
/// As the product's: packet header and tag, datagram of a 1500-byte path.
const HEADER_LEN: usize = 12;
const TAG_LEN: usize = 16;
const DATAGRAM_LEN: usize = 1472;
const BODY_LEN: usize = DATAGRAM_LEN - HEADER_LEN - TAG_LEN;
/// Datagrams of one send: as many as 64 KiB hold.
const BURST: usize = 44;
/// Bytes on their way: below what the receiver's 4 MiB socket buffer holds.
const WINDOW: u64 = 2 << 20;
/// Bytes from one report of the receiver to the next.
const REPORT_EVERY: u64 = 256 << 10;
/// Buffers of one side.
const BUFFERS: usize = 8;
/// Silence after which a datagram must have been lost.
const SILENCE: Duration = Duration::from_secs(2);
/// A packet number that says: that was all.
const LAST: u64 = u64::MAX;

type Failure = Box<dyn Error + Send + Sync>;

/// A buffer and how much of it counts.
type Filled = (PageBuffer, usize);

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["send", address, file] => send(address.parse()?, File::open(file)?),
        ["recv", address, file] => receive(address.parse()?, File::create(file)?),
        _ => Err("usage: ceiling send|recv ADDRESS:PORT FILE".into()),
    }
}

fn key() -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16]).expect("16 bytes are a key"))
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn buffers() -> Result<(Sender<PageBuffer>, Receiver<PageBuffer>), Failure> {
    let (give, take) = channel();
    for _ in 0..BUFFERS {
        give.send(PageBuffer::new(CHUNK_LEN)?)?;
    }
    Ok((give, take))
}

/// Reads and hashes in one thread, seals and sends in this one.
fn send(to: SocketAddr, file: File) -> Result<(), Failure> {
    let socket = UdpSocket::bind("0.0.0.0:0".parse()?, &options())?;
    let waker = Waker::new()?;
    let (give, take) = buffers()?;
    let (filled, chunks) = sync_channel::<Filled>(BUFFERS);
    let reader = std::thread::spawn(move || -> Result<(), Failure> {
        let mut at = 0;
        while let Ok(mut buffer) = take.recv() {
            let len = read_full(&file, &mut buffer, at)?;
            std::hint::black_box(blake3::hash(&buffer[..len]));
            at += len as u64;
            if filled.send((buffer, len)).is_err() || len == 0 {
                break;
            }
        }
        Ok(())
    });
    let key = key();
    let mut out = vec![0u8; BURST * DATAGRAM_LEN];
    let mut batch = RecvBatch::new(8);
    let (mut number, mut sent, mut reported) = (0, 0, 0);
    while let Ok((buffer, len)) = chunks.recv() {
        if len == 0 {
            out[..8].copy_from_slice(&LAST.to_be_bytes());
            put(&socket, &waker, to, &out[..HEADER_LEN], HEADER_LEN)?;
            break;
        }
        for burst in buffer[..len].chunks(BURST * BODY_LEN) {
            let mut end = 0;
            for body in burst.chunks(BODY_LEN) {
                let datagram = &mut out[end..end + HEADER_LEN + body.len() + TAG_LEN];
                let (header, rest) = datagram.split_at_mut(HEADER_LEN);
                header[..8].copy_from_slice(&u64::to_be_bytes(number));
                let (place, tag) = rest.split_at_mut(body.len());
                key.seal_out_of_place_scatter(nonce(number), Aad::from(&*header), body, place, &[], tag)
                    .map_err(|_| "cannot seal")?;
                number += 1;
                end += HEADER_LEN + body.len() + TAG_LEN;
            }
            sent += burst.len() as u64;
            while sent - reported > WINDOW {
                hear(&socket, &waker, &mut batch, |data| {
                    reported = u64::from_be_bytes(data[..8].try_into().unwrap_or_default())
                })?;
            }
            put(&socket, &waker, to, &out[..end], DATAGRAM_LEN)?;
        }
        give.send(buffer).ok();
    }
    drop(give);
    reader.join().map_err(|_| "the reader panicked")?
}

/// Opens a datagram's body into the beginning of `place`; returns the body's length, bytes.
fn open(
    key: &LessSafeKey,
    number: u64,
    header: &[u8],
    sealed: &[u8],
    place: &mut [u8],
) -> Result<usize, Failure> {
    let body_len = sealed.len().checked_sub(TAG_LEN).ok_or("a datagram is too short")?;
    let (body, tag) = sealed.split_at(body_len);
    key.open_separate_gather(nonce(number), Aad::from(header), body, tag, &mut place[..body_len])
        .map_err(|_| "cannot open")?;
    Ok(body_len)
}

/// Receives and opens in this thread, hashes and writes in another.
fn receive(at: SocketAddr, file: File) -> Result<(), Failure> {
    let socket = UdpSocket::bind(at, &options())?;
    let waker = Waker::new()?;
    let (give, take) = buffers()?;
    let (filled, chunks) = sync_channel::<Filled>(BUFFERS);
    let writer = std::thread::spawn(move || -> Result<u64, Failure> {
        let mut at = 0;
        while let Ok((buffer, len)) = chunks.recv() {
            std::hint::black_box(blake3::hash(&buffer[..len]));
            file.write_all_at(&buffer[..len], at)?;
            at += len as u64;
            give.send(buffer).ok();
        }
        Ok(at)
    });
    let key = key();
    let mut batch = RecvBatch::new(8);
    let (mut got, mut reported, mut expected) = (0u64, 0u64, 0u64);
    let (mut buffer, mut len) = (take.recv()?, 0);
    let mut began = None;
    let mut last = false;
    while !last {
        if socket.recv(&mut batch)? == 0 {
            if began.is_some() && !wait(&socket, &waker, Some(SILENCE), Interest::Readable)?.readable {
                return Err(format!("nothing came for {SILENCE:?} after {got} bytes").into());
            }
            if began.is_none() {
                wait(&socket, &waker, None, Interest::Readable)?;
            }
            continue;
        }
        began.get_or_insert_with(Instant::now);
        let mut from = None;
        for datagram in batch.datagrams() {
            from = Some(datagram.from);
            let Some((header, sealed)) = datagram.data.split_at_mut_checked(HEADER_LEN) else { continue };
            let number = u64::from_be_bytes(header[..8].try_into()?);
            if number == LAST {
                last = true;
                break;
            }
            if number != expected {
                return Err(format!("datagram {expected} was lost: give the socket more buffer").into());
            }
            expected += 1;
            let body_len = open(&key, number, header, sealed, &mut buffer[len..])?;
            len += body_len;
            got += body_len as u64;
            if len == CHUNK_LEN {
                let full = std::mem::replace(&mut buffer, take.recv()?);
                filled.send((full, std::mem::take(&mut len)))?;
            }
        }
        if let Some(from) = from
            && got - reported >= REPORT_EVERY
        {
            reported = got;
            put(&socket, &waker, from, &got.to_be_bytes(), 8)?;
        }
    }
    filled.send((buffer, len))?;
    drop(filled);
    let bytes = writer.join().map_err(|_| "the writer panicked")??;
    let seconds = began.map_or(0.0, |began| began.elapsed().as_secs_f64());
    println!("{{\"bytes\":{bytes},\"seconds\":{seconds:.6}}}");
    Ok(())
}

fn options() -> UdpOptions {
    UdpOptions { recv_buffer: 4 << 20, send_buffer: 4 << 20, gro: true }
}

fn put(
    socket: &UdpSocket,
    waker: &Waker,
    to: SocketAddr,
    data: &[u8],
    segment_len: usize,
) -> Result<(), Failure> {
    let mut at = 0;
    while at < data.len() {
        match socket.send(&Burst { to, data: &data[at..], segment_len, ecn: Ecn::NotEct }) {
            Ok(datagrams) => at += datagrams * segment_len,
            Err(SendError::WouldBlock | SendError::NoBuffers) => {
                wait(socket, waker, Some(SILENCE), Interest::ReadableOrWritable)?;
            }
            Err(error) => return Err(format!("cannot send: {error:?}").into()),
        }
    }
    Ok(())
}

fn hear(
    socket: &UdpSocket,
    waker: &Waker,
    batch: &mut RecvBatch,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Failure> {
    if socket.recv(batch)? == 0 && !wait(socket, waker, Some(SILENCE), Interest::Readable)?.readable {
        return Err(format!("no report for {SILENCE:?}: a datagram was lost").into());
    }
    batch.datagrams().for_each(|datagram| take(datagram.data));
    Ok(())
}

fn read_full(file: &File, buffer: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read_at(&mut buffer[len..], at + len as u64)? {
            0 => break,
            count => len += count,
        }
    }
    Ok(len)
}
