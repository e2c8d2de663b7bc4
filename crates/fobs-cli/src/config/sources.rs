//! Where settings come from: the two files and the environment, in their order of precedence.

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fobs::options::Carrier;
use fobs::{Error, ErrorKind, Result};

use super::file::{self, Entry, FILE_BYTES_MAX, Value};
use super::hosts::Target;
use super::keys::{self, Key};
use crate::spelling::nearest;

/// The file of the host's administrator.
const SYSTEM_FILE: &str = "/etc/fobs/config.toml";
/// A variable that names another file in place of the user's.
const FILE_VARIABLE: &str = "FOBS_CONFIG";
/// A variable that names another file in place of the host's.
const SYSTEM_FILE_VARIABLE: &str = "FOBS_SYSTEM_CONFIG";
/// How those begin that are our tests'.
const OF_TESTS: &str = "FOBS_TEST_";
/// Of jobs, for the program of their `--notify`.
const OF_JOBS: &str = "FOBS_JOB_";
/// Most variables that a notice names.
const UNKNOWN_NAMED_MAX: usize = 4;
/// Most entries of a file: each is checked before anything starts.
const ENTRIES_MAX: usize = 4096;

/// The places that are looked at.
#[derive(Debug, Default)]
pub struct Places {
    /// The user's file; `None` where the home directory is not known.
    pub user: Option<PathBuf>,
    /// The host's file.
    pub system: PathBuf,
    /// All variables of the environment.
    pub variables: Vec<(OsString, OsString)>,
    /// What `~/` stands for.
    pub home: Option<PathBuf>,
}

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The pattern of the block; `None` above all blocks.
        block: Option<String>,
    },
    /// In this variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Variable(name) => f.write_str(name),
            Origin::File { path, line, block: None } => write!(f, "{}:{line}", path.display()),
            Origin::File { path, line, block: Some(pattern) } => {
                write!(f, "{}:{line} [host.\"{pattern}\"]", path.display())
            }
        }
    }
}

/// A value and its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The key's name.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Where it was set.
    pub origin: Origin,
}

/// Settings of one place that are for some hosts or all.
#[derive(Debug)]
struct Layer {
    /// The pattern of a block.
    pattern: Option<String>,
    settings: Vec<Setting>,
}

/// Everything that is set, in the order of precedence.
#[derive(Debug, Default)]
pub struct Sources {
    layers: Vec<Layer>,
    /// Sentences about variables of ours that set nothing.
    unknown: Vec<String>,
    /// A sentence for each file that may not be read.
    left_out: Vec<String>,
}

/// Whose file it is: nobody's command ends because of what the host's administrator keeps to himself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    User,
    Host,
}

/// Where configurations of this user lie; `None` where the home directory is not known.
pub fn base() -> Option<PathBuf> {
    let given = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    given.or_else(|| std::env::home_dir().map(|home| home.join(".config")))
}

impl Places {
    /// Those of this process.
    pub fn of_this_process() -> Places {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = std::env::home_dir();
        let named = variable(FILE_VARIABLE).map(PathBuf::from);
        Places {
            user: named.or_else(|| base().map(|base| base.join("fobs/config.toml"))),
            system: variable(SYSTEM_FILE_VARIABLE).map_or_else(|| PathBuf::from(SYSTEM_FILE), PathBuf::from),
            variables: std::env::vars_os().collect(),
            home,
        }
    }

    /// The files, the one with the highest precedence first.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.owned_files().map(|(_, path)| path)
    }

    fn owned_files(&self) -> impl Iterator<Item = (Owner, &Path)> {
        let of_user = self.user.iter().map(|path| (Owner::User, path.as_path()));
        of_user.chain([(Owner::Host, self.system.as_path())])
    }

    /// Reads everything. `check` is the option's own check of its value.
    ///
    /// # Errors
    /// `Usage`, with the place of the first mistake.
    pub fn read(
        &self,
        keys: &[Key],
        check: impl Fn(&[String]) -> std::result::Result<(), String>,
    ) -> Result<Sources> {
        let (mut unknown, mut left_out) = (Vec::new(), Vec::new());
        let mut layers = vec![Layer { pattern: None, settings: self.environment(keys, &mut unknown)? }];
        for (owner, path) in self.owned_files() {
            let Some(text) = read_trusted(path, owner, &mut left_out)? else { continue };
            let document = file::parse(&text).map_err(|problem| {
                usage(format!("{}:{}: {}", path.display(), problem.line, problem.message))
            })?;
            let entries =
                document.general.len() + document.blocks.iter().map(|b| b.entries.len()).sum::<usize>();
            if entries > ENTRIES_MAX {
                let path = path.display();
                return Err(usage(format!("{path} sets {entries} values; at most {ENTRIES_MAX} are read")));
            }
            let of_file = |entries: Vec<Entry>, block: Option<&String>| {
                entries
                    .into_iter()
                    .map(|entry| self.setting(path, block, entry, keys))
                    .collect::<Result<Vec<_>>>()
            };
            for block in document.blocks {
                let settings = of_file(block.entries, Some(&block.pattern))?;
                layers.push(Layer { pattern: Some(block.pattern), settings });
            }
            layers.push(Layer { pattern: None, settings: of_file(document.general, None)? });
        }
        for setting in layers.iter().flat_map(|layer| &layer.settings) {
            let key = keys.iter().find(|key| key.name == setting.key);
            let checked = key
                .map_or(Ok(Vec::new()), |key| key.arguments(&setting.value))
                .and_then(|words| check(&words));
            checked.map_err(|why| usage(format!("{}: {why}", setting.origin)))?;
        }
        Ok(Sources { layers, unknown, left_out })
    }

    fn environment(&self, keys: &[Key], notices: &mut Vec<String>) -> Result<Vec<Setting>> {
        let (mut settings, mut strangers) = (Vec::new(), Vec::new());
        for (variable, value) in &self.variables {
            let is_of_ours = |name: &&str| {
                let is_other = [OF_TESTS, OF_JOBS].iter().any(|begin| name.starts_with(begin))
                    || [FILE_VARIABLE, SYSTEM_FILE_VARIABLE].contains(name);
                name.starts_with("FOBS_") && !is_other
            };
            let Some(name) = variable.to_str().filter(is_of_ours) else { continue };
            let Some(key) = keys.iter().find(|key| key.variable() == name) else {
                match meant(name, keys) {
                    Some(meant) => {
                        notices.push(format!("the variable {name} sets nothing; did you mean {meant}?"))
                    }
                    None => strangers.push(name),
                }
                continue;
            };
            let text = value.to_str().ok_or_else(|| usage(format!("the variable {name} is not UTF-8")))?;
            if text.is_empty() {
                continue;
            }
            let value = key.value_of(text).map_err(|why| usage(format!("{name}: {why}")))?;
            settings.push(Setting {
                key: key.name.to_owned(),
                value,
                origin: Origin::Variable(name.to_owned()),
            });
        }
        notices.extend(of_strangers(&strangers));
        Ok(settings)
    }

    fn setting(&self, path: &Path, block: Option<&String>, entry: Entry, keys: &[Key]) -> Result<Setting> {
        let origin = Origin::File { path: path.to_owned(), line: entry.line, block: block.cloned() };
        let Some(key) = keys.iter().find(|key| key.name == entry.key) else {
            return Err(usage(format!(
                "{}:{}: {}",
                path.display(),
                entry.line,
                keys::unknown(&entry.key, keys)
            )));
        };
        let value = match (entry.value, &self.home) {
            (Value::Text(text), Some(home)) if key.is_path && text.starts_with("~/") => {
                Value::Text(home.join(&text[2..]).to_string_lossy().into_owned())
            }
            (value, _) => value,
        };
        Ok(Setting { key: entry.key, value, origin })
    }
}

impl Sources {
    /// What is left out, though the user may count on it: a sentence each.
    pub fn notices(&self) -> impl Iterator<Item = &String> {
        self.unknown.iter().chain(&self.left_out)
    }

    /// The patterns of all blocks.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.layers.iter().filter_map(|layer| layer.pattern.as_deref())
    }

    /// What is set for some hosts only.
    pub fn of_blocks(&self) -> impl Iterator<Item = &Setting> {
        self.layers.iter().filter(|layer| layer.pattern.is_some()).flat_map(|layer| &layer.settings)
    }

    /// Sentences about variables of ours that set nothing.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// What holds for a target: of each key the first value, by precedence.
    pub fn effective(&self, target: &Target) -> Vec<&Setting> {
        let mut found: Vec<&Setting> = Vec::new();
        let layers = self
            .layers
            .iter()
            .filter(|layer| layer.pattern.as_ref().is_none_or(|pattern| target.matches(pattern)));
        for setting in layers.flat_map(|layer| &layer.settings) {
            if !found.iter().any(|earlier| earlier.key == setting.key) {
                found.push(setting);
            }
        }
        found
    }
}

/// Whether a key has a meaning for a carrier.
pub fn fits(key: &Key, carrier: Option<Carrier>) -> bool {
    key.carrier.is_none_or(|of_one| carrier.is_none_or(|carrier| carrier == of_one))
}

/// The variable that was meant: one with nearly these letters, or the beginning of this one.
fn meant(name: &str, keys: &[Key]) -> Option<String> {
    let rest = name.strip_prefix("FOBS_")?;
    let near = nearest(rest, keys.iter().map(|key| key.name));
    let key = keys.iter().find(|key| Some(key.name) == near);
    let begins =
        || keys.iter().filter(|key| name.starts_with(&key.variable())).max_by_key(|key| key.name.len());
    key.or_else(begins).map(Key::variable)
}

/// A sentence for all variables that are like no key's, since another program's may begin so, too.
fn of_strangers(names: &[&str]) -> Option<String> {
    let named = names.iter().take(UNKNOWN_NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(UNKNOWN_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (what, set) = if names.len() == 1 { ("variable", "sets") } else { ("variables", "set") };
    (!names.is_empty())
        .then(|| format!("the {what} {named}{more} {set} nothing; 'fobs config --why' lists what can be set"))
}

/// The text of a file; `None` if it does not exist, or if it is the host's and may not be read. A file can
/// name programs to run, so only its user and root may be able to write it, as ssh requires of its own.
fn read_trusted(path: &Path, owner: Owner, notices: &mut Vec<String>) -> Result<Option<String>> {
    let failed = |why: String| usage(format!("cannot use {}: {why}", path.display()));
    if path == Path::new("/dev/null") {
        return Ok(None);
    }
    let file = match fobs::named::open(path) {
        Ok(file) => file,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) if owner == Owner::Host && error.kind() == std::io::ErrorKind::PermissionDenied => {
            notices.push(format!("{} may not be read by this user and is left out", path.display()));
            return Ok(None);
        }
        Err(error) => return Err(failed(error.to_string())),
    };
    let facts = file.metadata().map_err(|error| failed(error.to_string()))?;
    if !facts.is_file() {
        return Err(failed("it is not a regular file".to_owned()));
    }
    if facts.uid() != 0 && facts.uid() != rustix::process::geteuid().as_raw() {
        return Err(failed("it belongs to another user".to_owned()));
    }
    if facts.mode() & 0o022 != 0 {
        return Err(failed(format!("other users can write it; run chmod go-w {}", path.display())));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| failed("it is not UTF-8".to_owned()))
}

fn usage(message: String) -> Error {
    Error::new(ErrorKind::Usage, message)
}
