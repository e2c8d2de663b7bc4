//! Manual pages: what the definition of the command line says, and what a page has beside its options.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::NAME;
use crate::exit;

/// A term of a section, the pages that have it, and what it is.
type Term = (&'static str, &'static [&'static str], &'static str);

/// Pages of commands that call another host and read the configuration.
const CALLERS: &[&str] = &["cp", "sync", "doctor", "pipe", "config"];

const ENVIRONMENT: &[Term] = &[
    (
        "FOBS_OPTION",
        CALLERS,
        "The default of an option: FOBS_RATE is that of --rate. Items of a list stand on lines of their own.",
    ),
    ("FOBS_CONFIG", CALLERS, "Another file in place of the user's configuration; /dev/null for none."),
    ("FOBS_SYSTEM_CONFIG", CALLERS, "Another file in place of the host's configuration; /dev/null for none."),
    ("RSYNC_RSH", &["sync"], "The remote shell, where -e does not name one."),
    ("CVSIGNORE", &["sync"], "Patterns that -C leaves out, beside its own."),
    (
        "XDG_CONFIG_HOME, XDG_STATE_HOME",
        &["cp", "sync", "doctor", "pipe", "submit", "jobs", "config", "keygen", "clean", "serve"],
        "Directories in place of ~/.config and ~/.local/state.",
    ),
    (
        "XDG_RUNTIME_DIR",
        &["cp", "sync", "top", "ctl"],
        "Directory in which running copies answer fobs top and fobs ctl, in place of /run/user/UID.",
    ),
    (
        "FOBS_JOB_ID, FOBS_JOB_NAME, FOBS_JOB_COMMAND, FOBS_JOB_PHASE, FOBS_JOB_EXIT_CODE, FOBS_JOB_MESSAGE",
        &["submit"],
        "Set for the program of --notify: the job that has ended.",
    ),
    ("NOTIFY_SOCKET", &["serve"], "Where systemd is told that the daemon is ready, and how it is."),
    (
        "JOURNAL_STREAM",
        &["serve"],
        "Set where systemd's journal takes the log: lines have no time of their own.",
    ),
    ("PATH", &["cluster"], "Where the program fobs-cluster of the Python package is looked for."),
];

const FILES: &[Term] = &[
    ("~/.config/fobs/config.toml", CALLERS, "The user's defaults of options, for all hosts or some."),
    ("/etc/fobs/config.toml", CALLERS, "Those of the host, after the user's."),
    (
        "~/.config/fobs/identity",
        &["cp", "sync", "doctor", "pipe", "keygen", "serve"],
        "The private key for daemons, as fobs keygen makes it.",
    ),
    (
        "~/.config/fobs/known_hosts",
        &["cp", "sync", "doctor", "pipe"],
        "The keys of daemons, each pinned when it was first seen.",
    ),
    (
        "~/.local/state/fobs/",
        &["cp", "sync", "doctor", "pipe", "clean"],
        "What was learned of paths and losses, and the hosts to which fobs may send itself.",
    ),
    ("~/.local/state/fobs/jobs/", &["submit", "jobs"], "The jobs of this user, and what they have said."),
    (
        "/run/user/UID/fobs/jobs.socket, /tmp/fobs-UID/jobs.socket",
        &["submit", "jobs"],
        "Where the keeper of jobs answers its user and root.",
    ),
    (
        "/run/user/UID/fobs/PID.sock, /tmp/fobs-UID/PID.sock",
        &["cp", "sync", "top", "ctl"],
        "Where a running copy answers fobs top and fobs ctl of its user and of root.",
    ),
];

/// Those of the program's own page.
const PROGRAM_EXAMPLES: &str = "\
Examples:
  fobs cp -rp data/ host:data             a tree to another host, over ssh
  fobs sync -a --delete data/ host:data   only what changed, with rsync's letters
  fobs doctor host:                       what will limit copies to it, and what would help
  fobs keygen                             a key for daemons (fobs serve, fobs://host/path)";

/// Of a page without a term of a section.
const NONE: &[(&str, &str)] = &[
    ("ENVIRONMENT", "No variable changes what it does."),
    ("FILES", "It reads and writes what its command line names, and standard input and output."),
];

/// Programs beside ours.
const RELATED: &[(&str, &[&str])] =
    &[("ssh(1)", &["cp", "sync", "doctor"]), ("scp(1)", &["cp"]), ("rsync(1)", &["sync"])];

/// Every page: its name and its roff.
pub fn pages(visible: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut root = visible.disable_help_subcommand(true);
    root.build();
    let commands: Vec<&Command> = std::iter::once(&root).chain(root.get_subcommands()).collect();
    let names: Vec<String> = commands.iter().map(|command| name(command)).collect();
    commands.iter().map(|command| Ok((name(command), page(command, &names)?))).collect()
}

fn name(command: &Command) -> String {
    match command.get_name() {
        NAME => NAME.to_owned(),
        of => format!("{NAME}-{of}"),
    }
}

fn page(command: &Command, names: &[String]) -> io::Result<Vec<u8>> {
    let source = format!("{NAME} {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone().display_name(name(command))).source(source);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    match name(command).as_str() {
        NAME => man.render_subcommands_section(&mut text)?,
        // These have no pages of their own.
        _ if command.has_subcommands() => commands_of(command).to_writer(&mut text)?,
        _ => {}
    }
    // The program's own help ends with the exit codes.
    let after_help = command.get_after_help().map(ToString::to_string);
    let examples = after_help.filter(|text| !text.starts_with(exit::HEADING));
    kept_lines(examples.as_deref().unwrap_or(PROGRAM_EXAMPLES)).to_writer(&mut text)?;
    exit_status(command).to_writer(&mut text)?;
    for (heading, terms) in [("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)] {
        terms_of(command, heading, terms).to_writer(&mut text)?;
    }
    see_also(command, names).to_writer(&mut text)?;
    Ok(text)
}

/// The commands of a command, each with its arguments and options.
fn commands_of(command: &Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["COMMANDS"]);
    let value = |argument: &clap::Arg| {
        let names = argument.get_value_names().unwrap_or_default().iter().map(|name| name.to_string());
        names.collect::<Vec<_>>().join(" ")
    };
    for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        let mut head = one.get_name().to_owned();
        for argument in one.get_positionals() {
            let more =
                if argument.get_num_args().is_some_and(|count| count.max_values() > 1) { "..." } else { "" };
            head += &format!(" {}{more}", value(argument));
        }
        term(&mut roff, &head, &one.get_about().map(ToString::to_string).unwrap_or_default());
        let own = one.get_opts().filter(|option| !option.is_hide_set() && !option.is_global_set());
        for option in own {
            let Some(long) = option.get_long() else { continue };
            roff.control("RS", []);
            let help = option.get_help().map(ToString::to_string).unwrap_or_default();
            term(&mut roff, format!("--{long} {}", value(option)).trim_end(), &help);
            roff.control("RE", []);
        }
    }
    roff
}

/// The end of the help as a section: `Examples:`, then lines that are kept as they are.
fn kept_lines(after_help: &str) -> Roff {
    let mut lines = after_help.lines();
    let heading = lines.next().unwrap_or_default().trim_end_matches(':').to_uppercase();
    let mut roff = Roff::new();
    roff.control("SH", [heading.as_str()]);
    roff.control("nf", []);
    for line in lines {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff
}

fn exit_status(command: &Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    let of_sync = name(command) == "fobs-sync";
    let rows: Vec<_> = if of_sync { crate::sync::exit::codes().collect() } else { exit::codes().collect() };
    for (code, meaning) in rows {
        term(&mut roff, &code.to_string(), meaning);
    }
    if name(command) == "fobs-explain" {
        roff.control("PP", []);
        roff.text([roman("With a COMMAND, its own exit code.")]);
    }
    roff
}

fn terms_of(command: &Command, heading: &str, terms: &[Term]) -> Roff {
    let page = name(command);
    let page = page.strip_prefix("fobs-").unwrap_or(&page);
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    let of_page = terms.iter().filter(|(_, pages, _)| page == NAME || pages.contains(&page));
    let mut any = false;
    for (name, _, what) in of_page {
        term(&mut roff, name, what);
        any = true;
    }
    if let Some((_, sentence)) = NONE.iter().find(|(of, _)| !any && *of == heading) {
        roff.text([roman(*sentence)]);
    }
    roff
}

fn see_also(command: &Command, names: &[String]) -> Roff {
    let own = name(command);
    let page = own.strip_prefix("fobs-").unwrap_or(&own);
    let ours = names.iter().filter(|name| **name != own).map(|name| format!("{name}(1)"));
    let related = RELATED.iter().filter(|(_, pages)| page == NAME || pages.contains(&page));
    let all: Vec<String> = ours.chain(related.map(|(name, _)| (*name).to_owned())).collect();
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(all.join(", "))]);
    roff
}

fn term(roff: &mut Roff, name: &str, what: &str) {
    roff.control("TP", []);
    roff.text([bold(name)]);
    roff.text([roman(what)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_page_of_jobs_describes_each_of_its_commands() {
        let pages = pages(super::super::visible()).expect("roff");
        let (_, text) = pages.iter().find(|(name, _)| name == "fobs-jobs").expect("a page");
        let text = String::from_utf8(text.clone()).expect("UTF-8").replace("\\-", "-");
        for part in [".SH COMMANDS", "cancel ID...", "show ID", "--older-than TIME", "--port PORT"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("fobs-jobs-"), "pages that there are not: {text}");
    }

    #[test]
    fn every_page_has_the_sections_of_a_manual() {
        for (name, text) in pages(super::super::visible()).expect("roff") {
            let text = String::from_utf8(text).expect("UTF-8");
            let at = |heading: &str| text.find(&format!(".SH {heading}"));
            let wanted =
                ["NAME", "SYNOPSIS", "EXAMPLES", "\"EXIT STATUS\"", "ENVIRONMENT", "FILES", "\"SEE ALSO\""];
            let places: Vec<_> = wanted.iter().map(|heading| at(heading)).collect();
            assert!(places.iter().all(Option::is_some), "{name}: {wanted:?} at {places:?}");
            assert!(places.is_sorted(), "{name}: {wanted:?} at {places:?}");
            for section in text.split(".SH ").skip(1) {
                assert!(section.trim().lines().count() > 1, "{name}: an empty section: {section}");
            }
        }
    }

    #[test]
    fn terms_are_those_of_pages_that_exist() {
        let program = Cli::command();
        let pages = ENVIRONMENT.iter().chain(FILES).flat_map(|(_, pages, _)| *pages);
        for page in pages.chain(RELATED.iter().flat_map(|(_, pages)| *pages)) {
            assert!(program.find_subcommand(page).is_some(), "{page}");
        }
    }
}
