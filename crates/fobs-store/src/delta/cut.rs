//! Where content is cut into pieces: FastCDC (Xia et al., USENIX ATC 2016), normalised lengths. A cut
//! follows from the 64 bytes before it, so what is put in or taken out moves the cuts around it alone.

/// How long pieces are on average: a power of two from 256 bytes to 256 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Average(u8);

/// Logarithms of the shortest and the longest average.
const LOGS: std::ops::RangeInclusive<u8> = 8..=18;
/// How much longer than the root of the size pieces of files below a MiB are, as a shift: a piece takes
/// seven bytes in the list, a line that changed costs one and a half, so both weigh the same at 2.2 times
/// the root.
const SHORT: u8 = 1;
/// Of a file whose root of the size has this logarithm or more, long pieces are listed at first, and short
/// ones where those have changed: one of 16 MiB takes longer than the questions for them.
const ROOT_LONG: u8 = 12;
/// How much longer than that root, as a shift: their list and those of short ones in some hundred places
/// weigh the same.
const LONG: u8 = 2;
/// How much shorter and longer than the average a piece may be, as a shift.
const SPREAD: u8 = 2;
/// Bits by which the condition for a cut is stricter before the average length, and looser behind it.
const NORMALISATION: u32 = 1;
/// Bytes that a cut depends on: each doubles the weight of those before it, in 64 bits.
const WINDOW: usize = 64;

impl Average {
    /// The shortest of files from a MiB on.
    pub const FINEST: Average = Average(11);

    /// For a basis of `basis` bytes, in which the pieces of a file of `file` bytes are looked for.
    pub fn of_files(basis: u64, file: u64) -> Average {
        let short = (root(basis.max(file)) + SHORT).max(*LOGS.start());
        if short < Average::FINEST.0 { Average(short) } else { Average::of_file(basis) }
    }

    /// For a basis of `size` bytes that is not short.
    pub fn of_file(size: u64) -> Average {
        let root = root(size);
        if root < ROOT_LONG { Average::FINEST } else { Average((root + LONG).min(*LOGS.end())) }
    }

    /// Whether there are much shorter ones to ask for.
    pub fn is_long(self) -> bool {
        self.0 >= ROOT_LONG + LONG
    }

    /// The one with this logarithm, as it is sent.
    pub fn from_log(log: u8) -> Option<Average> {
        LOGS.contains(&log).then_some(Average(log))
    }

    /// Twice as long, if there is that.
    pub(super) fn longer(self) -> Option<Average> {
        Average::from_log(self.0 + 1)
    }

    /// Its logarithm.
    pub const fn log(self) -> u8 {
        self.0
    }

    /// Bytes.
    pub fn bytes(self) -> usize {
        1 << self.0
    }

    /// The longest piece, bytes.
    pub fn longest(self) -> usize {
        1 << (self.0 + SPREAD)
    }

    fn shortest(self) -> usize {
        1 << (self.0 - SPREAD)
    }
}

/// Half of the logarithm of a size.
fn root(size: u64) -> u8 {
    (size.max(1).ilog2() / 2) as u8
}

/// A random number for each byte: the first 256 of SplitMix64 from 0 (protocol 7.9).
static GEAR: [u64; 256] = gear();

const fn gear() -> [u64; 256] {
    let mut table = [0; 256];
    let mut state = 0_u64;
    let mut at = 0;
    while at < table.len() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[at] = mixed ^ (mixed >> 31);
        at += 1;
    }
    table
}

/// Length of the piece that begins `data`, which ends the file or has [`Average::longest`] bytes at least; 0
/// of nothing.
pub(super) fn cut(data: &[u8], average: Average) -> usize {
    let data = &data[..data.len().min(average.longest())];
    let (shortest, middle) = (average.shortest(), average.bytes().min(data.len()));
    if data.len() <= shortest {
        return data.len();
    }
    // The highest bits of a hash are nothing below this.
    let bound = |bits: u32| 1_u64 << (u64::BITS - bits);
    let bits = u32::from(average.log());
    let mut hash = data[shortest - WINDOW..shortest].iter().fold(0, |hash, byte| turn(hash, *byte));
    let mut at = shortest;
    let parts = [(middle, bound(bits + NORMALISATION)), (data.len(), bound(bits - NORMALISATION))];
    for (end, bound) in parts {
        match below(&data[at..end], bound, &mut hash) {
            Some(length) => return at + length,
            None => at = end,
        }
    }
    data.len()
}

fn turn(hash: u64, byte: u8) -> u64 {
    (hash << 1).wrapping_add(GEAR[usize::from(byte)])
}

/// How many bytes of `data` it takes until the hash is below the bound.
fn below(data: &[u8], bound: u64, hash: &mut u64) -> Option<usize> {
    // In groups, a byte costs half of the instructions: 1.9 GB/s instead of 1.4 on one core.
    let (groups, rest) = data.as_chunks::<8>();
    for (count, group) in groups.iter().enumerate() {
        for (place, byte) in group.iter().enumerate() {
            *hash = turn(*hash, *byte);
            if *hash < bound {
                return Some(count * group.len() + place + 1);
            }
        }
    }
    let place = rest.iter().position(|byte| {
        *hash = turn(*hash, *byte);
        *hash < bound
    })?;
    Some(data.len() - rest.len() + place + 1)
}
