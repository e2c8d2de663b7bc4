//! Shell patterns as rsync reads them: `*`, `**`, `?`, `[...]` and `\`.

/// Longest pattern, bytes: no path is longer, and a match takes time in proportion to both.
pub const PATTERN_LEN_MAX: usize = 4096;

/// Words of a set of states: one state before each token, and one after the last.
const STATE_WORDS: usize = PATTERN_LEN_MAX / 64 + 1;

/// A compiled pattern. A match steps a set of states over the text, so that no pattern takes exponential
/// time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    tokens: Box<[Token]>,
    classes: Box<[Set]>,
}

/// The bytes in a `[...]`.
type Set = [u64; 4];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// `?`: any byte but `/`.
    Any,
    /// `*`: any bytes but `/`.
    Star,
    /// `**`: any bytes.
    DoubleStar,
    /// `[...]`: one of the bytes of the class with this number, never `/`.
    Class(u16),
    /// A malformed part: nothing matches.
    Never,
}

/// Where in the text a pattern may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this byte only.
    At(usize),
    /// At the first byte, and after each slash.
    AfterAnySlash,
}

/// Whether `pattern` has any wildcard. In one without, a backslash is a backslash.
pub fn is_wild(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| b"*[?".contains(byte))
}

impl Glob {
    /// Compiles a pattern.
    pub fn new(pattern: &[u8]) -> Glob {
        let mut tokens = Vec::with_capacity(pattern.len().min(PATTERN_LEN_MAX));
        let mut classes = Vec::new();
        let mut rest = &pattern[..pattern.len().min(PATTERN_LEN_MAX)];
        let wild = is_wild(pattern);
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            tokens.push(match first {
                _ if !wild => Token::Byte(first),
                b'\\' => match rest.split_first() {
                    Some((&byte, after)) => {
                        rest = after;
                        Token::Byte(byte)
                    }
                    None => Token::Never,
                },
                b'?' => Token::Any,
                b'*' => {
                    let more = rest.iter().take_while(|&&byte| byte == b'*').count();
                    rest = &rest[more..];
                    if more == 0 { Token::Star } else { Token::DoubleStar }
                }
                b'[' => match Class::parse(rest) {
                    Some((class, after)) => {
                        rest = after;
                        classes.push(class.0);
                        Token::Class(classes.len() as u16 - 1)
                    }
                    None => Token::Never,
                },
                byte => Token::Byte(byte),
            });
        }
        Glob { tokens: tokens.into(), classes: classes.into() }
    }

    /// Bytes that it takes beside itself.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.tokens) + size_of_val(&*self.classes)
    }

    /// The bytes that every text which matches has, as [`mask_of`] them.
    pub(super) fn mask(&self) -> u64 {
        let bytes = self.tokens.iter().filter_map(|token| match token {
            Token::Byte(byte) => Some(*byte),
            _ => None,
        });
        bytes.fold(0, |mask, byte| mask | mask_of(&[byte]))
    }

    /// Whether the text may end as the pattern does, which mostly tells without a match.
    fn may_end(&self, pieces: &[&[u8]]) -> bool {
        let text = pieces.iter().rev().flat_map(|piece| piece.iter().rev());
        let mut fixed = self.tokens.iter().rev().map_while(|token| match token {
            Token::Byte(byte) => Some(byte),
            _ => None,
        });
        let mut text = text;
        fixed.all(|byte| text.next() == Some(byte))
    }

    /// Whether the whole of the text, which is `pieces` one after another, matches from `start` on. Adds what
    /// it takes to `steps`: a byte for each state that it may be in.
    pub fn matches(&self, pieces: &[&[u8]], start: Start, steps: &mut u64) -> bool {
        *steps += 1;
        if !self.may_end(pieces) {
            return false;
        }
        if self.tokens.len() < 64 {
            self.matches_in_a_word(pieces, start, steps)
        } else {
            self.matches_long(pieces, start, steps)
        }
    }

    /// For most patterns: all states are bits of one word.
    fn matches_in_a_word(&self, pieces: &[&[u8]], start: Start, steps: &mut u64) -> bool {
        let skip = match start {
            Start::At(offset) => offset,
            Start::AfterAnySlash => 0,
        };
        let mut states = [0];
        self.add(&mut states, 0);
        let first = states[0];
        for byte in pieces.iter().copied().flatten().copied().skip(skip) {
            let mut next = [0];
            let mut bits = states[0];
            *steps += u64::from(bits.count_ones());
            while bits != 0 {
                self.step(bits.trailing_zeros() as usize, byte, &mut next);
                bits &= bits - 1;
            }
            if start == Start::AfterAnySlash {
                next[0] |= if byte == b'/' { first } else { 0 };
            } else if next[0] == 0 {
                return false;
            }
            states = next;
        }
        has(&states, self.tokens.len())
    }

    fn matches_long(&self, pieces: &[&[u8]], start: Start, steps: &mut u64) -> bool {
        let skip = match start {
            Start::At(offset) => offset,
            Start::AfterAnySlash => 0,
        };
        let words = self.tokens.len() / 64 + 1;
        let mut states = [0_u64; STATE_WORDS];
        self.add(&mut states, 0);
        for byte in pieces.iter().copied().flatten().copied().skip(skip) {
            let mut next = [0_u64; STATE_WORDS];
            *steps += words as u64;
            for (word, mut bits) in states.into_iter().enumerate().take(words) {
                *steps += u64::from(bits.count_ones());
                while bits != 0 {
                    let state = word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    self.step(state, byte, &mut next);
                }
            }
            if byte == b'/' && start == Start::AfterAnySlash {
                self.add(&mut next, 0);
            }
            if next[..words].iter().all(|&word| word == 0) && start != Start::AfterAnySlash {
                return false;
            }
            states = next;
        }
        has(&states, self.tokens.len())
    }

    fn step(&self, state: usize, byte: u8, next: &mut [u64]) {
        match self.tokens.get(state) {
            Some(Token::Byte(wanted)) if *wanted == byte => self.add(next, state + 1),
            Some(Token::Any) if byte != b'/' => self.add(next, state + 1),
            Some(Token::Class(class)) if byte != b'/' && self.is_in(*class, byte) => {
                self.add(next, state + 1);
            }
            Some(Token::Star) if byte != b'/' => self.add(next, state),
            Some(Token::DoubleStar) => self.add(next, state),
            _ => {}
        }
    }

    fn is_in(&self, class: u16, byte: u8) -> bool {
        let set = self.classes.get(usize::from(class));
        set.is_some_and(|set| set[usize::from(byte) / 64] >> (byte % 64) & 1 == 1)
    }

    /// Adds a state, and those that follow it without a byte.
    fn add(&self, states: &mut [u64], mut state: usize) {
        loop {
            states[state / 64] |= 1 << (state % 64);
            match self.tokens.get(state) {
                Some(Token::Star | Token::DoubleStar) => state += 1,
                _ => return,
            }
        }
    }
}

/// Which bytes a text has: small letters, digits and what often stands between them have a bit each, two
/// capitals share one, and all others share ten.
pub(super) fn mask_of(text: &[u8]) -> u64 {
    text.iter().fold(0, |mask, byte| mask | 1 << BITS[usize::from(*byte)])
}

/// The bit of each byte.
const BITS: [u8; 256] = {
    let mut bits = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        bits[byte] = match byte as u8 {
            small @ b'a'..=b'z' => small - b'a',
            digit @ b'0'..=b'9' => 26 + (digit - b'0'),
            capital @ b'A'..=b'Z' => 36 + (capital - b'A') / 2,
            b'/' => 49,
            b'.' => 50,
            b'-' => 51,
            b'_' => 52,
            b' ' => 53,
            other => 54 + other % 10,
        };
        byte += 1;
    }
    bits
};

fn has(states: &[u64], state: usize) -> bool {
    states[state / 64] >> (state % 64) & 1 == 1
}

/// A [`Set`] that is parsed.
struct Class(Set);

impl Class {
    /// Parses what follows `[`. Returns the class and what follows its `]`; `None` if it is malformed.
    fn parse(mut rest: &[u8]) -> Option<(Class, &[u8])> {
        let mut class = Class([0; 4]);
        let negated = matches!(rest.first(), Some(b'!' | b'^'));
        if negated {
            rest = &rest[1..];
        }
        // The lower end of a range, if one may follow.
        let mut low = None;
        let mut first = true;
        loop {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            match byte {
                b']' if !first => break,
                b'\\' => {
                    let (&literal, after) = rest.split_first()?;
                    rest = after;
                    class.add(literal, literal);
                    low = Some(literal);
                }
                b'-' if low.is_some() && rest.first().is_some_and(|&next| next != b']') => {
                    let (&next, after) = rest.split_first()?;
                    rest = after;
                    let high = match next {
                        b'\\' => {
                            let (&literal, after) = rest.split_first()?;
                            rest = after;
                            literal
                        }
                        other => other,
                    };
                    class.add(low.take()?, high);
                }
                b'[' if rest.first() == Some(&b':') => {
                    // Up to the next `]`; without a colon before it, this is a set with `[` and `:` in it.
                    let end = rest.iter().position(|&byte| byte == b']')?;
                    if end >= 2 && rest[end - 1] == b':' {
                        class.add_named(&rest[1..end - 1])?;
                        rest = &rest[end + 1..];
                        low = None;
                    } else {
                        class.add(b'[', b'[');
                        low = Some(b'[');
                    }
                }
                byte => {
                    class.add(byte, byte);
                    low = Some(byte);
                }
            }
            first = false;
        }
        if negated {
            class.0 = class.0.map(|word| !word);
        }
        Some((class, rest))
    }

    fn add(&mut self, low: u8, high: u8) {
        for byte in low..=high {
            self.0[usize::from(byte) / 64] |= 1 << (byte % 64);
        }
    }

    /// The bytes of a POSIX class, in the C locale.
    fn add_named(&mut self, name: &[u8]) -> Option<()> {
        let is_in: fn(&u8) -> bool = match name {
            b"alnum" => u8::is_ascii_alphanumeric,
            b"alpha" => u8::is_ascii_alphabetic,
            b"blank" => |byte| matches!(byte, b' ' | b'\t'),
            b"cntrl" => u8::is_ascii_control,
            b"digit" => u8::is_ascii_digit,
            b"graph" => u8::is_ascii_graphic,
            b"lower" => u8::is_ascii_lowercase,
            b"print" => |byte| matches!(byte, b' '..=b'~'),
            b"punct" => u8::is_ascii_punctuation,
            b"space" => |byte| matches!(byte, b'\t'..=b'\r' | b' '),
            b"upper" => u8::is_ascii_uppercase,
            b"xdigit" => u8::is_ascii_hexdigit,
            _ => return None,
        };
        (0..=u8::MAX).filter(is_in).for_each(|byte| self.add(byte, byte));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Glob::new(pattern.as_bytes()).matches(&[text.as_bytes()], Start::At(0), &mut 0)
    }

    #[test]
    fn wildcards_match_as_in_rsync() {
        for (pattern, text, expected) in [
            ("foo", "foo", true),
            ("foo", "bar", false),
            ("", "", true),
            ("???", "foo", true),
            ("??", "foo", false),
            ("*", "foo", true),
            ("*", "a/b", false),
            ("f*", "foo", true),
            ("*f", "foo", false),
            ("*foo*", "foo", true),
            ("*ob*a*r*", "foobar", true),
            ("*ab", "aaaaaaabababab", true),
            ("foo\\*", "foo*", true),
            ("foo\\*bar", "foobar", false),
            ("f\\\\oo", "f\\\\oo", true),
            ("*\\", "a\\", false),
            ("t[a-g]n", "ten", true),
            ("t[!a-g]n", "ten", false),
            ("t[^a-g]n", "ton", true),
            ("a[]]b", "a]b", true),
            ("a[]-]b", "a-b", true),
            ("a[]a-]b", "aab", true),
            ("[]-a]", "a", true),
            ("[!]-]", "]", false),
            ("[a-]", "-", true),
            ("[a-\\]]", "]", false),
            ("[\\]-a]", "`", true),
            ("[[:digit:]]x", "5x", true),
            ("[[:digit:][:space:]]", " ", true),
            ("[[:foo:]]", "f", false),
            ("[[:]ab]", ":ab]", true),
            ("[[:]ab]", "xab]", false),
            ("a[b", "a[b", false),
            ("foo/bar", "foo/bar", true),
            ("foo*bar", "foo/baz/bar", false),
            ("foo**bar", "foo/baz/bar", true),
            ("foo?bar", "foo/bar", false),
            ("foo[/]bar", "foo/bar", false),
            ("**/foo", "bar/baz/foo", true),
            ("**/*foo", "foo", false),
            ("*/foo", "bar/baz/foo", false),
            ("**/bar*", "foo/bar/baz", false),
            ("**/bar/**", "deep/foo/bar/baz/x", true),
            ("foo***", "foo/a", true),
            ("*a*b*c*d*e*f*g*h*i*j*k", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern:?} and {text:?}");
        }
    }

    #[test]
    fn a_pattern_may_begin_after_any_slash() {
        let glob = Glob::new(b"a**c");
        assert!(glob.matches(&[b"x/a/b/c"], Start::AfterAnySlash, &mut 0));
        assert!(!glob.matches(&[b"xa/b/c"], Start::AfterAnySlash, &mut 0));
        assert!(!glob.matches(&[b"x/a/b/c"], Start::At(0), &mut 0));
        assert!(glob.matches(&[b"x/", b"a/b", b"/c"], Start::At(2), &mut 0));
    }

    #[test]
    fn the_bytes_of_a_name_tell_what_cannot_match() {
        let common = b"abcdefghijklmnopqrstuvwxyz0123456789/.-_ ";
        let bits: Vec<u64> = common.iter().map(|byte| mask_of(&[*byte])).collect();
        assert!((1..bits.len()).all(|at| !bits[..at].contains(&bits[at])), "each has a bit of its own");
        assert!((0..=u8::MAX).all(|byte| mask_of(&[byte]).is_power_of_two()));
        assert_eq!(Glob::new(b"*y[0-9]?x").mask(), mask_of(b"xy"));
    }

    #[test]
    fn the_longest_pattern_is_matched() {
        let long = vec![b'?'; PATTERN_LEN_MAX];
        let glob = Glob::new(&long);
        assert!(glob.matches(&[&[b'a'; PATTERN_LEN_MAX]], Start::At(0), &mut 0));
        assert!(!glob.matches(&[&[b'a'; PATTERN_LEN_MAX - 1]], Start::At(0), &mut 0));
    }

    proptest! {
        #[test]
        fn any_pattern_and_text_have_an_answer(
            pattern in prop::collection::vec(prop::sample::select(&b"ab/*?[]!-\\:^"[..]), 0..24),
            text in prop::collection::vec(prop::sample::select(&b"ab/-]"[..]), 0..24),
        ) {
            let glob = Glob::new(&pattern);
            let whole = glob.matches(&[&text], Start::At(0), &mut 0);
            let (left, right) = text.split_at(text.len() / 2);
            prop_assert_eq!(glob.matches(&[left, right], Start::At(0), &mut 0), whole);
            prop_assert!(!whole || glob.matches(&[&text], Start::AfterAnySlash, &mut 0));
        }
    }
}
