//! The progress line on a terminal: file name on the left, cut to fit, figures on the right, and a bar
//! between them where there is room.

use std::time::Duration;

use fobs::event::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::printable::printable_path;
use crate::units::{fitting, show_bytes, show_clock, show_rate, show_share};

/// Columns reserved for the file name; figures that do not fit beside it are left out.
const NAME_COLUMNS_MIN: usize = 8;
/// Columns of the name where a bar follows it.
const NAME_COLUMNS_BAR: usize = 24;
/// A shorter bar tells less than the percentage.
const BAR_COLUMNS_MIN: usize = 10;
/// Columns of a terminal of unknown size.
const COLUMNS_DEFAULT: usize = 80;
/// Redraws per second: smooth for the eye, and few enough for a slow SSH connection.
const DRAWS_PER_SECOND: u8 = 8;
/// From here on the remaining time is shown in days.
const CLOCK_MAX: Duration = Duration::from_secs(99 * 3600);
/// Longest remaining time that is shown: 1,000 years.
const ETA_MAX: Duration = Duration::from_secs(365_000 * 86_400);

/// The line itself, on standard error.
pub struct Bar {
    line: ProgressBar,
    /// Shown until a file is complete: the only one may take hours.
    first: String,
}

impl Bar {
    /// An empty line of a copy whose first source has this name.
    pub fn new(first: &[u8]) -> Bar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND));
        // Nothing until there is progress to show.
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Bar { line: bar, first: printable_path(first) }
    }

    /// Shows the transfer's progress.
    pub fn show(&self, progress: &Progress) {
        self.show_in(progress, columns());
    }

    fn show_in(&self, progress: &Progress, columns: usize) {
        let figures = figures(progress, columns.saturating_sub(NAME_COLUMNS_MIN + 1));
        // The templates are ours and tested; otherwise the default style would show.
        if let Ok(style) = ProgressStyle::with_template(&template(progress, columns, &figures)) {
            self.line.set_style(style);
        }
        self.line.set_message(self.name(progress));
        self.line.set_length(progress.bytes_known.max(1));
        self.line.set_position(progress.bytes.min(progress.bytes_known));
    }

    fn name(&self, progress: &Progress) -> String {
        progress.path.as_deref().map_or_else(|| self.first.clone(), printable_path)
    }

    /// Runs `work` with the line removed from the terminal.
    pub fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        self.line.suspend(work)
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.line.finish_and_clear();
    }
}

/// The name is cut by its width on the terminal, not by its bytes. The figures are part of the template: each
/// change of the line may be drawn, and other figures than the widths are made for would not fit.
fn template(progress: &Progress, columns: usize, figures: &str) -> String {
    let bar = columns.saturating_sub(figures.len() + NAME_COLUMNS_BAR + 2);
    if share(progress).is_some() && bar >= BAR_COLUMNS_MIN {
        format!("{{msg:{NAME_COLUMNS_BAR}!}} {{wide_bar}} {figures}")
    } else {
        let name = columns.saturating_sub(figures.len() + 1).min(2 * NAME_COLUMNS_BAR);
        format!("{{msg:{name}!}} {figures}")
    }
}

fn columns() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => COLUMNS_DEFAULT,
    }
}

/// Percent of the bytes; `None` during the scan, when the total is unknown.
fn share(progress: &Progress) -> Option<u128> {
    let known = u128::from(progress.bytes_known);
    (progress.scan_complete && known > 0).then(|| u128::from(progress.bytes).min(known) * 100 / known)
}

/// The most important figures that fit into `columns`.
fn figures(progress: &Progress, columns: usize) -> String {
    // In the order in which they are shown, with their rank.
    let shown = [
        (2, share(progress).map(|percent| format!("{percent:3}%"))),
        (3, Some(show_bytes(progress.bytes))),
        (0, Some(show_rate(progress.rate_bps))),
        (1, time_left(progress).map(|left| format!("ETA {}", show_time_left(left)))),
        (4, progress.rtt_ms.map(|rtt_ms| format!("RTT {rtt_ms:.1} ms"))),
        (5, Some(format!("loss {}", show_share(progress.loss_rate)))),
        (6, Some(format!("waste {}", show_share(progress.waste)))),
    ];
    fitting(shown.into_iter().filter_map(|(rank, figure)| Some((rank, figure?))), columns)
}

/// A clock, or days.
pub(super) fn show_time_left(left: Duration) -> String {
    if left <= CLOCK_MAX { show_clock(left) } else { format!("{} days", left.as_secs() / 86_400) }
}

/// Remaining time; `None` while the total is unknown or nothing is sent.
pub(super) fn time_left(progress: &Progress) -> Option<Duration> {
    if !progress.scan_complete {
        return None;
    }
    let bits_left = progress.bytes_known.saturating_sub(progress.bytes) as f64 * 8.0;
    Duration::try_from_secs_f64(bits_left / progress.rate_bps).ok().filter(|left| *left <= ETA_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::{Arc, Mutex};

    const HALF: Progress = Progress {
        path: None,
        bytes: 5_000_000_000,
        bytes_known: 10_000_000_000,
        scan_complete: true,
        files: 1,
        rate_bps: 1e9,
        rtt_ms: Some(20.04),
        loss_rate: 0.001,
        waste: 0.0123,
        streams: 0,
    };

    /// The line of the picture, drawn again of its figures: `scripts/pictures.sh` makes it of a real copy.
    #[test]
    fn the_picture_of_the_line_is_current() {
        let picture =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures/progress.svg");
        let picture = std::fs::read_to_string(picture).expect("a file of the clone").replace('\u{a0}', " ");
        let lines: Vec<&str> =
            picture.split('>').filter_map(|part| part.split_once("</text")).map(|part| part.0).collect();
        let line = lines.iter().find(|line| line.contains("ETA")).expect("a progress line");
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, percent, megabytes, "MB", megabits, "Mbit/s", "ETA", _, "RTT", rtt, "ms", ..] = words[..]
        else {
            panic!("{line}")
        };
        let number = |word: &str| word.trim_end_matches('%').parse::<f64>().expect("a number");
        let progress = Progress {
            bytes: (number(megabytes) * 1e6) as u64,
            bytes_known: 60_000_000,
            rate_bps: number(megabits) * 1e6,
            rtt_ms: Some(number(rtt)),
            loss_rate: 0.0,
            waste: 0.0,
            ..HALF
        };
        assert_eq!(share(&progress), Some(number(percent) as u128), "{line}");
        let figures = figures(&progress, COLUMNS_DEFAULT - NAME_COLUMNS_MIN - 1);
        let columns = COLUMNS_DEFAULT - figures.len() - 1;
        assert_eq!(*line, format!("{name:columns$} {figures}"), "scripts/pictures.sh FOBS makes it again");
    }

    #[test]
    fn the_line_names_a_file_before_the_first_is_complete() {
        let bar = Bar::new(b"big\x1b.tar");
        assert_eq!(bar.name(&HALF), "big\\u{1b}.tar");
        let later = Progress { path: Some(b"dir/second".to_vec()), ..HALF };
        assert_eq!(bar.name(&later), "dir/second");
    }

    #[test]
    fn the_templates_are_valid_and_show_a_bar_where_there_is_room() {
        let scanning = Progress { scan_complete: false, ..HALF };
        for (progress, columns, has_bar) in [
            (&HALF, 200, true),
            (&HALF, 120, true),
            (&HALF, 80, false),
            (&HALF, 40, false),
            (&scanning, 200, false),
        ] {
            let figures = figures(progress, columns - NAME_COLUMNS_MIN - 1);
            let template = template(progress, columns, &figures);
            ProgressStyle::with_template(&template).expect("a valid template");
            assert_eq!(template.contains("wide_bar"), has_bar, "{columns}: {template}");
            assert!(template.ends_with(&figures), "{template}");
        }
    }

    /// A terminal of 80 columns that notes what is written.
    #[derive(Debug, Clone, Default)]
    struct Screen(Arc<Mutex<Vec<String>>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            80
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().expect("no test panics here").push(text.to_owned());
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Each step of showing something may be drawn, so each must fit.
    #[test]
    fn no_line_is_wider_than_its_terminal() {
        let screen = Screen::default();
        // Every change is drawn.
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(screen.clone()), 255);
        let bar = Bar { line: ProgressBar::with_draw_target(None, target), first: "x".repeat(60) };
        for (bytes, rtt_ms) in
            [(0, 1.8), (1, 10.0), (9_990_000, 9.2), (5_000_000_000, 250.5), (9, 0.3), (1, 1234.5)]
        {
            bar.show_in(&Progress { rtt_ms: Some(rtt_ms), bytes, ..HALF }, 80);
            std::thread::sleep(Duration::from_millis(20));
        }
        let written = screen.0.lock().expect("no test panics here");
        let lines: Vec<&String> = written.iter().filter(|line| line.contains("bit/s")).collect();
        assert!(lines.len() >= 6, "{written:?}");
        for line in lines {
            assert!(line.chars().count() <= 80 && line.starts_with("xxxxxxxx"), "{line:?}");
        }
    }

    #[test]
    fn figures_that_do_not_fit_are_left_out() {
        let all = " 50%  5.00 GB  1.00 Gbit/s  ETA 0:40  RTT 20.0 ms  loss 0.10%  waste 1.23%";
        let table = [
            (200, all),
            (all.len(), all),
            (all.len() - 1, " 50%  5.00 GB  1.00 Gbit/s  ETA 0:40  RTT 20.0 ms  loss 0.10%"),
            // A terminal of 40 columns.
            (31, " 50%  1.00 Gbit/s  ETA 0:40"),
            (26, "1.00 Gbit/s  ETA 0:40"),
            (11, "1.00 Gbit/s"),
            (4, ""),
            (0, ""),
        ];
        for (columns, line) in table {
            assert_eq!(figures(&HALF, columns), line, "{columns} columns");
        }
        let slow = Progress { rate_bps: 1e5, ..HALF };
        assert_eq!(figures(&slow, 40), " 50%  5.00 GB  100 kbit/s  ETA 4 days");
    }

    #[test]
    fn unknown_figures_are_not_shown() {
        let scanning = Progress { scan_complete: false, rtt_ms: None, ..HALF };
        assert_eq!(figures(&scanning, 200), "5.00 GB  1.00 Gbit/s  loss 0.10%  waste 1.23%");
        assert_eq!(figures(&Progress::default(), 200), "0 bytes  0 bit/s  loss 0.00%  waste 0.00%");
        let nothing_to_do = Progress { scan_complete: true, ..Progress::default() };
        assert_eq!(figures(&nothing_to_do, 30), "0 bytes  0 bit/s  loss 0.00%");
    }

    #[test]
    fn remaining_time_is_shown_only_if_finite() {
        let table = [
            (HALF, Some(40)),
            (Progress { bytes: 10_000_000_000, ..HALF }, Some(0)),
            (Progress { bytes: 11_000_000_000, ..HALF }, Some(0)),
            (Progress { rate_bps: 0.0, ..HALF }, None),
            (Progress { rate_bps: f64::NAN, ..HALF }, None),
            (Progress { rate_bps: -1.0, ..HALF }, None),
            (Progress { rate_bps: 10.0, ..HALF }, Some(4_000_000_000)),
            (Progress { rate_bps: 0.1, ..HALF }, None),
            (Progress { scan_complete: false, ..HALF }, None),
        ];
        for (progress, seconds) in table {
            assert_eq!(time_left(&progress), seconds.map(Duration::from_secs), "{progress:?}");
        }
        let beyond_all = Progress { bytes: u64::MAX, bytes_known: u64::MAX, ..HALF };
        assert!(figures(&beyond_all, 200).starts_with("100%  18.4 EB"));
    }
}
