//! Every committed plan is read, checked and multiplied out, as `fobs-lab run --dry-run` does; nothing is
//! run.

use std::path::Path;
use std::process::Command;

#[test]
fn every_committed_plan_makes_sense() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
    let mut plans = 0;
    for entry in folder.read_dir().unwrap() {
        let plan = entry.unwrap().path();
        let run = Command::new(env!("CARGO_BIN_EXE_fobs-lab"))
            .args(["run", "--dry-run"])
            .arg(&plan)
            .output()
            .unwrap();
        let (said, complaint) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert!(run.status.success(), "{}: {complaint}", plan.display());
        assert!(said.lines().count() > 0, "{} runs nothing", plan.display());
        let text = std::fs::read_to_string(&plan).unwrap();
        let name = plan.file_stem().unwrap().to_string_lossy();
        assert!(text.contains(&format!("name = \"{name}\"\n")), "{name}: the plan's name is not its file's");
        assert!(text.contains("[[figure]]"), "{name} shows nothing");
        plans += 1;
    }
    assert!(plans > 0, "there are no plans in {}", folder.display());
}
