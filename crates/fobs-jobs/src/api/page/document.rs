//! The document: headings, lists that the script fills, and the form.

use axum::http::StatusCode;
use axum::response::Response;
use fobs_page::STYLE;
use maud::{Markup, PreEscaped, html};

use super::{Problem, html as respond};
use crate::job::{NAME_BYTES_MAX, PRIORITY_MAX, PRIORITY_MIN, RETRIES_MAX};
use crate::secret;

const OWN_STYLE: &str = include_str!("jobs.css");
const SCRIPT: &str = include_str!("jobs.js");

/// The page, with nothing of any job in it.
///
/// Of scripts and styles, those alone count that have this answer's number; it talks to its own origin alone,
/// sends no form, and nobody can put it into a frame.
pub(super) async fn document() -> Result<Response, Problem> {
    let nonce =
        secret::new().map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))?;
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    );
    Ok(respond(page(&nonce).into_string(), &policy))
}

fn page(nonce: &str) -> Markup {
    html! {
        (PreEscaped("<!doctype html>\n"))
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Jobs of fobs" }
                style nonce=(nonce) { (PreEscaped(STYLE)) (PreEscaped(OWN_STYLE)) }
            }
            body {
                main {
                    h1 { "Jobs" }
                    noscript { p { "This page needs its script; fobs jobs shows the same on a terminal." } }
                    p #link role="status" { "Asking the keeper of jobs." }
                    p #said role="status" aria-live="polite" {}
                    p #failed role="alert" {}
                    (form())
                    (list("running", "Running", "Nothing runs."))
                    (list("waiting", "Waiting", "Nothing waits."))
                    (list("over", "Over", "No job is over."))
                }
                script nonce=(nonce) { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

fn list(id: &str, title: &str, empty: &str) -> Markup {
    let heading = format!("{id}-heading");
    html! {
        section aria-labelledby=(heading) {
            h2 id=(heading) { (title) " " span.count id={ (id) "-count" } {} }
            ul.jobs id=(id) data-empty=(empty) role="list" {}
        }
    }
}

/// A field of the form: its name is the option of `fobs submit`.
struct Field {
    name: &'static str,
    label: &'static str,
    hint: &'static str,
}

/// What is rarely chosen.
const MORE: &[Field] = &[
    Field { name: "label", label: "Label", hint: "jobs of each label have the same share" },
    Field { name: "after", label: "After job", hint: "the number of one that must succeed first" },
    Field { name: "at", label: "Not before", hint: "2h or 2026-11-23T06:00" },
    Field { name: "between", label: "Only between", hint: "20:00-06:00" },
    Field { name: "every", label: "Again every", hint: "1d or 6h" },
    Field { name: "deadline", label: "Ended by", hint: "2h or 2026-11-23T06:00" },
];

fn form() -> Markup {
    html! {
        details #new {
            summary { "Hand a job in" }
            form #hand-in autocomplete="off" {
                (text(&Field {
                    name: "words",
                    label: "Command",
                    hint: "as on a command line: cp -r data/ host:/data, or sync -a data/ host:data",
                }, true))
                (text(&Field {
                    name: "directory",
                    label: "Directory",
                    hint: "in which relative paths begin; the home directory if empty",
                }, false))
                (text(&Field { name: "name", label: "Name", hint: "for lists" }, false))
                details {
                    summary { "When and how often" }
                    div.more {
                        @for field in MORE { (text(field, false)) }
                        (number("priority", "Priority", PRIORITY_MIN.into(), PRIORITY_MAX.into(), "0"))
                        (number("retries", "Retries", 0, RETRIES_MAX.into(), "50"))
                    }
                }
                button type="submit" { "Hand in" }
            }
        }
    }
}

fn text(field: &Field, is_required: bool) -> Markup {
    let (id, hint) = (format!("field-{}", field.name), format!("hint-{}", field.name));
    // A command line may be long; a name is one of a list.
    let letters = if field.name == "words" || field.name == "directory" { 100_000 } else { NAME_BYTES_MAX };
    html! {
        div.field {
            label for=(id) { (field.label) }
            input type="text" id=(id) name=(field.name) maxlength=(letters) required[is_required]
                aria-describedby=(hint) autocapitalize="off" spellcheck="false";
            small id=(hint) { (field.hint) }
        }
    }
}

fn number(name: &str, label: &str, least: i64, most: i64, usual: &str) -> Markup {
    let id = format!("field-{name}");
    html! {
        div.field {
            label for=(id) { (label) }
            input type="number" id=(id) name=(name) min=(least) max=(most) placeholder=(usual);
        }
    }
}
