//! Braces of a shell: `{a,b}` and `{1..9}` in a word become several words.

/// Most bytes that they may become.
const BYTES_MAX: usize = 1 << 20;
/// Braces within braces.
const DEPTH_MAX: usize = 16;

/// A text of words with their braces expanded, quotes left as they are; `None` where that is too much.
pub fn expanded(text: &[u8]) -> Option<Vec<u8>> {
    let mut all: Vec<u8> = Vec::new();
    for piece in divide(text, |byte| byte.is_ascii_whitespace()) {
        match piece {
            [space] if space.is_ascii_whitespace() => all.push(*space),
            word => {
                let words = expand(word, DEPTH_MAX)?;
                all.extend(words.join(&b' '));
            }
        }
        if all.len() > BYTES_MAX {
            return None;
        }
    }
    Some(all)
}

/// The text divided at bytes outside quotes and braces for which `is_end` holds, which are pieces themselves.
fn divide(text: &[u8], is_end: impl Fn(u8) -> bool) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, byte, depth) in plain(text) {
        if depth == 0 && is_end(byte) {
            pieces.push(&text[start..at]);
            pieces.push(&text[at..=at]);
            start = at + 1;
        }
    }
    pieces.push(&text[start..]);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// The bytes outside quotes, with their places and how many braces are open around each.
fn plain(text: &[u8]) -> Vec<(usize, u8, usize)> {
    let (mut found, mut quote, mut escaped, mut depth) = (Vec::new(), None, false, 0_usize);
    for (at, &byte) in text.iter().enumerate() {
        match (quote, byte) {
            _ if escaped => escaped = false,
            (None | Some(b'"'), b'\\') => escaped = true,
            (None, b'\'' | b'"') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'{') => {
                found.push((at, byte, depth));
                depth += 1;
            }
            (None, b'}') => {
                depth = depth.saturating_sub(1);
                found.push((at, byte, depth));
            }
            // No brace goes over the end of a word.
            (None, byte) => {
                depth = if byte.is_ascii_whitespace() { 0 } else { depth };
                found.push((at, byte, depth));
            }
        }
    }
    found
}

/// What one word stands for.
fn expand(word: &[u8], depth: usize) -> Option<Vec<Vec<u8>>> {
    let marks = plain(word);
    let outer = |wanted: u8| {
        move |(at, byte, depth): &(usize, u8, usize)| (*byte == wanted && *depth == 0).then_some(*at)
    };
    let opens = marks.iter().filter_map(outer(b'{'));
    for open in opens {
        let Some(close) = marks.iter().filter_map(outer(b'}')).find(|close| *close > open) else { break };
        let inside = &word[open + 1..close];
        let Some(choices) = choices(inside) else { continue };
        let depth = depth.checked_sub(1)?;
        let behind = expand(&word[close + 1..], depth)?;
        let mut all = Vec::new();
        let mut bytes = 0;
        for choice in choices {
            for middle in expand(&choice, depth)? {
                for end in &behind {
                    let one = [&word[..open], &middle[..], &end[..]].concat();
                    bytes += one.len() + 1;
                    if bytes > BYTES_MAX {
                        return None;
                    }
                    all.push(one);
                }
            }
        }
        return Some(all);
    }
    Some(vec![word.to_vec()])
}

/// What stands between commas, or the numbers or letters of a range; `None` of neither.
fn choices(inside: &[u8]) -> Option<Vec<Vec<u8>>> {
    let pieces = divide(inside, |byte| byte == b',');
    if pieces.contains(&&b","[..]) {
        let mut choices = vec![Vec::new()];
        for piece in pieces {
            match (piece, choices.last_mut()) {
                (b",", _) => choices.push(Vec::new()),
                (piece, Some(last)) => last.extend_from_slice(piece),
                (_, None) => {}
            }
        }
        return Some(choices);
    }
    let (first, last) = std::str::from_utf8(inside).ok()?.split_once("..")?;
    let ordered = |from: i64, to: i64| -> Option<Vec<i64>> {
        let range: Vec<i64> = (from.min(to)..=from.max(to)).take(BYTES_MAX).collect();
        Some(if from <= to { range } else { range.into_iter().rev().collect() })
    };
    if let (Ok(from), Ok(to)) = (first.parse::<i32>(), last.parse::<i32>()) {
        let is_padded = |text: &str| text.len() > 1 && text.trim_start_matches('-').starts_with('0');
        let width = if is_padded(first) || is_padded(last) { first.len().max(last.len()) } else { 0 };
        let all = ordered(from.into(), to.into())?;
        return Some(all.into_iter().map(|number| format!("{number:0width$}").into_bytes()).collect());
    }
    match (first.as_bytes(), last.as_bytes()) {
        ([from], [to]) if from.is_ascii_alphabetic() && to.is_ascii_alphabetic() => {
            let all = ordered((*from).into(), (*to).into())?;
            Some(all.into_iter().filter_map(|byte| Some(vec![u8::try_from(byte).ok()?])).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_become_words_as_in_bash() {
        for (text, words) in [
            ("a{b,c}d", "abd acd"),
            ("{a,b}{1,2}", "a1 a2 b1 b2"),
            ("{a,b{c,d}}x", "ax bcx bdx"),
            ("{01..3} {c..a}", "01 02 03 c b a"),
            ("{a} {} {a,b", "{a} {} {a,b"),
            ("'{a,b}' \\{a,b} \"{a,b}\"", "'{a,b}' \\{a,b} \"{a,b}\""),
            ("x{,.bak}", "x x.bak"),
            ("{a,'b,c'}", "a 'b,c'"),
            ("{a b,c}", "{a b,c}"),
        ] {
            let found = expanded(text.as_bytes()).expect("few");
            assert_eq!(String::from_utf8_lossy(&found), words, "{text}");
        }
        let many = "{1..9999999}{1..9999999}";
        assert_eq!((expanded(many.as_bytes()), expanded("{a,b}".repeat(40).as_bytes())), (None, None));
    }
}
