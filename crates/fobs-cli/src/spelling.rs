//! What a misspelt name was meant to be.

/// How many changed letters make a name a misspelling of another.
const TYPING_ERRORS_MAX: usize = 2;

/// Of names up to this length, two changed letters make another word: `host` is no misspelt `port`.
const SHORT: usize = 5;

/// The name that `typed` is probably a misspelling of.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    within(TYPING_ERRORS_MAX, typed, names)
}

/// The same among many names, of which some are near to any short one.
pub fn nearest_of_many<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    within(if typed.len() > SHORT { TYPING_ERRORS_MAX } else { 1 }, typed, names)
}

fn within<'a>(most: usize, typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = typed.to_ascii_lowercase().replace('_', "-");
    names
        .map(|name| (strsim::damerau_levenshtein(&plain, name), name))
        .filter(|(errors, name)| *errors <= most && *errors < name.len().min(plain.len()))
        .min_by_key(|(errors, _)| *errors)
        .map(|(_, name)| name)
}
