//! Reads result files, plain or compressed with gzip; errors name file and line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;

use crate::record::{Header, Record, Run, SCHEMA, Skip};

use super::figure::Shown;

/// Maximum length of a line, bytes: a run of eight flows with ten points a second for ten minutes has about 2
/// MB.
const LINE_MAX_BYTES: u64 = 64 << 20;
/// Maximum number of records in a file: the largest plan has about 2000 runs.
const RECORDS_MAX: usize = 100_000;

/// The content of a result file.
#[derive(Debug)]
pub struct Results {
    /// The file's first line.
    pub header: Header,
    /// The figures and bars of its plan.
    pub shown: Shown,
    /// All runs in order of execution, including invalid ones.
    pub runs: Vec<Run>,
    /// Contests that were skipped.
    pub skips: Vec<Skip>,
}

/// Why a file is not a result file: one sentence with file and line.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file or a line of it could not be read.
    #[error("cannot read {}: {error}", file.display())]
    Io { file: PathBuf, error: std::io::Error },
    /// A line is not a valid record.
    #[error("{}:{line}: {what}", file.display())]
    Line { file: PathBuf, line: usize, what: String },
}

/// Reads a file. Each line must be a record, the first one a header with a known schema.
pub fn results(file: &Path) -> Result<Results, ReadError> {
    let io = |error| ReadError::Io { file: file.to_owned(), error };
    let wrong = |line, what: String| ReadError::Line { file: file.to_owned(), line, what };
    let mut input = open(file).map_err(io)?;
    let mut next = |number: usize| -> Result<Option<String>, ReadError> {
        let mut line = Vec::new();
        let read = input.by_ref().take(LINE_MAX_BYTES).read_until(b'\n', &mut line).map_err(io)?;
        if read == 0 {
            return Ok(None);
        }
        if line.pop_if(|last| *last == b'\n').is_none() && read as u64 == LINE_MAX_BYTES {
            return Err(wrong(
                number,
                format!("the line is longer than {} MiB; this is not a result file", LINE_MAX_BYTES >> 20),
            ));
        }
        let text = String::from_utf8(line);
        text.map(Some)
            .map_err(|_| wrong(number, "the line is not text; this is not a result file".to_owned()))
    };

    let first =
        next(1)?.ok_or_else(|| wrong(1, "the file is empty; fobs-lab run has written nothing".to_owned()))?;
    let header = header(&first).map_err(|what| wrong(1, what))?;
    let shown: Shown = toml::from_str(&header.plan)
        .map_err(|error| wrong(1, format!("the plan in the header cannot be shown: {}", error.message())))?;
    let mut results = Results { header, shown, runs: Vec::new(), skips: Vec::new() };
    for number in 2.. {
        let Some(line) = next(number)? else { break };
        if number > RECORDS_MAX {
            return Err(wrong(number, format!("there are more than {RECORDS_MAX} records; split the file")));
        }
        match Record::from_line(&line) {
            Ok(Record::Run(run)) => results.runs.push(*run),
            Ok(Record::Skip(skip)) => results.skips.push(skip),
            Ok(Record::Header(_)) => {
                let what = "a second header; give files that were written one after the other separately";
                return Err(wrong(number, what.to_owned()));
            }
            Err(error) => {
                let what = format!("this is no record ({error}); the file is damaged from here on");
                return Err(wrong(number, what));
            }
        }
    }
    Ok(results)
}

/// Magic bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

fn open(file: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut plain = BufReader::new(File::open(file)?);
    Ok(if plain.fill_buf()?.starts_with(&GZIP) {
        Box::new(BufReader::new(MultiGzDecoder::new(plain)))
    } else {
        Box::new(plain)
    })
}

/// The header, if its schema is known; checked first, since a newer header may have another form.
fn header(line: &str) -> Result<Header, String> {
    #[derive(Deserialize)]
    struct First {
        kind: String,
        schema: Option<u32>,
    }
    let damaged = |error: serde_json::Error| format!("this is no header of a result file ({error})");
    let first: First = serde_json::from_str(line).map_err(damaged)?;
    if first.kind != "header" {
        return Err(format!(
            "the first record is a {}, not a header; the beginning of the file is missing",
            first.kind
        ));
    }
    match first.schema {
        Some(SCHEMA) => {}
        Some(schema) => {
            return Err(format!(
                "the file has schema {schema}, and this program reads {SCHEMA}; use the program that wrote it"
            ));
        }
        None => return Err("the header has no schema; this is not a result file".to_owned()),
    }
    match Record::from_line(line).map_err(damaged)? {
        Record::Header(header) => Ok(*header),
        Record::Run(_) | Record::Skip(_) => Err("the first record is not a header".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn error_of(content: &[u8]) -> String {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("r.jsonl");
        std::fs::write(&file, content).unwrap();
        let error = results(&file).unwrap_err().to_string();
        error.replace(&format!("{}/", directory.path().display()), "")
    }

    #[test]
    fn invalid_files_are_refused_with_the_line() {
        let sample = sample::lines();
        let header = sample.lines().next().unwrap();
        let newer = header.replacen(&format!("\"schema\":{SCHEMA}"), "\"schema\":99", 1);
        assert_ne!(newer, header);
        let run = sample.lines().nth(1).unwrap();
        for (content, beginning) in [
            (String::new(), "r.jsonl:1: the file is empty"),
            ("\n".to_owned(), "r.jsonl:1: this is no header of a result file ("),
            ("hello\n".to_owned(), "r.jsonl:1: this is no header of a result file ("),
            ("[1]\n".to_owned(), "r.jsonl:1: this is no header of a result file ("),
            (format!("{run}\n"), "r.jsonl:1: the first record is a run, not a header"),
            (newer, "r.jsonl:1: the file has schema 99, and this program reads 1"),
            ("{\"kind\":\"header\"}".to_owned(), "r.jsonl:1: the header has no schema"),
            (format!("{header}\n{header}\n"), "r.jsonl:2: a second header"),
            (format!("{header}\n{run}\n{}", &run[..run.len() / 2]), "r.jsonl:3: this is no record ("),
            (format!("{header}\n{{\"kind\":\"walk\"}}\n"), "r.jsonl:2: this is no record ("),
        ] {
            let error = error_of(content.as_bytes());
            assert!(error.starts_with(beginning), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        assert!(error_of(b"\xff\xfe\n").starts_with("r.jsonl:1: the line is not text"));
        let missing = results(Path::new("no such file.jsonl")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read no such file.jsonl: "), "{missing}");
    }

    #[test]
    fn compressed_files_are_read_and_truncated_ones_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (plain, packed) = (directory.path().join("r.jsonl"), directory.path().join("r.jsonl.gz"));
        std::fs::write(&plain, sample::lines()).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, sample::lines().as_bytes()).unwrap();
        let bytes = encoder.finish().unwrap();
        std::fs::write(&packed, &bytes).unwrap();
        assert_eq!(results(&packed).unwrap().runs, results(&plain).unwrap().runs);
        std::fs::write(&packed, &bytes[..bytes.len() / 2]).unwrap();
        assert!(results(&packed).unwrap_err().to_string().starts_with("cannot read "));
    }

    #[test]
    fn a_damaged_file_never_panics() {
        let sample = sample::lines().into_bytes();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("r.jsonl");
        for cut in (0..sample.len()).step_by(sample.len() / 97) {
            let mut damaged = sample.clone();
            damaged[cut] = b'"';
            std::fs::write(&file, &damaged).unwrap();
            let _ = results(&file);
            std::fs::write(&file, &sample[..cut]).unwrap();
            let _ = results(&file);
        }
    }
}
