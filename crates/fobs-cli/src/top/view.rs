//! What `fobs top` shows, and what its keys do.

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Gauge, Paragraph, Wrap};

use super::row::{Row, RowId};
use crate::live::{Change, Snapshot};
use crate::output::printable;
use crate::units::{fitting, lines_in, shortened, show_share};
use fobs::options::Priority;
use fobs_jobs::{Change as JobChange, JobId};

/// Lines of a copy in the list: title, figures, and an empty one.
const COPY_LINES: u16 = 3;
/// Most lines of the sentence that names the limit.
const LIMIT_LINES_MAX: usize = 8;
/// Columns of a stage's name and of its share.
const NAME_COLUMNS: u16 = 27;
const SHARE_COLUMNS: u16 = 9;
/// Widest line of a part of the time: its share stands near its bar.
const BUDGET_COLUMNS_MAX: u16 = 100;
/// Columns before a title and its figures: a copy's number.
const INDENT: usize = 9;
/// Keys and what they do, each with its rank where not all fit.
const KEYS: &[(usize, &str)] = &[
    (5, "up/down select"),
    (2, "p pause/resume"),
    (1, "r rate"),
    (6, "s scavenger"),
    (4, "f fair"),
    (3, "c cancel"),
    (0, "q quit"),
];
/// Longest rate that is typed, characters.
const TYPED_MAX: usize = 20;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing but to be drawn.
    Stay,
    /// The end.
    Leave,
    /// A copy is to change.
    Change(u32, Change),
    /// A job is to change.
    ChangeJob(JobId, JobChange),
}

/// What is typed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Prompt {
    #[default]
    None,
    /// A rate, so far.
    Rate(String),
    /// Whether the copy or the job is really to end.
    Cancel,
}

/// The rows and the one that keys are for.
#[derive(Debug, Default)]
pub struct View {
    rows: Vec<Row>,
    /// By its number: others come and go.
    selected: Option<RowId>,
    prompt: Prompt,
    said: String,
}

impl View {
    /// The copies and jobs as they stand now.
    pub fn show(&mut self, rows: Vec<Row>) {
        self.rows = rows;
        if self.row().is_none() {
            self.selected = self.rows.first().map(Row::id);
            self.prompt = Prompt::None;
        }
    }

    /// Shows a line until the next key.
    pub fn say(&mut self, line: String) {
        self.said = line;
    }

    /// A key was pressed.
    pub fn press(&mut self, key: KeyEvent) -> Action {
        self.said.clear();
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Action::Leave;
        }
        let Some(id) = self.selected else {
            return if matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                Action::Leave
            } else {
                Action::Stay
            };
        };
        match std::mem::take(&mut self.prompt) {
            Prompt::None => self.command(id, key.code),
            Prompt::Rate(typed) => self.type_rate(id, typed, key.code),
            Prompt::Cancel if key.code == KeyCode::Char('y') => match id {
                RowId::Copy(id) => Action::Change(id, Change::Cancel),
                RowId::Job(id) => Action::ChangeJob(id, JobChange::Cancel),
            },
            Prompt::Cancel => Action::Stay,
        }
    }

    fn command(&mut self, id: RowId, key: KeyCode) -> Action {
        let paused = self.row().is_some_and(Row::is_paused);
        match (key, id) {
            (KeyCode::Char('q') | KeyCode::Esc, _) => return Action::Leave,
            (KeyCode::Up | KeyCode::Char('k'), _) => self.step(-1),
            (KeyCode::Down | KeyCode::Char('j'), _) => self.step(1),
            (KeyCode::Char('c'), _) => self.prompt = Prompt::Cancel,
            (KeyCode::Char(letter), RowId::Copy(id)) => return self.command_copy(id, letter, paused),
            (KeyCode::Char('p'), RowId::Job(id)) => {
                let change = if paused { JobChange::Resume } else { JobChange::Pause };
                return Action::ChangeJob(id, change);
            }
            (KeyCode::Char('r' | 's' | 'f'), RowId::Job(_)) => {
                self.said = "a job has no rate of its own; select its copy".to_owned();
            }
            _ => {}
        }
        Action::Stay
    }

    fn command_copy(&mut self, id: u32, letter: char, paused: bool) -> Action {
        match letter {
            'p' if paused => Action::Change(id, Change::Resume),
            'p' => Action::Change(id, Change::Pause),
            's' => Action::Change(id, Change::Priority(Priority::Scavenger)),
            'f' => Action::Change(id, Change::Priority(Priority::Fair)),
            'r' => {
                self.prompt = Prompt::Rate(String::new());
                Action::Stay
            }
            _ => Action::Stay,
        }
    }

    fn type_rate(&mut self, id: RowId, mut typed: String, key: KeyCode) -> Action {
        match key {
            KeyCode::Enter if typed.is_empty() => return Action::Stay,
            KeyCode::Enter => match format!("rate={typed}").parse() {
                Ok(change) => {
                    // Only a copy is asked for one.
                    let RowId::Copy(id) = id else { return Action::Stay };
                    return Action::Change(id, change);
                }
                Err(why) => self.said = why,
            },
            KeyCode::Esc => {}
            KeyCode::Backspace => {
                typed.pop();
                self.prompt = Prompt::Rate(typed);
            }
            KeyCode::Char(letter) if typed.len() < TYPED_MAX => {
                typed.push(letter);
                self.prompt = Prompt::Rate(typed);
            }
            _ => self.prompt = Prompt::Rate(typed),
        }
        Action::Stay
    }

    fn step(&mut self, by: isize) {
        let next = self.place().saturating_add_signed(by).min(self.rows.len().saturating_sub(1));
        self.selected = self.rows.get(next).map(Row::id);
    }

    /// The place of the selected row.
    fn place(&self) -> usize {
        self.rows.iter().position(|row| Some(row.id()) == self.selected).unwrap_or(0)
    }

    fn row(&self) -> Option<&Row> {
        self.rows.iter().find(|row| Some(row.id()) == self.selected)
    }

    /// Draws everything.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let copy = self.row().and_then(Row::copy);
        let stages = copy.map_or(0, |copy| copy.budget.len() as u16);
        let limit = self.row().map_or_else(String::new, |row| printable(row.limit()));
        // And an empty line before the parts of the time.
        let lines = lines_in(&limit, frame.area().width.into()).min(LIMIT_LINES_MAX) as u16 + 1;
        let [list, sentence, budget, foot] = Layout::vertical([
            Constraint::Fill(1),
            Constraint::Length(if limit.is_empty() && stages == 0 { 0 } else { lines }),
            Constraint::Length(stages),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.draw_list(frame, list);
        frame.render_widget(Paragraph::new(limit).wrap(Wrap { trim: true }), sentence);
        if let Some(copy) = copy {
            draw_budget(frame, budget, copy);
        }
        frame.render_widget(Line::from(self.foot(foot.width.into())).dim(), foot);
    }

    fn draw_list(&self, frame: &mut Frame<'_>, area: Rect) {
        if self.rows.is_empty() {
            frame.render_widget("No copy that you may see runs on this host, and no job waits.", area);
            return;
        }
        let fit = usize::from(area.height / COPY_LINES).max(1);
        let first = (self.place() + 1).saturating_sub(fit);
        let mut text = Text::default();
        for row in &self.rows[first..] {
            let columns = usize::from(area.width).saturating_sub(INDENT);
            let title = format!("{:>7}  {}", row.number(), row.title_in(columns));
            let selected = Some(row.id()) == self.selected;
            text.push_line(if selected {
                Line::from(title).bold().reversed()
            } else {
                Line::from(title).bold()
            });
            text.push_line(format!("{:INDENT$}{}", "", row.figures_in(columns)));
            text.push_line("");
        }
        frame.render_widget(text, area);
    }

    fn foot(&self, columns: usize) -> String {
        match &self.prompt {
            Prompt::Rate(typed) => {
                // What is typed stays in sight.
                let asked = ["highest rate (200M, 1Gbit, none), then Enter: ", "highest rate: ", ""];
                let fits = |asked: &&&str| asked.len() + TYPED_MAX < columns;
                format!("{}{typed}_", asked.iter().find(fits).unwrap_or(&""))
            }
            Prompt::Cancel if matches!(self.selected, Some(RowId::Job(_))) => {
                "cancel this job? y/n".to_owned()
            }
            Prompt::Cancel => "end this copy? y/n".to_owned(),
            Prompt::None if self.said.is_empty() => {
                fitting(KEYS.iter().map(|(rank, key)| (*rank, (*key).to_owned())), columns)
            }
            Prompt::None => shortened(&printable(&self.said), columns),
        }
    }
}

/// The parts of the time as bars.
fn draw_budget(frame: &mut Frame<'_>, area: Rect, copy: &Snapshot) {
    let area = Rect { width: area.width.min(BUDGET_COLUMNS_MAX), ..area };
    for (row, stage) in area.rows().zip(&copy.budget) {
        let [name, bar, share] = Layout::horizontal([
            Constraint::Length(NAME_COLUMNS),
            Constraint::Fill(1),
            Constraint::Length(SHARE_COLUMNS),
        ])
        .areas(row);
        frame.render_widget(printable(&stage.name), name);
        let gauge = Gauge::default()
            .ratio(if stage.share.is_finite() { stage.share.clamp(0.0, 1.0) } else { 0.0 })
            .label("")
            .gauge_style(Style::new().blue());
        frame.render_widget(gauge, bar);
        frame.render_widget(format!(" {}", show_share(stage.share)), share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{Left, Stage};
    use fobs_jobs::{Begin, Figures, JobView, Phase, Reason, Spec, Standing, Word};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn copy(id: u32) -> Snapshot {
        Snapshot {
            id,
            sources: vec!["big.tar".to_owned()],
            destination: "peer:/\x1b[2Jdata".to_owned(),
            bytes: 1_000_000_000,
            bytes_known: 4_000_000_000,
            scan_complete: true,
            rate_bps: 2e8,
            rtt_ms: Some(65.0),
            left: Some(Left { likely_s: 120.0, least_s: 100.0, most_s: Some(150.0) }),
            limit: "75% of the time the network was the limit.".to_owned(),
            budget: vec![
                Stage { name: "network".to_owned(), share: 0.75 },
                Stage { name: "reading".to_owned(), share: f64::NAN },
            ],
            ..Snapshot::default()
        }
    }

    fn drawn(view: &View, columns: u16, rows: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a buffer");
        terminal.draw(|frame| view.draw(frame)).expect("a buffer");
        terminal.backend().to_string()
    }

    fn press(view: &mut View, keys: &[KeyCode]) -> Action {
        keys.iter().fold(Action::Stay, |_, key| view.press(KeyEvent::from(*key)))
    }

    #[test]
    fn copies_are_shown_with_figures_and_budget() {
        let mut view = View::default();
        view.show(Row::all(vec![copy(7), copy(9)], vec![]));
        let screen = drawn(&view, 100, 24);
        for words in [
            "7  big.tar \u{2192} peer:/",
            "25%  1.00 GB  200 Mbit/s  ETA 2:00 (1:40 to 2:30)  RTT 65.0 ms",
            "75% of the time the network",
            "network",
            "75.0%",
            "p pause",
        ] {
            assert!(screen.contains(words), "{words}: {screen}");
        }
        assert!(!screen.contains('\x1b'));
        let wide = drawn(&view, 200, 24);
        let share = wide.lines().find_map(|line| line.find("75.0%")).expect("the network's share");
        assert!(share < usize::from(BUDGET_COLUMNS_MAX) * '\u{2588}'.len_utf8(), "{wide}");
        for (columns, rows) in [(1, 1), (20, 3), (300, 2), (40, 100)] {
            drawn(&view, columns, rows);
        }
        view.show(Row::all(vec![], vec![]));
        assert!(drawn(&view, 80, 5).contains("No copy"));
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole() {
        let mut view = View::default();
        let sources = vec!["a-very-long-name-of-a-file-that-does-not-fit.h5".to_owned()];
        view.show(Row::all(
            vec![Snapshot { sources, destination: "fobs://host/there".to_owned(), ..copy(7) }],
            vec![],
        ));
        for (columns, there, gone) in [
            (
                200,
                &["fit.h5 \u{2192} fobs://host/there", "(1:40 to 2:30)", "loss 0.00%", "f fair"][..],
                "\u{2026}",
            ),
            (60, &["a-very", "\u{2026}", "host/there", "25%", "ETA 2:00", "q quit", "c cancel"], "loss"),
            (40, &["a-very", "/there", "200 Mbit/s", "ETA 2:00", "q quit", "c cancel"], "RTT"),
            (24, &["200 Mbit/s", "q quit"], "ETA"),
        ] {
            let screen = drawn(&view, columns, 24);
            for words in there {
                assert!(screen.contains(words), "{columns}: {words}: {screen}");
            }
            assert!(!screen.contains(gone), "{columns}: {gone}: {screen}");
        }
    }

    #[test]
    fn wide_letters_and_long_sentences_fit_too() {
        let mut view = View::default();
        let limit = "95% of the time the rate that --rate sets, 8.00 Mbit/s, was the limit; the network had at \
                     least 2.56 Mbit/s to spare.";
        let sources =
            vec!["\u{1f600}\u{65e5}\u{672c}\u{8a9e} many letters of two columns \u{1f600}".to_owned()];
        let destination = "fobs://host/\u{1f600}\u{1f600}/the-end".to_owned();
        view.show(Row::all(
            vec![Snapshot { sources, destination, limit: limit.to_owned(), ..copy(7) }],
            vec![],
        ));
        for columns in [40, 41, 60, 80, 200] {
            let screen = drawn(&view, columns, 24);
            for words in ["the-end", "spare.", "network", "q quit"] {
                assert!(screen.contains(words), "{columns}: {words}: {screen}");
            }
        }
        press(&mut view, &[KeyCode::Char('r'), KeyCode::Char('5'), KeyCode::Char('M')]);
        for columns in [24, 40, 80] {
            assert!(drawn(&view, columns, 24).contains("5M_"), "{columns}");
        }
    }

    #[test]
    fn keys_change_the_selected_copy() {
        let mut view = View::default();
        view.show(Row::all(vec![copy(7), copy(9)], vec![]));
        let letter = KeyCode::Char;
        assert_eq!(press(&mut view, &[letter('p')]), Action::Change(7, Change::Pause));
        assert_eq!(
            press(&mut view, &[KeyCode::Down, letter('s')]),
            Action::Change(9, Change::Priority(Priority::Scavenger))
        );
        let rate = [
            letter('r'),
            letter('2'),
            letter('0'),
            letter('x'),
            KeyCode::Backspace,
            letter('M'),
            KeyCode::Enter,
        ];
        assert_eq!(press(&mut view, &rate), Action::Change(9, Change::Rate(Some(20_000_000))));
        assert_eq!(press(&mut view, &[letter('r'), letter('?'), KeyCode::Enter]), Action::Stay);
        assert!(drawn(&view, 120, 10).contains("100M or 10Gbit"), "what is wrong with it is said");
        assert_eq!(press(&mut view, &[letter('c'), letter('n')]), Action::Stay);
        assert_eq!(press(&mut view, &[letter('c'), letter('y')]), Action::Change(9, Change::Cancel));
        view.show(Row::all(vec![Snapshot { paused: true, ..copy(7) }], vec![]));
        assert_eq!(
            press(&mut view, &[letter('p')]),
            Action::Change(7, Change::Resume),
            "the other one ended"
        );
        assert_eq!(press(&mut view, &[letter('q')]), Action::Leave);
    }

    fn job(id: u64, phase: Phase) -> JobView {
        let spec = Spec::new(["cp", "\u{1b}[2Jset", "host:"].map(Word::from).to_vec(), "/".into());
        let standing = Standing { phase, ..Standing::of(Begin::new(&spec, 0)) };
        let figures = (phase == Phase::Running).then(|| Figures {
            bytes: 250_000_000,
            bytes_known: 1_000_000_000,
            rate_bps: 93e6,
            limit: Some("The disk of the source was the limit.".to_owned()),
            ..Figures::default()
        });
        let reason = (phase == Phase::Waiting).then_some(Reason::Total { running: 4 });
        let why = reason.as_ref().map(Reason::to_string);
        JobView {
            id: JobId(id),
            user: None,
            spec,
            submitted_ms: 0,
            standing,
            reason,
            why,
            figures,
            attempts: vec![],
        }
    }

    #[test]
    fn jobs_have_rows_of_their_own() {
        let mut view = View::default();
        view.show(Row::all(vec![copy(7)], vec![job(3, Phase::Waiting), job(4, Phase::Running)]));
        let screen = drawn(&view, 100, 24);
        for words in
            ["job 4  cp", "running: 25%, 250 MB at 93.0 Mbit/s", "waiting: 4 jobs run, which is the limit"]
        {
            assert!(screen.contains(words), "{words}: {screen}");
        }
        assert!(!screen.contains('\x1b'));
        let place = |words: &str| screen.find(words).expect(words);
        assert!(place("7  big") < place("job 4") && place("job 4") < place("job 3"), "{screen}");
        press(&mut view, &[KeyCode::Down]);
        assert!(drawn(&view, 100, 24).contains("The disk of the source"));
        let letter = KeyCode::Char;
        assert_eq!(press(&mut view, &[letter('p')]), Action::ChangeJob(JobId(4), JobChange::Pause));
        assert_eq!(press(&mut view, &[letter('r')]), Action::Stay);
        assert!(drawn(&view, 100, 24).contains("select its copy"));
        assert_eq!(
            press(&mut view, &[KeyCode::Down, letter('c'), letter('y')]),
            Action::ChangeJob(JobId(3), JobChange::Cancel)
        );
        view.show(Row::all(vec![], vec![job(3, Phase::Paused)]));
        assert_eq!(press(&mut view, &[letter('p')]), Action::ChangeJob(JobId(3), JobChange::Resume));
        for (columns, rows) in [(1, 1), (20, 3), (40, 100)] {
            drawn(&view, columns, rows);
        }
    }
}
