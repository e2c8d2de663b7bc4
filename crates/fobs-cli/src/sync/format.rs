//! `--out-format` and `--log-file-format`: rsync's escapes, filled in for an entry.

use fobs::event::EntryFacts;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::figures::big;

/// Longest width of an escape that is heeded: rsync's own digits end there.
const WIDTH_MAX: usize = 4096;
/// Most digits of a width: with more, rsync takes the percent sign as it is, and looks for escapes behind it.
const DIGITS_MAX: usize = 23;

/// A format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Escape { letter: u8, place: Place, human: u8, as_written: Vec<u8> },
}

/// How wide an escape is, and at which side of its room it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    width: usize,
    is_left: bool,
}

/// What a line is about.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// The eleven characters of `-i`.
    pub changes: &'a str,
    /// Path within the transfer, as it is printed.
    pub path: &'a [u8],
    pub directory: bool,
    /// What a link leads to, as it is printed.
    pub target: Option<&'a [u8]>,
    pub facts: EntryFacts,
    /// `send`, `recv` or `del.`
    pub operation: &'static str,
    /// What stands before the path where the sender names it.
    pub above: &'a [u8],
    /// Of a file that was moved: its content's.
    pub sum: Option<Sum>,
}

/// The first half of a BLAKE3 hash: as long as the checksum that rsync prints.
pub type Sum = [u8; 16];

impl Format {
    /// Reads a format: what is no escape of rsync's stays as it is.
    pub fn parse(text: &[u8]) -> Format {
        let mut pieces = Vec::new();
        let mut plain = Vec::new();
        let mut rest = text;
        while let Some((&first, after)) = rest.split_first() {
            let escape = (first == b'%').then(|| escape(rest)).flatten();
            let Some((piece, len)) = escape else {
                plain.push(first);
                rest = after;
                continue;
            };
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(piece);
            rest = &rest[len..];
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Format(pieces)
    }

    /// Whether it has one of these escapes.
    pub fn has(&self, letters: &[u8]) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Escape { letter, .. } if letters.contains(letter)))
    }

    /// A line, without its end.
    pub fn fill(&self, line: &Line<'_>, zone: &TimeZone) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.extend_from_slice(plain),
                Piece::Escape { letter, place, human, as_written } => {
                    match value(*letter, *place, *human, line, zone) {
                        Some(value) => place.put(&value, &mut text),
                        None => text.extend_from_slice(as_written),
                    }
                }
            }
        }
        text
    }
}

/// An escape at the beginning of a text, and how long it is.
fn escape(text: &[u8]) -> Option<(Piece, usize)> {
    let mut at = 1;
    let mut human = 0;
    let mut place = Place::default();
    while text.get(at) == Some(&b'\'') {
        (human, at) = (human + 1, at + 1);
    }
    if text.get(at) == Some(&b'-') {
        (place.is_left, at) = (true, at + 1);
    }
    let digits_at = at;
    while let Some(digit) = text.get(at).filter(|byte| byte.is_ascii_digit()) {
        place.width = (place.width * 10 + usize::from(digit - b'0')).min(WIDTH_MAX);
        at += 1;
    }
    if at - digits_at > DIGITS_MAX {
        return None;
    }
    while text.get(at) == Some(&b'\'') {
        (human, at) = (human + 1, at + 1);
    }
    let letter = *text.get(at)?;
    Some((Piece::Escape { letter, place, human, as_written: text[..=at].to_vec() }, at + 1))
}

impl Place {
    fn put(self, value: &[u8], to: &mut Vec<u8>) {
        let room = self.width.saturating_sub(value.len());
        let blanks = std::iter::repeat_n(b' ', room);
        if self.is_left {
            to.extend_from_slice(value);
            to.extend(blanks);
        } else {
            to.extend(blanks);
            to.extend_from_slice(value);
        }
    }
}

/// What an escape stands for; `None` leaves it as it is written, as rsync does with what it does not know.
fn value(letter: u8, place: Place, human: u8, line: &Line<'_>, zone: &TimeZone) -> Option<Vec<u8>> {
    let is_moved = line.changes.starts_with(['<', '>']);
    let facts = &line.facts;
    Some(match letter {
        b'%' => b"%".to_vec(),
        b'i' => line.changes.as_bytes().to_vec(),
        b'n' => named(line.path, line.directory),
        b'L' => {
            // A link that is linked from an older tree leads where it did.
            let is_older_link = line.changes.trim_end() == "hL";
            let is_name = line.changes.starts_with('h') && !is_older_link;
            let arrow: &[u8] = if is_name { b" => " } else { b" -> " };
            match line.target {
                Some(target) => [arrow, target].concat(),
                None if place.width > 0 => b"    ".to_vec(),
                None => Vec::new(),
            }
        }
        b'f' => {
            let whole = [line.above, if line.path.is_empty() { b"." } else { line.path }].concat();
            whole.strip_prefix(b"/").unwrap_or(&whole).to_vec()
        }
        b'l' => big(facts.size, human).into_bytes(),
        b'b' | b'c' => {
            // The data of the file: the other way goes its decision, which is not counted for each.
            let is_ours = (letter == b'b') == (line.operation == "send");
            let count = if is_moved && is_ours { facts.size } else { 0 };
            big(count, human).into_bytes()
        }
        b'U' => facts.owner.unwrap_or(0).to_string().into_bytes(),
        b'G' => facts.group.map_or_else(|| b"DEFAULT".to_vec(), |group| group.to_string().into_bytes()),
        b'p' => std::process::id().to_string().into_bytes(),
        b'M' => time(facts.mtime_s, zone).replace(' ', "-").into_bytes(),
        b't' => time(Timestamp::now().as_second(), zone).into_bytes(),
        b'B' => permissions(facts.mode).as_bytes()[1..].to_vec(),
        b'o' => line.operation.as_bytes().to_vec(),
        b'C' => match line.sum {
            Some(sum) => sum.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect(),
            None => vec![b' '; 2 * size_of::<Sum>()],
        },
        // There is no module of a daemon's; its path and its user stay as they are written, as in rsync.
        b'm' => Vec::new(),
        _ => return None,
    })
}

/// A line of `--list-only`.
pub fn listed(line: &Line<'_>, human: u8, zone: &TimeZone) -> Vec<u8> {
    let facts = &line.facts;
    let width = if human > 0 { 14 } else { 11 };
    let (size, at) = (big(facts.size, human), time(facts.mtime_s, zone));
    let before = format!("{} {size:>width$} {at} ", permissions(facts.mode));
    let path = if line.path.is_empty() { b"." } else { line.path };
    let arrow: &[u8] = if line.target.is_some() { b" -> " } else { b"" };
    [before.as_bytes(), path, arrow, line.target.unwrap_or_default()].concat()
}

/// A path as rsync prints a name.
fn named(path: &[u8], directory: bool) -> Vec<u8> {
    match (path.is_empty(), directory) {
        (true, _) => b"./".to_vec(),
        (false, true) => [path, b"/"].concat(),
        (false, false) => path.to_vec(),
    }
}

/// `2026/11/26 22:54:00`, in this zone.
pub fn time(seconds: i64, zone: &TimeZone) -> String {
    let at = Timestamp::from_second(seconds).unwrap_or_default().to_zoned(zone.clone());
    at.strftime("%Y/%m/%d %H:%M:%S").to_string()
}

/// `drwxr-sr-t`, as `ls` has it.
pub fn permissions(mode: u32) -> String {
    let kind = match mode & 0o170_000 {
        0o040_000 => 'd',
        0o120_000 => 'l',
        0o020_000 => 'c',
        0o060_000 => 'b',
        0o010_000 => 'p',
        0o140_000 => 's',
        _ => '-',
    };
    // A link has no permissions of its own.
    let mode = if kind == 'l' { 0o777 } else { mode };
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let has = |bit: u32| mode >> shift & bit != 0;
        text.push(if has(4) { 'r' } else { '-' });
        text.push(if has(2) { 'w' } else { '-' });
        text.push(match (has(1), mode & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line<'a>() -> Line<'a> {
        Line {
            changes: "<f.st......",
            path: b"d/name",
            directory: false,
            target: None,
            facts: EntryFacts { size: 1_234_567, mode: 0o100_640, mtime_s: 86_400, ..EntryFacts::default() },
            operation: "send",
            above: b"/src/",
            sum: None,
        }
    }

    fn filled(format: &str, line: &Line<'_>) -> String {
        String::from_utf8(Format::parse(format.as_bytes()).fill(line, &TimeZone::UTC)).expect("ASCII")
    }

    #[test]
    fn escapes_are_those_of_rsync() {
        for (format, expected) in [
            ("<<CHANGED>>%i %n%L", "<<CHANGED>><f.st...... d/name"),
            ("%f %o %l %'l %''l", "src/d/name send 1234567 1,234,567 1.23M"),
            ("[%-10n|%10n|%-4l]", "[d/name    |    d/name|1234567]"),
            ("%B %M %U %G", "rw-r----- 1970/01/02-00:00:00 0 DEFAULT"),
            ("100%% %b %c", "100% 1234567 0"),
            ("%h %a %q %", "%h %a %q %"),
            ("[%L|%5L]", "[|     ]"),
            ("%000000000000000000000000000000%o", "%000000000000000000000000000000send"),
            ("%0000%o", "%o"),
        ] {
            assert_eq!(filled(format, &line()), expected, "{format}");
        }
        let link = Line { changes: "cL+++++++++", target: Some(b"to"), ..line() };
        assert_eq!(filled("%n%L %b", &link), "d/name -> to 0");
        let summed = Line { sum: Some([0xab; 16]), ..line() };
        assert_eq!(filled("%C %n", &summed), format!("{} d/name", "ab".repeat(16)));
        assert_eq!(filled("%C %n", &line()), format!("{} d/name", " ".repeat(32)));
        let top = Line { changes: ".d..t......", path: b"", directory: true, ..line() };
        assert_eq!(filled("%i %n %f", &top), ".d..t...... ./ src/.");
        assert!(Format::parse(b"%%i").has(b"%") && !Format::parse(b"%%i").has(b"i"));
    }

    #[test]
    fn permissions_are_those_of_ls() {
        for (mode, text) in [
            (0o100_644, "-rw-r--r--"),
            (0o041_777, "drwxrwxrwt"),
            (0o106_755, "-rwsr-sr-x"),
            (0o107_000, "---S--S--T"),
            (0o120_000, "lrwxrwxrwx"),
            (0o060_660, "brw-rw----"),
        ] {
            assert_eq!(permissions(mode), text);
        }
    }
}
