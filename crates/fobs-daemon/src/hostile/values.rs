//! What is put in the place of a value, for each kind of value: a name in the case's name, and the value.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::leaves::Kind;

/// Texts that [`raw`] replaces in a message's bytes, because no JSON value holds what they stand for.
const WRONG_UTF8: &str = "@wrong-utf8@";
const DEEP: &str = "@deep@";
/// In values: the directory around the root, which the player fills in.
pub(super) const TOP: &str = "@top@";
/// Members of an object that stands for something large, which [`grown`] makes when the case is played.
const MANY: &str = "@many@";
const BASE64: &str = "@base64@";
const BYTES: &str = "@bytes@";
const TEXT: &str = "@text@";
/// How deep the nested lists are.
const DEPTH: usize = 50_000;
/// Bytes of the longest list: what a frame holds beside the rest of a request.
const LIST_BYTES: usize = 900_000;
/// Bytes of the long name and text.
const LONG: usize = 64 << 10;

/// A replacement; `None` stands for nothing at all, where the place is a member's.
pub(super) type Replacement = (String, Option<Value>);

/// Names: of places outside, of our own files, of links in the world, and of nothing that can be a name.
/// What is relative goes up no further than the world's top, or comes back to it.
pub(crate) const NAMES: &[(&str, &[u8])] = &[
    ("empty", b""),
    ("dot", b"."),
    ("dotdot", b".."),
    ("slash", b"/"),
    ("dot-slash", b"./"),
    ("up", b"../planted"),
    ("up-five", b"../../../../../planted"),
    ("in-and-out", b"a/../../planted"),
    ("dotdot-inside", b"abc/../ab"),
    ("trailing-dotdot", b"abc/.."),
    ("trailing-slash", b"ab/"),
    ("double-slash", b"in//ann//ab"),
    ("absolute", b"@top@/srv/planted"),
    ("absolute-secret", b"@top@/srv/secret"),
    ("far", b"../../../../../../../../../../../../../../../..@top@/planted"),
    ("proc", b"/proc/self/root@top@/srv/secret"),
    ("proc-cwd", b"../../../../../../../../../../proc/self/cwd"),
    ("nul", b"a\0b"),
    ("nul-up", b"../planted\0"),
    ("not-utf8", b"\xff\xfe\x80"),
    ("escapes", b"a\n\x1b[2J\x1b]0;x\x07b"),
    ("journal", b".ab.fobs-journal"),
    ("journal-ending", b".fobs-journal"),
    ("temporary", b".ab.fobs-abc123"),
    ("temporary-of-part", b"in/ann/.ab.fobs-abc123"),
    ("master", b".x.fobs-master"),
    ("backup-of-configuration", b".config.fobs-backup"),
    ("whole-root", b"in"),
    ("part", b"in/ann"),
    ("beside-part", b"in/anna/x"),
    ("prefix-of-part", b"in/an"),
    ("key-file", b"in/.ssh/authorized_keys"),
    ("root-secret", b"secret"),
    ("up-secret", b"../secret"),
    ("existing", b"in/ann/ab"),
    ("existing-directory", b"in/ann/abc"),
    ("link-out", b"in/ann/out"),
    ("link-absolute", b"in/ann/absolute"),
    ("through-link-up", b"in/ann/up/planted"),
    ("through-link-ssh", b"in/ann/ssh/authorized_keys"),
    ("link-out-here", b"out"),
    ("through-up-here", b"up/planted"),
    ("through-ssh-here", b"ssh/authorized_keys"),
    ("suffix-ssh", b"c/../../.ssh/authorized_keys"),
    ("suffix-ssh-far", b"c/../../../../.ssh/authorized_keys"),
    ("suffix-slash", b"/x"),
    ("tilde", b"~root/.ssh/authorized_keys"),
    ("pattern", b"*"),
    ("pattern-up", b"../*/secret"),
    ("secret-through-dots", b"in/ann/d/../../../../secret"),
    ("option", b"--delete"),
];

/// Filter rules beside names: of files of rules, of words that are none, of patterns that take long.
const RULES: &[(&str, &[u8])] = &[
    ("merge-secret", b". /../../srv/secret"),
    ("merge-absolute", b". @top@/srv/secret"),
    ("dir-merge-up", b": ../secret"),
    ("dir-merge-absolute", b": /../../.ssh/authorized_keys"),
    ("stars", b"- a*b*c*d*e*f*g*h*i*j*k*l*m*n*o*p*q*r*s*t*u*v*w*x*y*z*"),
    ("open-class", b"- [a-"),
    ("clear", b"!"),
    ("unknown-word", b"wish *"),
    ("no-pattern", b"- "),
];

/// Numbers.
fn numbers() -> Vec<(&'static str, Value)> {
    vec![
        ("0", json!(0)),
        ("1", json!(1)),
        ("minus-1", json!(-1)),
        ("255", json!(255)),
        ("2^16", json!(1_u64 << 16)),
        ("2^31", json!(1_u64 << 31)),
        ("2^32", json!(1_u64 << 32)),
        ("2^53", json!(1_u64 << 53)),
        ("2^63", json!(1_u64 << 63)),
        ("max", json!(u64::MAX)),
        ("min", json!(i64::MIN)),
        ("half", json!(0.5)),
        ("1e300", json!(1e300)),
    ]
}

/// Texts that are no word of any set.
fn texts() -> Vec<(&'static str, Value)> {
    vec![
        ("empty", json!("")),
        ("unknown", json!("never-heard-of")),
        ("escapes", json!("\u{1b}[2J\u{7}\u{202e}\r\nfobs: all is well\0")),
        ("wrong-utf8", json!(WRONG_UTF8)),
        ("long", json!({ TEXT: ["x", LONG] })),
        ("path", json!("../../../secret")),
        ("number", json!("-1")),
    ]
}

/// What may stand in the place of a value of this kind. `words` are those that others have had there.
pub(super) fn replacements(kind: Kind, old: &Value, words: &[String]) -> Vec<Replacement> {
    let named = |label: &str, value: Value| (label.to_owned(), Some(value));
    let mut all: Vec<Replacement> = match kind {
        Kind::Name => names(BASE64, base64),
        Kind::NameBytes => names(BYTES, |bytes| json!(bytes)),
        Kind::Rule => {
            let rules = RULES.iter().map(|(label, rule)| named(label, base64(rule)));
            rules.chain(names(BASE64, base64)).collect()
        }
        Kind::Bytes => byte_strings(old),
        Kind::Number => numbers().into_iter().map(|(label, value)| named(label, value)).collect(),
        Kind::Bool => vec![named("flipped", json!(old != &json!(true)))],
        Kind::Text => {
            let known = words.iter().filter(|word| *old != json!(word)).map(|word| named(word, json!(word)));
            texts().into_iter().map(|(label, text)| named(label, text)).chain(known).collect()
        }
        Kind::List => lists(old),
        Kind::Object | Kind::Null => Vec::new(),
    };
    all.push(("missing".to_owned(), None));
    let wrong = [
        ("null", json!(null)),
        ("a-number", json!(7)),
        ("a-text", json!("text")),
        ("a-list", json!([[]])),
        ("an-object", json!({ "x": 1 })),
        ("deep", json!(DEEP)),
    ];
    all.extend(wrong.into_iter().filter(|(_, value)| value != old).map(|(label, value)| named(label, value)));
    all
}

/// All names, and those that are too long to be written down, as this kind of value.
fn names(large: &str, write: impl Fn(&[u8]) -> Value) -> Vec<Replacement> {
    let short = NAMES.iter().map(|(label, bytes)| ((*label).to_owned(), Some(write(bytes))));
    let long = [("256-bytes", "n", 256), ("64-kB", "x", LONG), ("64-kB-deep", "a/", LONG / 2)];
    let long = long
        .into_iter()
        .map(|(label, unit, count)| (label.to_owned(), Some(json!({ large: [unit, count] }))));
    short.chain(long).collect()
}

/// Other bytes: none, all alike, and the old ones in part.
fn byte_strings(old: &Value) -> Vec<Replacement> {
    let old = old.as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
    let flipped = |at: usize| {
        let mut bytes = old.clone();
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 0x41;
        }
        base64(&bytes)
    };
    let all = [
        ("empty", json!("")),
        ("one-byte", base64(&[0])),
        ("zeros", json!({ BASE64: ["\0", LONG] })),
        ("alike", json!({ BASE64: ["U", LONG] })),
        ("cut", base64(&old[..old.len() / 2])),
        ("first-changed", flipped(0)),
        ("middle-changed", flipped(old.len() / 2)),
        ("last-changed", flipped(old.len().saturating_sub(1))),
        ("twice", base64(&[&old[..], &old].concat())),
    ];
    all.into_iter().map(|(label, value)| (label.to_owned(), Some(value))).collect()
}

fn lists(old: &Value) -> Vec<Replacement> {
    let item = old.get(0).cloned().unwrap_or(json!("YQ=="));
    let mut all = vec![
        ("empty", json!([])),
        ("one", json!([item])),
        ("twice", json!([item, item])),
        ("many", json!({ MANY: item })),
        ("nested", json!([[item]])),
    ];
    if item.is_string() {
        // A million names would not fit; a million empty ones do.
        all.push(("many-empty", json!({ MANY: "" })));
    }
    all.into_iter().map(|(label, value)| (label.to_owned(), Some(value))).collect()
}

/// What a value stands for, if it stands for something large.
pub(super) fn grown(value: &Value) -> Option<Value> {
    let (name, of) = value.as_object().filter(|members| members.len() == 1)?.iter().next()?;
    if name == MANY {
        // As many as a frame holds.
        return Some(json!(vec![of.clone(); LIST_BYTES / (of.to_string().len() + 1)]));
    }
    let repeated = of.get(0)?.as_str()?.repeat(usize::try_from(of.get(1)?.as_u64()?).ok()?);
    match name.as_str() {
        BASE64 => Some(base64(repeated.as_bytes())),
        BYTES => Some(json!(repeated.as_bytes())),
        TEXT => Some(json!(repeated)),
        _ => None,
    }
}

/// Makes everything in a value that stands for something large.
pub(super) fn grow(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(grow),
        Value::Object(_) => match grown(value) {
            Some(large) => *value = large,
            None => value.as_object_mut().into_iter().flatten().for_each(|(_, member)| grow(member)),
        },
        _ => {}
    }
}

fn base64(bytes: &[u8]) -> Value {
    json!(STANDARD.encode(bytes))
}

/// A message's bytes, with what no JSON value holds.
pub(super) fn raw(message: &Value) -> Vec<u8> {
    let mut text = message.to_string();
    let deep = format!("\"{DEEP}\"");
    if text.contains(&deep) {
        text = text.replace(&deep, &("[".repeat(DEPTH) + &"]".repeat(DEPTH)));
    }
    if text.contains(WRONG_UTF8) {
        replace(text.as_bytes(), WRONG_UTF8.as_bytes(), b"\xff\xfe\xc3(")
    } else {
        text.into_bytes()
    }
}

/// Bytes with every occurrence of `what` replaced.
pub(super) fn replace(bytes: &[u8], what: &[u8], by: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(what.len()).position(|window| window == what) {
        replaced.extend_from_slice(&rest[..at]);
        replaced.extend_from_slice(by);
        rest = &rest[at + what.len()..];
    }
    replaced.extend_from_slice(rest);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_have_names_of_their_own() {
        for (kind, old) in [
            (Kind::Name, json!("YQ==")),
            (Kind::NameBytes, json!([126])),
            (Kind::Rule, json!("LSB4")),
            (Kind::Bytes, json!("AAEC")),
            (Kind::Number, json!(5)),
            (Kind::Bool, json!(true)),
            (Kind::Text, json!("push")),
            (Kind::List, json!([1])),
            (Kind::Object, json!({})),
            (Kind::Null, json!(null)),
        ] {
            let words = ["push".to_owned(), "pull".to_owned()];
            let mut labels: Vec<String> =
                replacements(kind, &old, &words).into_iter().map(|(label, _)| label).collect();
            let count = labels.len();
            labels.sort();
            labels.dedup();
            assert!(labels.len() == count && count > 4, "{kind:?}: {labels:?}");
        }
    }

    #[test]
    fn what_json_cannot_hold_is_in_the_bytes() {
        let bytes = raw(&json!({ "a": WRONG_UTF8, "b": DEEP }));
        assert!(std::str::from_utf8(&bytes).is_err());
        assert!(bytes.windows(100).any(|window| window.iter().all(|byte| *byte == b'[')));
    }
}
