//! What a contest means for one path: how much, from where to where, how long.

use std::time::Duration;

use super::{BYTES_MAX, Contest, Extent, PlannedFlow, PlannedPath, Role};
use crate::link::spec::Way;

impl Contest {
    /// How much a flow of this contest moves over this path: the first of the flow's, the contest's and the
    /// path's own figure.
    pub fn extent(&self, path: &PlannedPath, flow: &PlannedFlow) -> Result<Extent, String> {
        if flow.role == Role::Background {
            return Ok(Extent::Rest);
        }
        let said = [(flow.bytes, flow.duration), (self.bytes, self.duration), (path.bytes, path.duration)];
        match said.into_iter().find(|(bytes, duration)| bytes.is_some() || duration.is_some()) {
            Some((Some(bytes), None)) if (1..=BYTES_MAX).contains(&bytes.bytes()) => {
                Ok(Extent::Bytes(bytes.bytes()))
            }
            Some((Some(bytes), None)) => {
                Err(format!("bytes is {bytes}: 1B to {} GiB are possible", BYTES_MAX >> 30))
            }
            Some((None, Some(duration))) if duration.nanos() > 0 => Ok(Extent::Time(duration.duration())),
            Some((None, Some(_))) => Err("duration is 0".to_owned()),
            Some((Some(_), Some(_))) => Err("there are both bytes and duration: give one of them".to_owned()),
            _ => {
                Err("there is neither bytes nor duration: give one to the contest or to the path".to_owned())
            }
        }
    }

    /// Names of the hosts that a flow's data comes from and goes to.
    pub fn hosts(&self, path: &PlannedPath, flow: &PlannedFlow) -> Result<(String, String), String> {
        let side = |way: Way| match way {
            Way::Forward => &path.spec.hosts.west,
            Way::Backward => &path.spec.hosts.east,
        };
        let find = |key: &str, name: &Option<String>, default: Way| -> Result<(String, Way), String> {
            let Some(name) = name else {
                let first = side(default).first().ok_or("the path has no hosts on one side")?;
                return Ok((first.name.clone(), default));
            };
            let way = Way::BOTH.into_iter().find(|way| side(*way).iter().any(|host| host.name == *name));
            way.map(|way| (name.clone(), way))
                .ok_or_else(|| format!("{key} is {name:?}, which is no host of it"))
        };
        let opposite = |way| if way == Way::Forward { Way::Backward } else { Way::Forward };
        // Whichever end is given decides where the other is looked for.
        let (from, to) = match (&flow.from, &flow.to) {
            (None, Some(_)) => {
                let to = find("to", &flow.to, Way::Backward)?;
                (find("from", &None, opposite(to.1))?, to)
            }
            _ => {
                let from = find("from", &flow.from, Way::Forward)?;
                let to = find("to", &flow.to, opposite(from.1))?;
                (from, to)
            }
        };
        if from.1 == to.1 {
            return Err(format!("from {:?} to {:?} does not cross the link", from.0, to.0));
        }
        Ok((from.0, to.0))
    }

    /// Longest time of a run over this path.
    pub fn timeout(&self, path: &PlannedPath) -> Duration {
        self.timeout.or(path.timeout).unwrap_or_default().duration()
    }

    /// Whether a text given to choose runs chooses those of this contest over a path of that name.
    pub fn chosen_by(&self, text: &str, path: &str) -> bool {
        let names = self.flows.iter().map(|flow| flow.tool.name());
        names.chain([self.label.as_str(), path]).any(|name| name.contains(text))
    }

    /// The direction of a flow's data.
    pub fn way(path: &PlannedPath, from: &str) -> Way {
        let west = path.spec.hosts.west.iter().any(|host| host.name == from);
        if west { Way::Forward } else { Way::Backward }
    }
}
