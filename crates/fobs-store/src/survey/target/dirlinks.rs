//! `-K`: a link of the destination that leads to a directory stands for it, where a source has a directory.

use rustix::fs::FileType;
use rustix::io::Errno;

use super::Target;
use crate::at;
use crate::beneath::kind;
use crate::dirlinks::Dirlinks;
use crate::held::{is_shared, is_trusted};
use crate::view::View;
use fobs_filter::path;
use fobs_filter::path::show;
use fobs_model::budget::MemoryBudget;
use fobs_model::options::sync::SyncOptions;

/// Most links that lead to one another.
const LINKS_MAX: usize = 8;

impl Target {
    /// Looks where a link leads that has the name of the directory that comes next; `may_be` says whether a
    /// place was asked for. One that is not followed does not make way: what it leads to may be anywhere.
    pub(in crate::survey) fn look_through(&mut self, path: &[u8], may_be: impl FnOnce(&[u8]) -> bool) {
        self.led = self.place_of_link(path).and_then(|place| match place {
            Some(place) if !may_be(&place) => Err(not_entered(path, "what it leads to was not asked for")),
            place => Ok(place),
        });
    }

    /// Has a path stand for the directory that the link leads to.
    ///
    /// # Errors
    /// Why the link is not followed, a sentence.
    pub(super) fn through_link(&mut self, path: &[u8]) -> Result<(), String> {
        let led = std::mem::replace(&mut self.led, Ok(None))?;
        let Some((view, place)) = self.view.as_ref().zip(led) else { return Ok(()) };
        if view.leads(path, &place) { Ok(()) } else { Err(not_entered(path, "there is no room for more")) }
    }

    fn place_of_link(&mut self, path: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let is_asked = self.options.rules.keeps_dirlinks && !self.left_out();
        let Some(view) = self.view.as_mut().filter(|_| is_asked) else { return Ok(None) };
        let place = view.place(path).into_owned();
        if !view.stat_at(&place).is_ok_and(|stat| kind(&stat) == FileType::Symlink) {
            return Ok(None);
        }
        led_to(view, &place).map_err(|why| not_entered(path, why))
    }
}

fn not_entered(path: &[u8], why: &str) -> String {
    let shown = show(path);
    format!("cannot enter '{shown}': it is a symbolic link, and {why}; what lies in it is left out")
}

/// Why a directory above a name is not made where something else has its name.
pub(super) fn not_followed(path: &[u8]) -> String {
    let shown = show(path);
    format!(
        "'{shown}' is no directory: no link of the destination is followed, and --no-implied-dirs leaves it"
    )
}

/// What a dry run looks at, which has no sink that knows of links.
pub(super) fn through_links(
    view: Option<View>,
    options: &SyncOptions,
    budget: &MemoryBudget,
) -> Option<View> {
    let is_told = options.dry_run && options.rules.keeps_dirlinks;
    view.map(|view| if is_told { view.through(Some(Dirlinks::within(budget))) } else { view })
}

/// The path of the directory that a link leads to; none for one that leads to something else and makes way.
fn led_to(view: &mut View, place: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    let mut at = place.to_vec();
    for _ in 0..LINKS_MAX {
        let stat = match view.stat_at(&at) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(_) => return Err("it leads through another link or to what cannot be looked at"),
        };
        match kind(&stat) {
            FileType::Directory if at.is_empty() || place == at || path::is_inside(place, &at) => {
                return Err("it leads back to a directory above it");
            }
            FileType::Directory => return Ok(Some(at)),
            FileType::Symlink => {}
            _ => return Ok(None),
        }
        let Ok((parent, name)) = path::split_name(&at) else { return Ok(None) };
        let directory = view.hold(parent).map_err(|_| "its directory cannot be held")?;
        if !is_trusted(&stat) || is_shared(&*directory) {
            return Err("another user may have put it there");
        }
        let target = at::read_link(&*directory, name).map_err(|_| "it cannot be read")?;
        at = joined(parent, &target).ok_or("it leads out of the destination")?;
    }
    Err("it leads to too many others")
}

/// Where a link's target is, below the top; `None` outside.
fn joined(parent: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    if target.starts_with(b"/") {
        return None;
    }
    let mut components: Vec<&[u8]> = parent.split(|&byte| byte == b'/').filter(|it| !it.is_empty()).collect();
    for component in target.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => drop(components.pop()?),
            name => components.push(name),
        }
    }
    Some(components.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn targets_are_resolved_below_the_top() {
        for (parent, target, place) in [
            (&b"a/b"[..], &b"../c"[..], Some(&b"a/c"[..])),
            (b"", b"x/./y//", Some(b"x/y")),
            (b"a", b"..", Some(b"")),
            (b"a", b"../..", None),
            (b"", b"/etc", None),
        ] {
            assert_eq!(joined(parent, target).as_deref(), place);
        }
    }
}
