//! Recorded windows: one JSON object per line (format: docs/classifier.md).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use fobs_proto::loss_cause::Signature;
use serde::Deserialize;

/// Longest line, bytes: a window of 65,536 runs is below 2 MiB. A longer line is an error.
const LINE_MAX: u64 = 16 << 20;
/// First bytes of a gzip file (RFC 1952).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The label of a window: where its packets were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// At the receiver, which had too little CPU time.
    Cpu,
    /// In the network.
    Net,
    /// At both.
    Hybrid,
}

impl Cause {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Cpu => "cpu",
            Cause::Net => "net",
            Cause::Hybrid => "hybrid",
        }
    }
}

/// A recorded window of packets, with its label.
#[derive(Debug, Clone)]
pub struct Window {
    /// Which packets were lost.
    pub signature: Signature,
    /// Where they were lost; `None` for an unlabelled window.
    pub cause: Option<Cause>,
    /// How the loss was produced; empty if the file does not say.
    pub scenario: String,
    /// Number of the recording or transfer. Windows of one are similar, so validation keeps them together.
    pub run: u64,
    /// Packets that the receiving host's counters report as dropped.
    pub host_lost: Option<u64>,
}

impl Window {
    /// Share of the losses that the network caused, from label or counters; `None` where neither is known.
    pub fn network_share(&self) -> Option<f64> {
        match (self.cause, self.host_lost) {
            (Some(Cause::Cpu), _) => Some(0.0),
            (Some(Cause::Net), _) => Some(1.0),
            (_, Some(host)) => {
                let lost = f64::from(self.signature.lost().max(1));
                Some(((lost - host as f64) / lost).clamp(0.0, 1.0))
            }
            _ => None,
        }
    }

    /// Cut into whole windows of `packets` (0: uncut). A cut window has no `host_lost`: the count covers all
    /// of it.
    pub fn slices(&self, packets: u32) -> Vec<Window> {
        let whole = packets == 0 || self.signature.packets() <= packets;
        let part = |signature| Window {
            signature,
            host_lost: if whole { self.host_lost } else { None },
            ..self.label()
        };
        self.signature.slices(packets).into_iter().map(part).collect()
    }

    fn label(&self) -> Window {
        Window {
            signature: Signature::clean(0),
            cause: self.cause,
            scenario: self.scenario.clone(),
            run: self.run,
            host_lost: None,
        }
    }
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file itself.
    #[error("cannot read {}: {source}; check the path and that the file is whole", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line of it.
    #[error("{}, line {line}: {reason}; correct or remove the line", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 0.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Deserialize)]
struct Line {
    n: u64,
    rle: Vec<u64>,
    #[serde(default = "one")]
    burst: u32,
    cause: Option<Cause>,
    #[serde(default)]
    scenario: String,
    #[serde(default)]
    run: u64,
    host_lost: Option<u64>,
    ovfl: Option<u64>,
}

fn one() -> u32 {
    1
}

/// Iterates over the windows of a file; memory holds one line at a time.
pub struct Windows {
    path: PathBuf,
    lines: Box<dyn BufRead>,
    next: usize,
    failed: bool,
}

impl Windows {
    /// Opens a file, gzipped or not.
    pub fn open(path: &Path) -> Result<Windows, ReadError> {
        let failed = |source| ReadError::File { path: path.to_owned(), source };
        let mut file = BufReader::new(File::open(path).map_err(failed)?);
        let zipped = file.fill_buf().map_err(failed)?.starts_with(&GZIP_MAGIC);
        let lines: Box<dyn BufRead> =
            if zipped { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
        Ok(Windows::new(path, lines))
    }

    /// The windows of these lines; errors name them by `path`.
    pub(crate) fn new(path: &Path, lines: Box<dyn BufRead>) -> Windows {
        Windows { path: path.to_owned(), lines, next: 0, failed: false }
    }

    fn read(&mut self) -> Result<Option<Window>, ReadError> {
        loop {
            let mut text = String::new();
            let read = (&mut self.lines).take(LINE_MAX).read_line(&mut text);
            let len = read.map_err(|source| ReadError::File { path: self.path.clone(), source })?;
            let line = self.next;
            self.next += 1;
            if len == 0 {
                return Ok(None);
            }
            if text.trim().is_empty() {
                continue;
            }
            let bad = |reason| ReadError::Line { path: self.path.clone(), line, reason };
            if len as u64 == LINE_MAX {
                return Err(bad(format!("the line is longer than {LINE_MAX} bytes")));
            }
            return parse(&text).map(Some).map_err(bad);
        }
    }
}

impl Iterator for Windows {
    /// Line number from 0, and the window. An error ends the iteration.
    type Item = Result<(usize, Window), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let window = self.read().transpose()?;
        self.failed = window.is_err();
        Some(window.map(|window| (self.next - 1, window)))
    }
}

fn parse(text: &str) -> Result<Window, String> {
    let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if !line.rle.len().is_multiple_of(2) {
        return Err("`rle` is pairs of gap and length, but it has an odd number of members".to_owned());
    }
    let pairs = line.rle.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    Ok(Window {
        signature: Signature::from_gaps(line.n, line.burst, pairs).map_err(|error| error.to_string())?,
        cause: line.cause,
        scenario: line.scenario,
        run: line.run,
        host_lost: line.host_lost.or(line.ovfl),
    })
}

/// A window as a line of a file, without the newline.
pub fn line(window: &Window) -> String {
    let signature = &window.signature;
    let mut rle = Vec::with_capacity(2 * signature.runs().len());
    let mut position = 0;
    for run in signature.runs() {
        rle.extend([run.start - position, run.len]);
        position = run.end();
    }
    serde_json::json!({
        "cause": window.cause.map(Cause::name),
        "scenario": window.scenario,
        "n": signature.packets(),
        "lost": signature.lost(),
        "burst": signature.burst(),
        "run": window.run,
        "host_lost": window.host_lost,
        "rle": rle,
    })
    .to_string()
}

/// Reads all windows of these files.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Window>, ReadError> {
    let mut windows = Vec::new();
    for path in paths {
        for window in Windows::open(path)? {
            windows.push(window?.1);
        }
    }
    Ok(windows)
}

/// The files of windows (`*.jsonl`, `*.jsonl.gz`) in a directory, by name.
pub fn files_in(directory: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let failed = |source| ReadError::File { path: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    const GOOD: &str = "{\"n\":100,\"rle\":[3,2,10,4],\"burst\":1}\n\n{\"n\":50,\"rle\":[],\"cause\":\"hybrid\",\"scenario\":\"x\",\"host_lost\":3}\n";

    #[test]
    fn plain_and_gzipped_read_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let (plain, zipped) = (directory.path().join("a.jsonl"), directory.path().join("b.jsonl.gz"));
        std::fs::write(&plain, GOOD).expect("written");
        let mut encoder = GzEncoder::new(File::create(&zipped).expect("created"), Compression::fast());
        encoder.write_all(GOOD.as_bytes()).expect("written");
        encoder.finish().expect("finished");
        std::fs::write(directory.path().join("notes.txt"), "no").expect("written");
        for path in files_in(directory.path()).expect("listed") {
            let windows: Vec<_> = Windows::open(&path).expect("opened").map(|w| w.expect("good")).collect();
            assert_eq!(windows.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [0, 2], "{path:?}");
            assert_eq!(windows[0].1.signature.lost(), 6);
            assert_eq!((windows[1].1.cause, windows[1].1.host_lost), (Some(Cause::Hybrid), Some(3)));
        }
        assert_eq!(files_in(directory.path()).expect("listed"), [plain, zipped]);
    }

    #[test]
    fn a_line_reads_back() {
        let signature = Signature::from_gaps(100, 16, [(0, 3), (50, 2)]).expect("good");
        let window = Window {
            signature,
            cause: Some(Cause::Net),
            scenario: "red".to_owned(),
            run: 7,
            host_lost: None,
        };
        let read = parse(&line(&window)).expect("good");
        assert_eq!(
            (read.signature, read.cause, read.scenario, read.run, read.host_lost),
            (window.signature, window.cause, window.scenario, window.run, window.host_lost)
        );
    }

    #[test]
    fn bad_lines_are_named_and_end_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("bad.jsonl");
        for (bad, says) in [
            ("{", "EOF"),
            ("{\"n\":10,\"rle\":[1]}", "odd number"),
            ("{\"n\":10,\"rle\":[5,6],\"burst\":1}", "reach 11"),
            ("{\"n\":-1,\"rle\":[]}", "invalid value"),
            ("{\"n\":9999999999,\"rle\":[]}", "cut it"),
            ("{\"n\":10,\"rle\":[],\"cause\":\"gremlins\"}", "unknown variant"),
        ] {
            std::fs::write(&path, format!("{{\"n\":10,\"rle\":[]}}\n{bad}\n{{\"n\":10,\"rle\":[]}}\n"))
                .expect("written");
            let read: Vec<_> = Windows::open(&path).expect("opened").collect();
            let error = read[1].as_ref().expect_err(bad).to_string();
            assert!(read.len() == 2 && error.contains("line 1") && error.contains(says), "{bad}: {error}");
        }
    }
}
