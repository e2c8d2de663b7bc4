//! The script of a shell: options and subcommands as the parser's own generator writes them, and what asks
//! this program for the rest ([`crate::complete`]).

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;

use super::{NAME, visible};

/// Behind the generated script.
const BASH: &str = include_str!("../complete/scripts/fobs.bash");
const FISH: &str = include_str!("../complete/scripts/fobs.fish");
/// Before the end of the generated script, whose function has another name then.
const ZSH: &str = include_str!("../complete/scripts/fobs.zsh");
/// The head of the generated function, and where its script is run.
const ZSH_HEAD: &str = "_fobs() {";
const ZSH_END: &str = "if [ \"$funcstack[1]\" = \"_fobs\" ]; then";

/// The whole script.
pub(super) fn script(shell: Shell) -> String {
    let mut bytes = Vec::new();
    let shown = shown(shell);
    clap_complete::generate(shell, &mut shown.clone(), NAME, &mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match shell {
        Shell::Bash => text + BASH,
        Shell::Fish => text + FISH,
        Shell::Zsh => text.replacen(ZSH_HEAD, "_fobs_options() {", 1).replacen(
            ZSH_END,
            &format!("{}{ZSH_END}", ZSH.trim_start()),
            1,
        ),
        _ => text,
    }
}

/// The definition with nothing that is hidden: the generator writes hidden options, too.
fn shown(shell: Shell) -> Command {
    let whole = visible();
    let plain = |command: &Command| {
        // bash's script offers the names of arguments as words.
        let is_left_out = |arg: &Arg| arg.is_hide_set() || shell == Shell::Bash && arg.is_positional();
        let args: Vec<Arg> = command.get_arguments().filter(|arg| !is_left_out(arg)).map(bare).collect();
        Command::new(command.get_name().to_owned())
            .version(env!("CARGO_PKG_VERSION"))
            .about(command.get_about().cloned().unwrap_or_default())
            .disable_version_flag(command.is_disable_version_flag_set() || command.get_version().is_none())
            .disable_help_flag(command.is_disable_help_flag_set())
            .args(args)
    };
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .subcommands(whole.get_subcommands().map(plain))
}

/// An argument with what a script needs of it, and no relation to others, which may be hidden.
fn bare(arg: &Arg) -> Arg {
    let mut plain = Arg::new(arg.get_id().clone())
        .action(arg.get_action().clone())
        .help(arg.get_help().cloned().unwrap_or_default())
        .value_hint(arg.get_value_hint());
    if let Some(letter) = arg.get_short() {
        plain = plain.short(letter);
    }
    if let Some(long) = arg.get_long() {
        plain = plain.long(long.to_owned());
        let also = arg.get_visible_aliases().unwrap_or_default().into_iter().map(str::to_owned);
        plain = plain.visible_aliases(also.collect::<Vec<_>>());
    }
    if let Some(names) = arg.get_value_names() {
        plain = plain.value_names(names.to_vec());
    }
    let values = arg.get_possible_values();
    if !values.is_empty() && arg.get_action().takes_values() {
        plain = plain.value_parser(PossibleValuesParser::new(values));
    }
    if arg.is_positional() {
        let many = arg.get_num_args().is_some_and(|count| count.max_values() > 1);
        plain = if many || arg.is_last_set() { plain.num_args(1..) } else { plain }.last(arg.is_last_set());
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    #[test]
    fn scripts_ask_this_program_and_name_nothing_hidden() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = script(shell);
            assert!(text.contains(&format!("fobs complete {shell} --")), "{shell}");
            assert!(!text.contains("[PATH]"), "{shell} offers no placeholder as a word");
            // A help text may name another option.
            let offers = |long: &str| match shell {
                Shell::Bash => text.contains(&format!(" --{long} ")),
                Shell::Zsh => ["[", "="].iter().any(|end| text.contains(&format!("--{long}{end}"))),
                _ => text.contains(&format!(" -l {long} ")),
            };
            let program = Cli::command();
            let commands: Vec<&Command> =
                program.get_subcommands().filter(|command| !command.is_hide_set()).collect();
            let arguments = || commands.iter().flat_map(|command| command.get_arguments());
            let names = |arg: &Arg| -> Vec<String> {
                let also = arg.get_visible_aliases().unwrap_or_default();
                arg.get_long().into_iter().chain(also).map(str::to_owned).collect()
            };
            let shown: Vec<String> = arguments().filter(|arg| !arg.is_hide_set()).flat_map(names).collect();
            let hidden = arguments().filter(|arg| arg.is_hide_set()).filter_map(Arg::get_long);
            let hidden = hidden.filter(|long| !shown.iter().any(|name| name == long));
            let mut count = 0;
            for long in hidden {
                count += 1;
                assert!(!offers(long), "{shell}: --{long} is hidden");
            }
            assert!(count > 20, "{count} hidden options");
            let missing = shown.iter().find(|long| !offers(long));
            assert_eq!(missing, None, "{shell}");
        }
    }

    #[test]
    fn the_script_of_zsh_keeps_the_parsers_function() {
        let text = script(Shell::Zsh);
        let places =
            ["_fobs_options() {", "\n_fobs() {", "_fobs_options \"$@\"", ZSH_END].map(|part| text.find(part));
        assert!(places.iter().all(Option::is_some), "{places:?}");
        assert!(places.is_sorted(), "{places:?}");
    }
}
