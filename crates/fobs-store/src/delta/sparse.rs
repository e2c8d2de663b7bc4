//! What differs between two runs of bytes of one length: where, how long, and the exclusive or of both. Each
//! kind lies together, so that zstd finds in it what it can.

/// Equal bytes between two differences that are taken as one, at most: to begin another costs as much.
const BRIDGE: usize = 2;
/// What is compared at once.
const WORD: usize = size_of::<u64>();

/// The differences of `new` from `old`, which is as long; none if that is not shorter than `most` bytes.
///
/// `count`, the gaps before each difference, their lengths (each a varint of postcard), and their bytes.
pub(super) fn differences(old: &[u8], new: &[u8], most: usize) -> Option<Vec<u8>> {
    debug_assert_eq!(old.len(), new.len());
    let (mut gaps, mut lens, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut count, mut after) = (0_u32, 0);
    while let Some((begin, end)) = next(old, new, after) {
        // At most a chunk's data.
        put(&mut gaps, (begin - after) as u32);
        put(&mut lens, (end - begin) as u32);
        bytes.extend(old[begin..end].iter().zip(&new[begin..end]).map(|(old, new)| old ^ new));
        if gaps.len() + lens.len() + bytes.len() >= most {
            return None;
        }
        count += 1;
        after = end;
    }
    let mut all = Vec::with_capacity(gaps.len() + lens.len() + bytes.len() + WORD);
    put(&mut all, count);
    all.append(&mut gaps);
    all.append(&mut lens);
    all.append(&mut bytes);
    (all.len() < most).then_some(all)
}

fn put(to: &mut Vec<u8>, number: u32) {
    postcard::to_io(&number, to).expect("writing to a Vec does not fail");
}

/// The next difference from a place on.
fn next(old: &[u8], new: &[u8], from: usize) -> Option<(usize, usize)> {
    let begin = from + equal(&old[from..], &new[from..]);
    if begin == old.len() {
        return None;
    }
    let mut end = begin + 1;
    loop {
        let same = equal(&old[end..], &new[end..]);
        if same > BRIDGE || end + same == old.len() {
            return Some((begin, end));
        }
        end += same + 1;
    }
}

/// How many bytes are equal at the front.
fn equal(old: &[u8], new: &[u8]) -> usize {
    let words = old.chunks_exact(WORD).zip(new.chunks_exact(WORD)).take_while(|(old, new)| old == new);
    let whole = words.count() * WORD;
    let rest = old[whole..].iter().zip(&new[whole..]).take_while(|(old, new)| old == new);
    whole + rest.count()
}

/// Applies differences from a peer to `old`, which becomes what is new.
///
/// # Errors
/// Part of a sentence: the peer breaks a rule.
pub(super) fn apply_to(old: &mut [u8], differences: &[u8]) -> Result<(), &'static str> {
    let (count, rest) = take(differences)?;
    // Each has at least a byte of each kind.
    if count as usize > rest.len() / 3 {
        return Err(UNREADABLE);
    }
    let gaps = rest;
    let lens = (0..count).try_fold(gaps, |rest, _| take(rest).map(|(_, rest)| rest))?;
    let mut bytes = (0..count).try_fold(lens, |rest, _| take(rest).map(|(_, rest)| rest))?;
    let (mut gaps, mut lens, mut at) = (gaps, lens, 0_usize);
    for _ in 0..count {
        let ((gap, gaps_after), (len, lens_after)) = (take(gaps)?, take(lens)?);
        (gaps, lens) = (gaps_after, lens_after);
        at = at.checked_add(gap as usize).ok_or(UNREADABLE)?;
        let end = at.checked_add(len as usize).ok_or(UNREADABLE)?;
        let place = old.get_mut(at..end).ok_or("a patch differs beyond its data")?;
        let (now, after) = bytes.split_at_checked(len as usize).ok_or(UNREADABLE)?;
        place.iter_mut().zip(now).for_each(|(old, other)| *old ^= other);
        (bytes, at) = (after, end);
    }
    if bytes.is_empty() { Ok(()) } else { Err(UNREADABLE) }
}

const UNREADABLE: &str = "the differences in a patch cannot be read";

fn take(bytes: &[u8]) -> Result<(u32, &[u8]), &'static str> {
    postcard::take_from_bytes(bytes).map_err(|_| UNREADABLE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn differences_make_the_new_of_the_old(
            old in prop::collection::vec(any::<u8>(), 0..3000),
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 1..9_usize), 0..60),
        ) {
            let mut new = old.clone();
            for (at, byte, len) in edits {
                if !new.is_empty() {
                    let at = at.index(new.len());
                    let end = (at + len).min(new.len());
                    new[at..end].fill(byte);
                }
            }
            let found = differences(&old, &new, usize::MAX).expect("no bound");
            let mut made = old.clone();
            prop_assert_eq!(apply_to(&mut made, &found), Ok(()));
            prop_assert_eq!(&made, &new);
            prop_assert_eq!(differences(&old, &new, found.len() + 1), Some(found.clone()));
            prop_assert_eq!(differences(&old, &new, found.len()), None);
        }

        #[test]
        fn any_bytes_are_applied_or_refused(
            mut old in prop::collection::vec(any::<u8>(), 0..200),
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let len = old.len();
            let done = apply_to(&mut old, &bytes);
            prop_assert!(done.is_ok() || old.len() == len);
        }
    }

    #[test]
    fn scattered_numbers_cost_few_bytes() {
        // Of 2-byte numbers one in fifty is another.
        let old = vec![0x3f; 200_000];
        let mut new = old.clone();
        for at in (0..new.len()).step_by(100) {
            new[at] ^= 1 + (at / 100 % 7) as u8;
        }
        let found = differences(&old, &new, usize::MAX).expect("no bound");
        assert!(found.len() <= 3 * 2000 + 3, "{}", found.len());
    }
}
