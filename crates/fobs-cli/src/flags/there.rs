//! What the other side of a sync does and this one does not: `-M`, and what follows rsync in `--rsync-path`.

use fobs::options::sync::RunAs;

use super::Chosen;
use super::words::last_name;

/// Options that one side may have alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct There {
    /// `--fake-super`, or `--super`; none where it is as from here to here.
    pub fake_super: Option<bool>,
    /// `--copy-as`
    pub copy_as: Option<RunAs>,
}

/// Reads `USER[:GROUP]`.
///
/// # Errors
/// A sentence about what is missing.
pub fn account(text: &str) -> Result<RunAs, String> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let is_name = |name: &str| {
        let is_plain = |c: char| c.is_alphanumeric() || "._-$".contains(c);
        !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
    };
    if is_name(user) && group.is_none_or(is_name) {
        Ok(RunAs { user: user.to_owned(), group: group.map(str::to_owned) })
    } else {
        Err("give a user, or a user and a group as in joe:staff".to_owned())
    }
}

/// Takes an option for the other side.
///
/// # Errors
/// A sentence with those that there are.
pub fn option(it: &mut Chosen, text: &str) -> Result<(), String> {
    let there = &mut it.sync.there;
    match text {
        "--fake-super" => there.fake_super = Some(true),
        "--super" | "--no-fake-super" => there.fake_super = Some(false),
        text => match text.strip_prefix("--copy-as=") {
            Some(text) => there.copy_as = Some(account(text)?),
            None => {
                return Err(format!(
                    "{text} is no option that one side has alone: there are --fake-super, --super and \
                     --copy-as=USER; all others hold for both sides, so give it by itself"
                ));
            }
        },
    }
    Ok(())
}

/// Takes a value of `--rsync-path`: what stands before rsync runs our program too, and what follows is for
/// the other side.
///
/// # Errors
/// A sentence, where there is no rsync.
pub fn program(it: &mut Chosen, text: &str) -> Result<(), String> {
    let no_rsync =
        || "it must end in rsync, as in 'sudo rsync'; give --fobs-path for another program".to_owned();
    let is_gap = |c: char| " &;|".contains(c);
    let mut starts = text.match_indices(is_gap).map(|(at, gap)| at + gap.len()).collect::<Vec<_>>();
    starts.push(0);
    starts.sort_unstable();
    let end_of = |start: usize| text[start..].find(is_gap).map_or(text.len(), |len| start + len);
    let at = starts.into_iter().rev().find(|start| last_name(&text[*start..end_of(*start)]) == "rsync");
    let start = at.ok_or_else(no_rsync)?;
    let (before, after) = (&text[..start], &text[end_of(start)..]);
    if after.split(' ').any(|word| !word.is_empty() && !word.starts_with('-')) {
        return Err(no_rsync());
    }
    after.split_whitespace().try_for_each(|word| option(it, word))?;
    it.sync.before_program = before.to_owned();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_rsync_become_ours() {
        let read = |text: &str| {
            let mut it = Chosen::default();
            program(&mut it, text).map(|()| (it.sync.before_program, it.sync.there.fake_super))
        };
        for (text, expected, fake_super) in [
            ("rsync", "", None),
            ("/usr/bin/rsync", "", None),
            ("sudo rsync", "sudo ", None),
            ("sudo -n /usr/local/bin/rsync ", "sudo -n ", None),
            ("mkdir -p /srv/x && rsync", "mkdir -p /srv/x && ", None),
            ("mkdir -p /srv/rsync && rsync", "mkdir -p /srv/rsync && ", None),
            ("ionice -c3 nice -n 19 rsync", "ionice -c3 nice -n 19 ", None),
            ("rsync --fake-super", "", Some(true)),
            ("sudo  rsync  --fake-super --super", "sudo  ", Some(false)),
        ] {
            assert_eq!(read(text), Ok((expected.to_owned(), fake_super)), "{text}");
        }
        for bad in ["", "sudo", "/opt/myrsync.sh", "rsync --server", "rsync && true", "rsync x"] {
            read(bad).expect_err(bad);
        }
    }

    #[test]
    fn accounts_are_names_or_numbers() {
        let group = |text: &str| account(text).map(|it| it.group);
        assert_eq!(group("joe"), Ok(None));
        assert_eq!(group("1000:100"), Ok(Some("100".to_owned())));
        for bad in ["", ":", "joe:", ":staff", "-u", "joe;id", "joe staff"] {
            account(bad).expect_err(bad);
        }
    }
}
