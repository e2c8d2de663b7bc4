//! The bytes of a journal. Every part lies at a fixed offset and has its own checksum, which covers the
//! journal's salt and the part's offset: a part of an earlier journal, or of another place, never passes.
//!
//! ```text
//!      0  magic, version (little-endian), origin: never changes
//!   1024  holder: who holds the lock
//!   2048  claim: who wants it
//!   3072  doubt: whether names and times of what earlier runs stored may be there without its content
//!   4096  two written slots: valid while the mount lasts that they were written under
//!  20480  two synced slots: the device had kept everything that they say before they were written
//!  36864  log: 32 bytes for each complete file
//! ```

use std::os::fd::AsFd;

use rustix::fs::fstat;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::at;
use crate::held::is_private;
use crate::identity::{Fingerprint, inode_of};
use crate::own::MAGIC;

/// The version of the format.
pub(super) const VERSION: u32 = 1;
/// More versions than there will be: what stands there was never written.
const VERSIONS: u32 = 1 << 16;
/// Where the origin is, bytes: behind magic and version.
const ORIGIN_AT: u64 = 12;
/// Where the holder is, bytes: parts that change are in sectors of their own.
const HOLDER_AT: u64 = 1024;
/// Where the claim is, bytes.
const CLAIM_AT: u64 = 2048;
/// Where the doubt is, bytes.
const DOUBT_AT: u64 = 3072;
/// Length of the parts before the slots, bytes.
pub(super) const HEADER_LEN: usize = 4096;
/// Where the slots begin, bytes.
const SLOTS_AT: u64 = HEADER_LEN as u64;
/// Length of a slot, bytes: the longest path, the tallest stack, and some.
const SLOT_LEN: u64 = 8192;
/// Slots: two written, two synced.
pub(super) const SLOTS: usize = 4;
/// Where the log begins, bytes.
pub(super) const LOG_AT: u64 = SLOTS_AT + SLOTS as u64 * SLOT_LEN;
/// Length of a record in the log, bytes.
pub(super) const RECORD_LEN: usize = 32;
/// Most records (128 MiB of log): files past it are not remembered.
pub(super) const RECORDS_MAX: u64 = 4_194_304;
/// Highest sequence number and sum of bytes, far beyond any journal's life: nothing that is added overflows.
const COUNT_MAX: u64 = 1 << 62;
/// Length and check in front of a part, bytes.
const FRAME_LEN: usize = 4 + CHECK_LEN;
/// Length of a part's check, bytes.
const CHECK_LEN: usize = 16;
/// Longest description of a peer that is kept, bytes.
const DESCRIPTION_MAX: usize = 256;

/// Random bytes that are a journal's own.
pub(super) type Salt = [u8; 16];
/// A mount of a boot; zeros where it is unknown, which is none's.
pub(super) type Boot = [u8; 16];
/// The random id of a client's command.
pub type TransferId = [u8; 16];

/// Who a client is at its server: a hash of its key, or of its login.
pub type ClientId = [u8; 16];

/// What never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    pub(super) salt: Salt,
    /// The suffix of the temporary names.
    pub(super) suffix: [u8; 6],
    /// A hash of what is copied where.
    pub(super) key: [u8; 16],
}

/// Who holds the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holder {
    pub(super) transfer_id: TransferId,
    pub(super) pid: u32,
    /// Seconds since 1970.
    pub(super) since: u64,
    /// Whose command it serves, where such a client may come again.
    pub(super) client: Option<ClientId>,
    /// Its peer.
    pub(super) description: String,
}

impl Holder {
    /// With a bounded description.
    pub(super) fn new(
        transfer_id: TransferId,
        since: u64,
        client: Option<ClientId>,
        description: &str,
    ) -> Holder {
        let mut end = description.len().min(DESCRIPTION_MAX);
        while !description.is_char_boundary(end) {
            end -= 1;
        }
        let description = description[..end].to_owned();
        Holder { transfer_id, pid: std::process::id(), since, client, description }
    }
}

/// Who wants the lock, and whether its holder is giving it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Claim {
    /// Rises with every session that asks.
    pub(super) generation: u64,
    /// When the holder is to give way to the newest one that asks.
    pub(super) due: Due,
    /// The newest generation that the holder does not give way to: its own client is there.
    pub(super) refused: u64,
    /// The holder is about to release the lock.
    pub(super) ending: bool,
}

/// When a holder is to give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) enum Due {
    /// At once: its command has a newer session.
    #[default]
    Now,
    /// If its client is absent: the same transfer was begun anew by the same client.
    IfAbsent,
}

/// The file that is partly stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Current {
    /// Of its source.
    pub(crate) fingerprint: Fingerprint,
    /// Its path below the journal's directory, once it is complete.
    #[serde(with = "serde_bytes")]
    pub(crate) place: Vec<u8>,
    /// Inode of the temporary file.
    pub(crate) inode: u64,
    /// Bytes that are stored and verified.
    pub(crate) len: u64,
    /// Their hash tree.
    pub(crate) stack: Vec<[u8; 32]>,
    /// When that file was made, where its file system says: an inode's number is given again. In a slot it
    /// follows the rest, so that earlier releases, which end before it, still read one.
    #[serde(skip)]
    pub(crate) birth: Option<(i64, u32)>,
}

impl Current {
    /// Whether its bytes are in the file that is held, and nobody but this user can have changed them.
    pub(crate) fn is_in(&self, held: impl AsFd) -> bool {
        let file = held.as_fd();
        fstat(file).is_ok_and(|stat| {
            inode_of(&stat) == self.inode
                && u64::try_from(stat.st_size).is_ok_and(|size| size >= self.len)
                && is_private(file, &stat)
                && (self.birth.is_none() || self.birth == at::birth(file))
        })
    }
}

/// All that a slot says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Slot {
    /// Higher is newer.
    pub(crate) sequence: u64,
    pub(crate) boot: Boot,
    /// Records of the log that count.
    pub(crate) records: u64,
    /// Bytes of those files.
    pub(crate) bytes: u64,
    pub(crate) current: Option<Current>,
}

/// A complete file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    /// Of its source; zeros: withdrawn.
    pub(crate) source: Fingerprint,
    /// Of the file as it was stored.
    pub(crate) destination: [u8; 8],
}

impl Completion {
    /// What stands for a record that does not count any more.
    pub(super) const WITHDRAWN: Completion = Completion { source: [0; 16], destination: [0; 8] };
}

/// Why a file is not a journal that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is empty or was torn when it was made: it says nothing.
    Blank,
    /// Of another version of FOBS.
    Version(u32),
    /// Something else under a journal's name.
    Foreign,
}

/// Offset of a slot: 0 and 1 are written ones, 2 and 3 synced ones.
pub(super) fn slot_at(index: usize) -> u64 {
    SLOTS_AT + index as u64 * SLOT_LEN
}

/// Offset of a record.
pub(super) fn record_at(index: u64) -> u64 {
    LOG_AT + index * RECORD_LEN as u64
}

/// Magic, version and origin.
pub(super) fn encode_origin(origin: &Origin) -> Vec<u8> {
    [&MAGIC[..], &VERSION.to_le_bytes(), &seal(&[0; 16], ORIGIN_AT, origin)].concat()
}

/// The origin in the first bytes of a file.
pub(super) fn decode_origin(header: &[u8]) -> Result<Origin, Unreadable> {
    if header.iter().take(ORIGIN_AT as usize).all(|&byte| byte == 0) {
        return Err(Unreadable::Blank);
    }
    let version =
        header.strip_prefix(&MAGIC).and_then(|rest| rest.first_chunk()).ok_or(Unreadable::Foreign)?;
    match u32::from_le_bytes(*version) {
        VERSION => part(&[0; 16], header, ORIGIN_AT).ok_or(Unreadable::Blank),
        // Torn inside of it.
        0 => Err(Unreadable::Blank),
        VERSIONS.. => Err(Unreadable::Foreign),
        other => Err(Unreadable::Version(other)),
    }
}

/// Bytes and offset of the holder.
pub(super) fn encode_holder(salt: &Salt, holder: &Holder) -> (Vec<u8>, u64) {
    (seal(salt, HOLDER_AT, holder), HOLDER_AT)
}

/// The holder, from the first bytes of a file.
pub(super) fn decode_holder(salt: &Salt, header: &[u8]) -> Option<Holder> {
    part(salt, header, HOLDER_AT)
}

/// Bytes and offset of the claim.
pub(super) fn encode_claim(salt: &Salt, claim: &Claim) -> (Vec<u8>, u64) {
    (seal(salt, CLAIM_AT, claim), CLAIM_AT)
}

/// The claim, from the first bytes of a file.
pub(super) fn decode_claim(salt: &Salt, header: &[u8]) -> Option<Claim> {
    part(salt, header, CLAIM_AT)
}

/// Bytes and offset of the doubt. Earlier releases do not read it.
pub(super) fn encode_doubt(salt: &Salt, doubts: bool) -> (Vec<u8>, u64) {
    (seal(salt, DOUBT_AT, &doubts), DOUBT_AT)
}

/// The doubt, from the first bytes of a file.
pub(super) fn decode_doubt(salt: &Salt, header: &[u8]) -> Option<bool> {
    part(salt, header, DOUBT_AT)
}

impl Slot {
    fn is_within_bounds(&self) -> bool {
        self.sequence <= COUNT_MAX && self.bytes <= COUNT_MAX
    }
}

/// Bytes of a slot; `None` if they do not fit, or would not be read again, so that it says nothing.
pub(super) fn encode_slot(salt: &Salt, index: usize, slot: &Slot) -> Option<Vec<u8>> {
    let birth = slot.current.as_ref().and_then(|current| current.birth);
    let body = [postcard::to_allocvec(slot), postcard::to_allocvec(&birth)]
        .map(|part| part.expect("writing to a Vec does not fail"));
    let bytes = framed(salt, slot_at(index), &body.concat());
    (bytes.len() as u64 <= SLOT_LEN && slot.is_within_bounds()).then_some(bytes)
}

/// A slot, from the first bytes of a file.
pub(super) fn decode_slot(salt: &Salt, index: usize, header: &[u8]) -> Option<Slot> {
    let end = (slot_at(index) + SLOT_LEN) as usize;
    let body = body_of(salt, &header[..header.len().min(end)], slot_at(index))?;
    let (mut slot, rest): (Slot, _) = postcard::take_from_bytes(body).ok()?;
    if let Some(current) = &mut slot.current {
        current.birth = postcard::from_bytes(rest).ok().flatten();
    }
    slot.is_within_bounds().then_some(slot)
}

/// A record of the log.
pub(super) fn encode_record(salt: &Salt, index: u64, completion: &Completion) -> [u8; RECORD_LEN] {
    let mut record = [0; RECORD_LEN];
    record[..16].copy_from_slice(&completion.source);
    record[16..24].copy_from_slice(&completion.destination);
    let check = check(salt, record_at(index), &record[..24]);
    record[24..].copy_from_slice(&check[..8]);
    record
}

/// A record of the log, unless it is torn.
pub(super) fn decode_record(salt: &Salt, index: u64, record: &[u8; RECORD_LEN]) -> Option<Completion> {
    let check = check(salt, record_at(index), &record[..24]);
    if record[24..] != check[..8] {
        return None;
    }
    let (source, rest) = record.split_first_chunk()?;
    Some(Completion { source: *source, destination: *rest.first_chunk()? })
}

fn seal<T: Serialize>(salt: &Salt, at: u64, value: &T) -> Vec<u8> {
    let body = postcard::to_allocvec(value).expect("writing to a Vec does not fail");
    framed(salt, at, &body)
}

/// A part with length and check.
pub(super) fn framed(salt: &Salt, at: u64, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).expect("parts are short").to_le_bytes();
    [&len[..], &check(salt, at, body), body].concat()
}

/// The part at `at` of `bytes`, if it is whole.
fn part<T: DeserializeOwned>(salt: &Salt, bytes: &[u8], at: u64) -> Option<T> {
    postcard::from_bytes(body_of(salt, bytes, at)?).ok()
}

/// Its bytes.
fn body_of<'a>(salt: &Salt, bytes: &'a [u8], at: u64) -> Option<&'a [u8]> {
    let (len, rest) = bytes.get(at as usize..)?.split_first_chunk()?;
    let (expected, rest) = rest.split_at_checked(FRAME_LEN - 4)?;
    let body = rest.get(..u32::from_le_bytes(*len) as usize)?;
    (check(salt, at, body) == expected).then_some(body)
}

fn check(salt: &Salt, at: u64, body: &[u8]) -> [u8; CHECK_LEN] {
    let mut hasher = blake3::Hasher::new_derive_key("FOBS journal 1: check");
    hasher.update(salt).update(&at.to_le_bytes()).update(body);
    let mut check = [0; CHECK_LEN];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK_LEN]);
    check
}
