//! How values are written on the command line: rates and sizes with units, times, points in time.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use fobs::options::flag::{Names, Sizes, Takes};
use jiff::Timestamp;

use super::Chosen;
use crate::endurance::{parse_min_rate, parse_timeout};
use crate::moment::parse_deadline;
use crate::ports::parse_range;
use crate::units::{parse_rate, parse_size};

/// What to say first of a size out of its bounds that was given as a number alone: what it means, and what
/// was probably meant.
fn unitless_size(text: &str, size: u64, sizes: &Sizes) -> String {
    if !text.trim().bytes().all(|byte| byte.is_ascii_digit()) {
        return String::new();
    }
    let fits =
        |factor: u64| size.checked_mul(factor).is_some_and(|size| (sizes.least..=sizes.most).contains(&size));
    let meant = [("MiB", 1 << 20), ("KiB", 1 << 10)].into_iter().find(|(_, factor)| fits(*factor));
    let meant = meant.map_or_else(String::new, |(unit, _)| format!("; write {size}{unit}, perhaps"));
    format!("{size} alone would be {size} bytes{meant}: ")
}

/// A value that was read.
#[derive(Clone)]
pub struct Reading {
    /// In a form that means the same on another host.
    pub text: OsString,
    change: Arc<dyn Fn(&mut Chosen) + Send + Sync>,
}

impl Reading {
    /// Does what it says.
    pub fn apply(&self, to: &mut Chosen) {
        (self.change)(to);
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// Reads a value for an option that changes the `T` at a place of what is chosen.
///
/// # Errors
/// A sentence with what to write instead.
pub fn read<T: Default + 'static>(
    takes: &'static Takes<T>,
    place: fn(&mut Chosen) -> &mut T,
    word: &OsStr,
) -> Result<Reading, String> {
    let text = word.to_str().unwrap_or_default();
    let reading = |text: String, change: Arc<dyn Fn(&mut T) + Send + Sync>| Reading {
        text: text.into(),
        change: Arc::new(move |it| change(place(it))),
    };
    Ok(match takes {
        Takes::Rate(set) => {
            let rate = parse_rate(text)?;
            reading(format!("{rate}bit"), Arc::new(move |it| set(it, rate)))
        }
        Takes::Size(sizes, set) => {
            // Where nothing is a size, it has no unit.
            let size = if sizes.least == 0 && text == "0" { 0 } else { parse_size(text)? };
            if !(sizes.least..=sizes.most).contains(&size) {
                return Err(unitless_size(text, size, sizes) + sizes.wrong);
            }
            reading(size.to_string(), Arc::new(move |it| set(it, size)))
        }
        Takes::Number(least, most, set) => {
            let number = text.parse::<u64>().map_err(|error| error.to_string())?;
            if !(*least..=*most).contains(&number) {
                return Err(format!("{number} is not in {least}..={most}"));
            }
            reading(number.to_string(), Arc::new(move |it| set(it, number)))
        }
        Takes::Time(set) => {
            let time = parse_timeout(text)?;
            reading(time.as_secs().to_string(), Arc::new(move |it| set(it, time)))
        }
        Takes::MinRate(set) => {
            let least = parse_min_rate(text)?;
            let shown = format!("{}bit/{}s", least.bits_per_second, least.over.as_secs());
            reading(shown, Arc::new(move |it| set(it, least)))
        }
        Takes::Moment(set) => {
            let at = parse_deadline(text)?;
            let shown = Timestamp::try_from(at).map_or_else(|_| text.to_owned(), |at| at.to_string());
            reading(shown, Arc::new(move |it| set(it, at)))
        }
        Takes::Ports(set) => {
            let ports = parse_range(text)?;
            reading(ports.to_string(), Arc::new(move |it| set(it, (ports.first, ports.last))))
        }
        Takes::OneOf(_, read) | Takes::Form(read) | Takes::Forms(read) => {
            read(&mut T::default(), text)?;
            let given = text.to_owned();
            // It has been read without an error.
            reading(given.clone(), Arc::new(move |it| drop(read(it, &given))))
        }
        Takes::Text(_, set) | Takes::Texts(set) => {
            let given = text.to_owned();
            reading(given.clone(), Arc::new(move |it| set(it, given.clone())))
        }
        Takes::Path(_, set) => {
            let (text, path) = (word.to_owned(), PathBuf::from(word));
            Reading { text, change: Arc::new(move |it| set(place(it), path.clone())) }
        }
        Takes::Words(_, set) => {
            let word = word.to_owned();
            Reading { text: word.clone(), change: Arc::new(move |it| set(place(it), word.clone())) }
        }
        // They take no value.
        Takes::Switch(_) | Takes::Count(_) => return Err("it takes no value".to_owned()),
    })
}

/// What the parser must know of a value before it is read.
pub struct Form {
    /// What it names.
    pub names: Names,
    /// Whether it can be of any bytes.
    pub is_raw: bool,
    /// Whether it can begin with a hyphen.
    pub may_be_hyphenated: bool,
    /// The names that are possible, each with its help, if there are only these.
    pub one_of: Vec<(&'static str, &'static str)>,
}

/// The form of a row's value.
pub fn form<T>(takes: &Takes<T>) -> Form {
    let (names, is_raw, may_be_hyphenated) = match takes {
        Takes::Path(names, _) => (*names, true, false),
        Takes::Words(names, _) => (*names, true, true),
        Takes::Text(names, _) => (*names, false, false),
        Takes::Forms(_) => (Names::Other, false, true),
        _ => (Names::Other, false, false),
    };
    let one_of = if let Takes::OneOf(all, _) = takes { all() } else { Vec::new() };
    Form { names, is_raw, may_be_hyphenated, one_of }
}
