//! The form: its fields become a command line of `fobs submit`, which checks them as it checks a user's.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Problem;
use crate::keeper::Keeper;

/// How long a submission may take: ssh is tried for each host, 10 s each and at once.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often its end is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Most bytes of what it says that are read.
const SAID_BYTES_MAX: u64 = 64 << 10;

/// What a user has filled in; fields that are empty are not chosen.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HandedIn {
    /// The command line, with quotes as a shell has them.
    words: String,
    directory: String,
    name: String,
    label: String,
    after: String,
    at: String,
    between: String,
    every: String,
    deadline: String,
    priority: String,
    retries: String,
    /// What makes the same form, sent twice, one job.
    key: String,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Answer {
    id: u64,
    new: bool,
    /// What its submitter should know.
    notes: String,
}

pub(super) async fn hand_in(
    State(keeper): State<Keeper>,
    body: Result<Json<HandedIn>, JsonRejection>,
) -> Result<Json<Answer>, Problem> {
    let Json(form) = body?;
    let command = form.command(keeper.program())?;
    let ran = tokio::task::spawn_blocking(move || run(command)).await;
    match ran {
        Ok(answer) => answer.map(Json),
        Err(error) => {
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, &format!("a bug in the keeper: {error}")))
        }
    }
}

impl HandedIn {
    /// The command that hands it in. Each value belongs to its option, whatever it begins with.
    fn command(&self, mut command: Command) -> Result<Command, Problem> {
        let refuse = |why: &str| Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why));
        let Some(words) = shlex::split(&self.words).filter(|words| !words.is_empty()) else {
            return refuse(
                "the command has no words, or a quote that is not closed: write cp -r data/ host:/data",
            );
        };
        // `fobs cp ...`, as it stands in a terminal.
        let words = if words[0] == "fobs" { &words[1..] } else { &words[..] };
        if !words.first().is_some_and(|word| crate::job::is_command(word)) {
            return refuse("a job is a cp or a sync: begin the command with one of these words");
        }
        let options = [
            ("name", &self.name),
            ("label", &self.label),
            ("after", &self.after),
            ("at", &self.at),
            ("between", &self.between),
            ("every", &self.every),
            ("deadline", &self.deadline),
            ("priority", &self.priority),
            ("retries", &self.retries),
            ("key", &self.key),
        ];
        command.args(["submit", "--json"]);
        for (name, value) in options.iter().filter(|(_, value)| !value.trim().is_empty()) {
            command.arg(format!("--{name}={}", value.trim()));
        }
        command.args(words);
        let home = std::env::var_os("HOME").unwrap_or_else(|| "/".into());
        let directory = if self.directory.trim().is_empty() { home } else { self.directory.trim().into() };
        if !std::path::Path::new(&directory).is_dir() {
            return refuse(&format!(
                "there is no directory {}: give one of the host that keeps the jobs",
                directory.to_string_lossy()
            ));
        }
        command.current_dir(directory);
        Ok(command)
    }
}

fn run(mut command: Command) -> Result<Answer, Problem> {
    let failed =
        |why: &str| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, &format!("cannot submit: {why}"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(&error.to_string()))?;
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| failed(&error.to_string()))? {
            Some(status) => break status,
            None if begin.elapsed() > PATIENCE => {
                // It may have ended in this moment.
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed("no answer in two minutes; look whether the job is in the list"));
            }
            None => std::thread::sleep(LOOK_EVERY),
        }
    };
    // It says a few lines, which fit into the pipes, and has ended.
    let (said, notes) = (text_of(child.stdout.take()), text_of(child.stderr.take()));
    let notes = notes.lines().map(|line| line.trim_start_matches("fobs: ")).collect::<Vec<_>>().join(" ");
    let taken: Value = serde_json::from_str(&said).unwrap_or_default();
    match (status.success(), taken["id"].as_u64()) {
        (true, Some(id)) => Ok(Answer { id, new: taken["new"] == true, notes }),
        (true, None) => Err(failed("fobs submit has named no job")),
        (false, _) if notes.is_empty() => Err(failed("fobs submit ended without a word")),
        (false, _) => Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, &notes)),
    }
}

fn text_of(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // What was read until it broke is what there is.
    let _ = pipe.map(|pipe| pipe.take(SAID_BYTES_MAX).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(form: &HandedIn) -> Result<Vec<String>, Problem> {
        let command = form.command(Command::new("fobs"))?;
        Ok(command.get_args().map(|word| word.to_string_lossy().into_owned()).collect())
    }

    #[test]
    fn fields_become_options_and_never_others() {
        let form = HandedIn {
            words: "cp -r 'my data' host:/x".to_owned(),
            directory: "/".to_owned(),
            name: "--notify=/bin/evil".to_owned(),
            priority: " 3 ".to_owned(),
            ..HandedIn::default()
        };
        assert_eq!(
            words(&form).expect("a form"),
            [
                "submit",
                "--json",
                "--name=--notify=/bin/evil",
                "--priority=3",
                "cp",
                "-r",
                "my data",
                "host:/x"
            ]
        );
        let typed = HandedIn { words: "fobs sync -a x y".to_owned(), ..form };
        assert_eq!(words(&typed).expect("a form").last().map(String::as_str), Some("y"));
    }

    #[test]
    fn what_is_no_job_is_refused_before_a_program_runs() {
        for text in ["", "  ", "cp 'open", "serve --root /", "--notify=x cp a b", "fobs", "rm -rf /"] {
            let form = HandedIn { words: text.to_owned(), directory: "/".to_owned(), ..HandedIn::default() };
            words(&form).expect_err(text);
        }
        let elsewhere =
            HandedIn { words: "cp a b".to_owned(), directory: "/no/such".to_owned(), ..HandedIn::default() };
        words(&elsewhere).expect_err("no directory");
    }
}
