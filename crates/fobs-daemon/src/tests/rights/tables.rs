//! The tables that docs/security.md and docs/guide.md print are those of the code.

use fobs_channel::secure::authorized_keys::key_options;
use fobs_model::rights::{Access, Action};

const SECURITY: &str = include_str!("../../../../../docs/security.md");
const GUIDE: &str = include_str!("../../../../../docs/guide.md");

/// The rows of the Markdown table whose header begins so, each as its cells.
fn table(document: &str, header: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = document.lines().skip_while(|line| !line.starts_with(header));
    let first = lines.next().unwrap_or_else(|| panic!("a table that begins with {header:?}"));
    let rows = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells);
    std::iter::once(cells(first)).chain(rows).collect()
}

/// What docs/security.md says that each right allows.
pub(super) fn allowed() -> Vec<(String, Vec<bool>)> {
    let rows = table(SECURITY, "| may |");
    let names = Vec::from_iter(Access::ALL.iter().map(|access| format!("`{}`", access.name())));
    assert_eq!(rows[0][1..], names, "the columns are the rights, in their order");
    let flag = |cell: &String| match cell.as_str() {
        "yes" => true,
        "no" => false,
        other => panic!("{other:?} is neither yes nor no"),
    };
    rows[1..].iter().map(|row| (row[0].clone(), row[1..].iter().map(flag).collect())).collect()
}

/// What docs/security.md says that each request needs: the names of actions.
pub(super) fn needed() -> Vec<(String, Vec<String>)> {
    let rows = table(SECURITY, "| request | needs to |");
    rows[1..].iter().map(|row| (row[0].clone(), row[1].split(", ").map(str::to_owned).collect())).collect()
}

#[test]
fn the_printed_table_of_rights_is_that_of_the_code() {
    let printed = allowed();
    let row = |action| Vec::from_iter(Access::ALL.iter().map(|access| access.allows(action)));
    let code: Vec<_> = Action::ALL.iter().map(|&action| (action.name().to_owned(), row(action))).collect();
    assert_eq!(printed, code);
}

#[test]
fn printed_requests_need_actions_that_exist() {
    let names = Vec::from_iter(Action::ALL.iter().map(|action| action.name()));
    for (request, needs) in needed() {
        for need in needs {
            assert!(names.contains(&need.as_str()), "{request}: {need:?} is no action");
        }
    }
}

#[test]
fn the_guide_lists_every_option_of_a_key() {
    let listed: Vec<String> = table(GUIDE, "| option | the key may |")[1..]
        .iter()
        .flat_map(|row| row[0].split(", ").map(|name| name.trim_matches('`').to_owned()).collect::<Vec<_>>())
        .filter(|name| name != "none")
        .collect();
    let mut known: Vec<String> = key_options().map(|(syntax, _)| syntax.to_owned()).collect();
    for name in &listed {
        assert!(known.contains(name), "{name} is no option");
        known.retain(|it| it != name);
    }
    assert_eq!(known, Vec::<String>::new(), "missing in docs/guide.md");
}
