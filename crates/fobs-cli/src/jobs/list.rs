//! The list of jobs, in the width that there is.

use fobs::Result;
use fobs_jobs::words::{does, percent, title};
use fobs_jobs::{Client, JobView};
use unicode_width::UnicodeWidthStr;

use super::{print, print_json, reach};
use crate::args::jobs::JobsArgs;
use crate::output::{self, printable};
use crate::units::shortened;

/// Jobs that are over and shown without `--all`: the last ones.
const OVER_SHOWN: usize = 10;
/// Columns where standard output is no terminal: programs cut by themselves.
const COLUMNS_ELSEWHERE: usize = 200;
/// From this width on, what a job does stands behind its command.
const COLUMNS_WIDE: usize = 60;

/// Prints the jobs.
///
/// # Errors
/// Where the keeper does not answer, or nothing can be printed.
pub fn run(client: &Client, args: &JobsArgs) -> Result<()> {
    let jobs = reach::asked(client.jobs())?;
    let jobs = if args.all { jobs } else { chosen(jobs) };
    if args.json {
        return jobs.iter().try_for_each(|job| print_json(&serde_json::to_value(job).unwrap_or_default()));
    }
    if jobs.is_empty() {
        output::note("there are no jobs; fobs submit hands one in");
    }
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map(|size| usize::from(size.ws_col));
    let columns = columns.ok().filter(|columns| *columns > 0).unwrap_or(COLUMNS_ELSEWHERE);
    print(&rows(&jobs, columns))
}

/// Those that are not over, and the last ones that are.
fn chosen(jobs: Vec<JobView>) -> Vec<JobView> {
    let (mut over, open): (Vec<JobView>, Vec<JobView>) =
        jobs.into_iter().partition(|job| job.standing.phase.is_final());
    over.sort_by_key(|job| job.standing.ended_ms);
    let hidden = over.len().saturating_sub(OVER_SHOWN);
    let mut shown: Vec<JobView> = over.into_iter().skip(hidden).chain(open).collect();
    shown.sort_by_key(|job| job.id);
    shown
}

/// A line for each.
pub fn rows(jobs: &[JobView], columns: usize) -> String {
    let widest = jobs.iter().map(|job| job.id.to_string().len()).max().unwrap_or(1);
    jobs.iter().map(|job| format!("{}\n", row(job, widest, columns))).collect()
}

fn row(job: &JobView, widest: usize, columns: usize) -> String {
    let head = format!("{:>widest$}  {:<9}", job.id.to_string(), job.standing.phase.name());
    let left = columns.saturating_sub(head.len() + 2);
    let (title, does) = (printable(&title(job)), printable(&does(job)));
    let line = if columns < COLUMNS_WIDE {
        // The number of percent is worth more than a command's end.
        let percent = percent(job).map(|percent| format!("{percent:>3}% ")).filter(|text| text.len() < left);
        let percent = percent.unwrap_or_default();
        format!("{head}  {percent}{}", shortened(&title, left.saturating_sub(percent.len())))
    } else {
        let own = (left / 2).min(title.width().max(20));
        let title = shortened(&title, own);
        let space = " ".repeat(own.saturating_sub(title.width()));
        format!("{head}  {title}{space}  {}", shortened(&does, left.saturating_sub(own + 2)))
    };
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_jobs::{Begin, Figures, JobId, Phase, Reason, Spec, Standing, Word};

    fn job(id: u64, phase: Phase, words: &[&str]) -> JobView {
        let spec = Spec::new(words.iter().map(|word| Word::from(*word)).collect(), "/".into());
        let standing = Standing { phase, ..Standing::of(Begin::new(&spec, 0)) };
        JobView {
            user: None,
            id: JobId(id),
            spec,
            submitted_ms: 0,
            standing,
            reason: None,
            why: None,
            figures: None,
            attempts: vec![],
        }
    }

    fn some() -> Vec<JobView> {
        let long = "sync -a --delete /very/long/path/to/a/directory/データ host.example.org:/an/other/one";
        let mut running = job(7, Phase::Running, &long.split(' ').collect::<Vec<_>>());
        running.figures = Some(Figures {
            bytes: 250_000_000,
            bytes_known: 1_000_000_000,
            rate_bps: 93e6,
            eta_s: Some(64.0),
            ..Figures::default()
        });
        let mut waiting = job(1234, Phase::Waiting, &["cp", "a\x1b[31m", "host:"]);
        waiting.reason = Some(Reason::Total { running: 4 });
        waiting.why = waiting.reason.as_ref().map(Reason::to_string);
        let mut failed = job(3, Phase::Failed, &["cp", "x", "h:"]);
        failed.standing.message = Some("cannot write: Permission denied".to_owned());
        vec![failed, running, waiting]
    }

    #[test]
    fn rows_fit_every_width_and_a_terminal() {
        for columns in [1, 20, 40, 59, 60, 80, 200, 1000] {
            let text = rows(&some(), columns);
            assert_eq!(text.lines().count(), 3, "{columns}");
            assert!(!text.contains('\x1b'), "{text}");
            for line in text.lines() {
                // The number and the phase are shown in any case.
                assert!(line.width() <= columns.max(17), "{columns}: {line}");
            }
        }
    }

    #[test]
    fn a_row_says_what_matters() {
        let text = rows(&some(), 200);
        for said in
            ["25%, 250 MB at 93.0 Mbit/s, 1:04 left", "4 jobs run, which is the limit", "Permission denied"]
        {
            assert!(text.contains(said), "{said}: {text}");
        }
        let narrow = rows(&some(), 40);
        assert!(narrow.contains(" 25% sync"), "{narrow}");
    }
}
