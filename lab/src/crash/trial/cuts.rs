//! A copy whose destination loses its power, once or several times.

use std::fs::File;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Disk, Figures, KILL_WITHIN_MS, PATIENCE, Place, Route, names, remove, tree};

impl Place {
    /// Pushes something new onto a disk whose power is cut up to `cuts` times, and compares it. What is
    /// served lies on the disk.
    pub fn push_through_cuts(
        &mut self,
        cuts: u64,
        disk: &mut Disk,
        figures: &mut Figures,
    ) -> Result<(), String> {
        let name = format!("copy{}", figures.copies);
        let route = Route { pushes: true, ssh: false };
        let (from, to) = (self.directory.join("local"), self.directory.join("served"));
        let bytes = self.make(&from.join(&name)).map_err(|error| format!("cannot make files: {error}"))?;
        let mut expected = names(&to)?;
        for _ in 0..cuts.min(1 + self.random.below(4)) {
            self.serve(route)?;
            let mut client = self.client(&name, route)?;
            let begin = Instant::now();
            while begin.elapsed() < PATIENCE && !self.has_begun() && matches!(client.0.try_wait(), Ok(None)) {
                sleep(Duration::from_millis(5));
            }
            // Half of them before the journal's first sync, the others anywhere.
            let within = if self.random.below(2) == 0 { KILL_WITHIN_MS / 5 } else { 6 * KILL_WITHIN_MS };
            sleep(Duration::from_millis(self.random.below(within)));
            let is_complete = matches!(client.0.try_wait(), Ok(Some(status)) if status.success());
            disk.cut()?;
            client.kill();
            self.daemon = None;
            disk.come_back()?;
            figures.kills += 1;
            if is_complete {
                // The device was never asked to keep it.
                break;
            }
            figures.resumed += u64::from(self.kept(&to)? > 0);
        }
        self.run_to_the_end(&name, route)?;
        if tree(&from.join(&name))? != tree(&to.join(&name))? {
            return Err(format!("'{name}' differs from its source"));
        }
        expected.push(name.clone());
        expected.sort();
        let mut found = names(&to)?;
        if found == expected {
            found = ours_below(&to.join(&name))?;
            expected.clear();
        }
        if found != expected {
            return Err(format!("the destination holds {found:?}, not {expected:?}"));
        }
        self.daemon = None;
        for top in [&from, &to] {
            remove(&top.join(&name)).map_err(|error| error.to_string())?;
        }
        // Or the next cut brings it back.
        File::open(&to).and_then(|top| top.sync_all()).map_err(|error| error.to_string())?;
        figures.copies += 1;
        figures.bytes += bytes;
        Ok(())
    }
}

/// Names of unfinished files at or below `path`.
fn ours_below(path: &Path) -> Result<Vec<String>, String> {
    let paths = tree(path)?.into_keys();
    let names = paths.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    Ok(names.filter(|name| name.contains(".fobs-")).collect())
}
