//! Tables that are committed and reviewed like code: `tests/golden/NAME.txt`. `FOBS_GOLDEN=write` writes them anew.

use std::path::PathBuf;

/// Compares a table with the committed one, line by line.
pub fn compare(name: &str, table: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var("FOBS_GOLDEN").is_ok_and(|what| what == "write") {
        std::fs::write(&path, table).expect("the golden table can be written");
    }
    let golden =
        std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("tests/golden/{name}.txt does not exist"));
    for (got, wanted) in table.lines().zip(golden.lines()) {
        assert_eq!(got, wanted, "if that is better, write the table anew with FOBS_GOLDEN=write");
    }
    assert_eq!(table.lines().count(), golden.lines().count(), "the table has other rows");
}
