//! What a misspelt name was meant to be.

/// How many changed letters make a name a misspelling of another.
const TYPING_ERRORS_MAX: usize = 2;

/// The name that `typed` is probably a misspelling of.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = typed.to_ascii_lowercase().replace('_', "-");
    names
        .map(|name| (strsim::damerau_levenshtein(&plain, name), name))
        .filter(|(errors, name)| *errors <= TYPING_ERRORS_MAX && *errors < name.len().min(plain.len()))
        .min_by_key(|(errors, _)| *errors)
        .map(|(_, name)| name)
}
