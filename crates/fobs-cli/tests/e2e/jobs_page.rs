//! `fobs jobs page`, in a browser.

use std::time::{Duration, Instant};

use super::case::{Case, fobs_path};
use super::files::write_random;
use super::needs;
use super::net::Side;

/// What drives the browser.
const PERSON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/jobs_page.py");
/// Set, the directory into which pictures of the page are written, to be looked at.
const PICTURES: &str = "FOBS_TEST_PICTURES";

#[test]
fn a_person_uses_the_page_of_jobs() {
    if !needs::given("a_person_uses_the_page_of_jobs") {
        return;
    }
    let mut case = Case::new("a_person_uses_the_page_of_jobs");
    // A browser on a machine that tests something else beside it.
    case.deadline = Instant::now() + Duration::from_secs(600);
    write_random(&case.local("large"), 200 << 20, &mut case.random());
    let mut person = case.command(Side::Client, "python3");
    person.arg(PERSON).arg(fobs_path()).arg(case.path("local"));
    if let Some(folder) = std::env::var_os(PICTURES) {
        person.arg(folder);
    }
    let said = case.run(&mut person);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
}
