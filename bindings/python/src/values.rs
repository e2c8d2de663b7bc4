//! Results as Python objects. The package makes its own types of them.

use crate::lent::Pieces;
use fobs::{Entry, EntryKind, HashedFile, Link, Progress, Result, SignedTicket, Summary};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

/// What a job returns.
pub(crate) enum Value {
    Nothing,
    Flag(bool),
    Count(u64),
    Bytes(Pieces),
    /// Values of the pieces of a file.
    Values(Vec<[u8; 32]>),
    Entries(Vec<Entry>),
    /// Files that are in place, with their hashes.
    Fetched(Vec<Entry>),
    Hashed(Vec<Result<HashedFile>>),
    Ticket(SignedTicket),
    Summary(Box<Summary>),
    /// Of a stream: exit code, bytes that were sent, and that came.
    StreamEnd(u8, u64, u64),
}

/// Of a transfer.
pub(crate) fn summary(summary: fobs::Summary) -> Value {
    Value::Summary(Box::new(summary))
}

impl Value {
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Value::Nothing => py.None(),
            Value::Flag(flag) => flag.into_pyobject(py)?.to_owned().into_any().unbind(),
            Value::Count(count) => count.into_pyobject(py)?.into_any().unbind(),
            Value::Bytes(bytes) => bytes.into_python(py)?,
            Value::Values(values) => {
                let values = values.iter().map(|value| PyBytes::new(py, value));
                PyList::new(py, values.collect::<Vec<_>>())?.into_any().unbind()
            }
            Value::Entries(entries) => {
                let list = PyList::empty(py);
                for entry in entries {
                    list.append(entry_of(py, &entry)?)?;
                }
                list.into_any().unbind()
            }
            Value::Fetched(entries) => {
                // Without a hash it is something that did not come, with the reason.
                let files = entries.iter().map(|entry| {
                    let text = entry.link.as_ref().map(|link| &link.text[..]);
                    let root = entry.root.as_ref().map(|root| &root[..]).or(text);
                    let is_file = entry.kind == EntryKind::File;
                    (
                        PyBytes::new(py, &entry.name),
                        entry.size,
                        root.map(|root| PyBytes::new(py, root)),
                        is_file,
                    )
                });
                PyList::new(py, files.collect::<Vec<_>>())?.into_any().unbind()
            }
            Value::Hashed(files) => {
                let list = PyList::empty(py);
                for file in files {
                    match file {
                        Ok(file) => list.append(hashed_of(py, &file)?)?,
                        Err(error) => list.append(error.message)?,
                    }
                }
                list.into_any().unbind()
            }
            Value::Ticket(SignedTicket { text, host, port, key }) => {
                (text, host, port, key.to_string()).into_pyobject(py)?.into_any().unbind()
            }
            Value::Summary(summary) => summary_of(py, &summary)?.into_any().unbind(),
            Value::StreamEnd(code, sent, came) => (code, sent, came).into_pyobject(py)?.into_any().unbind(),
        })
    }
}

/// Name, kind, size, time in nanoseconds, mode, inode; of a link its text and what it leads to.
fn entry_of<'py>(py: Python<'py>, entry: &Entry) -> PyResult<Bound<'py, PyAny>> {
    let kind = match entry.kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Link => "link",
        EntryKind::Other => "other",
    };
    let name = PyBytes::new(py, &entry.name);
    let link = match &entry.link {
        Some(Link { text, leads_to }) => {
            let leads_to = leads_to.as_ref().map(|entry| entry_of(py, entry)).transpose()?;
            Some((PyBytes::new(py, text), leads_to))
        }
        None => None,
    };
    let time = nanoseconds(entry.mtime_s, entry.mtime_ns);
    Ok((name, kind, entry.size, time, entry.mode, entry.inode, link).into_pyobject(py)?.into_any())
}

/// Size, time in nanoseconds, mode, hash, values of the pieces.
fn hashed_of<'py>(py: Python<'py>, file: &HashedFile) -> PyResult<Bound<'py, PyAny>> {
    let values = PyList::new(py, file.values.iter().map(|value| PyBytes::new(py, value)))?;
    let time = nanoseconds(file.mtime_s, file.mtime_ns);
    Ok((file.size, time, file.mode, PyBytes::new(py, &file.root), values).into_pyobject(py)?.into_any())
}

/// A file system with times beyond 2262 is not worth a wider number.
fn nanoseconds(seconds: i64, nanoseconds: u32) -> i64 {
    let time = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    i64::try_from(time).unwrap_or(i64::MAX)
}

pub(crate) fn progress_of<'py>(py: Python<'py>, progress: &Progress) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("path", progress.path.as_ref().map(|path| PyBytes::new(py, path)))?;
    dict.set_item("bytes", progress.bytes)?;
    dict.set_item("bytes_known", progress.bytes_known)?;
    dict.set_item("scan_complete", progress.scan_complete)?;
    dict.set_item("files", progress.files)?;
    dict.set_item("rate_bps", progress.rate_bps)?;
    dict.set_item("rtt_ms", progress.rtt_ms)?;
    dict.set_item("loss_rate", progress.loss_rate)?;
    dict.set_item("waste", progress.waste)?;
    Ok(dict)
}

fn summary_of<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("bytes", summary.bytes)?;
    dict.set_item("resumed_bytes", summary.resumed_bytes)?;
    dict.set_item("files", summary.files)?;
    dict.set_item("seconds", summary.seconds)?;
    dict.set_item("seconds_total", summary.seconds_total)?;
    dict.set_item("goodput_bps", summary.goodput_bps)?;
    dict.set_item("packets_needed", summary.packets_needed)?;
    dict.set_item("packets_sent", summary.packets_sent)?;
    dict.set_item("waste", summary.waste)?;
    dict.set_item("rtt_ms_min", summary.rtt_ms_min)?;
    dict.set_item("loss_rate", summary.loss_rate)?;
    dict.set_item("packet_size", summary.packet_size)?;
    dict.set_item("cc", &summary.cc)?;
    dict.set_item("transport", &summary.transport)?;
    dict.set_item("streams", summary.streams)?;
    dict.set_item("cipher", &summary.cipher)?;
    dict.set_item("root", &summary.root)?;
    dict.set_item("deletions_left", summary.deletions_left)?;
    let errors = summary.errors.iter().map(|failed| (PyBytes::new(py, &failed.path), &failed.message));
    dict.set_item("errors", PyList::new(py, errors.collect::<Vec<_>>())?)?;
    Ok(dict)
}
