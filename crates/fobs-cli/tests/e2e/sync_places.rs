//! Where a sync puts what it brings.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::{FileType, Mode, XattrFlags, makedev, mknodat, setxattr};

use super::case::Case;
use super::net::Side;
use super::remote::{Carrier, Direction, Route};

#[test]
fn missing_directories_are_made_where_that_is_asked_for() {
    for (carrier, direction) in [
        (Carrier::Ssh, Direction::Push),
        (Carrier::Daemon, Direction::Push),
        (Carrier::Daemon, Direction::Pull),
    ] {
        let case = Case::new("missing_directories_are_made_where_that_is_asked_for");
        let route = Route::open(&case, carrier, direction);
        let source = route.source_path("tree");
        fs::create_dir_all(source.join("d")).expect("our own place");
        fs::create_dir_all(route.target_path("")).expect("our own place");
        fs::write(source.join("d/f"), "content").expect("our own place");
        let run = |options: &[&str], from: &str, to: &str| {
            let options: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
            let mut command = route.sync(&options);
            case.run(command.arg(route.source(from)).arg(route.target(to)))
        };
        run(&["-a"], "tree/", "no/such/place/").expect_code(11);
        assert!(!route.target_path("no").exists());
        run(&["-an", "--mkpath"], "tree/", "no/such/place/").expect_success();
        assert!(!route.target_path("no").exists(), "a dry run makes nothing");
        for _ in ["new", "again"] {
            run(&["-a", "--mkpath", "--delete"], "tree/", "x//y/./z/").expect_success();
            run(&["-a", "--mkpath", "--delete-before"], "tree/", "p/q").expect_success();
            run(&["-t", "--mkpath"], "tree/d/f", "one/two/name").expect_success();
        }
        for path in ["x/y/z/d/f", "p/q/d/f", "one/two/name"] {
            assert_eq!(
                fs::read(route.target_path(path)).expect(path),
                b"content",
                "{carrier:?} {direction:?}"
            );
        }
        // What is in the way stays.
        run(&["-a", "--mkpath"], "tree/", "one/two/name/more/").expect_code(3);
    }
}

fn random(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fobs_rng::Rng::new(seed);
    (0..len).map(|_| random.bits().to_le_bytes()[0]).collect()
}

#[test]
fn a_half_written_file_does_not_replace_its_backup() {
    let case = Case::new("a_half_written_file_does_not_replace_its_backup");
    let (from, to) = (case.local("from"), case.local("to"));
    fs::create_dir_all(&from).expect("our own place");
    fs::create_dir_all(&to).expect("our own place");
    let (old, new) = (random(300_000, 1), random(300_000, 2));
    let run = |more: &[&str]| {
        let mut command = case.fobs(Side::Client);
        command.args(["sync", "-a", "--inplace", "--backup"]).args(more);
        case.run(command.arg(from.join("")).arg(to.join(""))).expect_success()
    };
    let read = |name: &str| fs::read(to.join(name)).unwrap_or_default();
    fs::write(to.join("f"), &old).expect("our own place");
    fs::write(from.join("f"), &new).expect("our own place");
    let inode = fs::metadata(to.join("f")).expect("it is there").ino();
    run(&["-I"]);
    assert!(read("f") == new && read("f~") == old);
    assert_eq!(fs::metadata(to.join("f")).expect("it is there").ino(), inode, "it is the same file");

    // A run that is killed while it writes leaves this.
    let half = [&new[..150_000], &old[150_000..]].concat();
    fs::write(to.join("f"), &half).expect("our own place");
    if setxattr(to.join("f"), "user.fobs.writing", b"1 2 3", XattrFlags::empty()).is_err() {
        println!("SKIPPED: no extended attributes here, so files are replaced");
        return;
    }
    run(&["-I"]);
    assert!(read("f") == new && read("f~") == old, "the backup is the older version, not the half");
    // The mark is gone: the next version gets a backup of this one.
    fs::write(from.join("f"), b"newest").expect("our own place");
    run(&["-I"]);
    assert!(read("f") == b"newest" && read("f~") == new);
}

#[test]
fn one_directory_keeps_unfinished_files_of_all() {
    let case = Case::new("one_directory_keeps_unfinished_files_of_all");
    let (from, to, kept) = (case.local("from"), case.local("to"), case.local("kept"));
    fs::create_dir_all(from.join("d/e")).expect("our own place");
    fs::create_dir_all(&kept).expect("our own place");
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o700)).expect("our own place");
    let content = random(1_000_000, 3);
    fs::write(from.join("d/e/f"), &content).expect("our own place");
    fs::write(kept.join("f"), &content[..400_000]).expect("our own place");
    let run = |options: &[&str]| {
        let mut command = case.fobs(Side::Client);
        command.args(["sync", "-a", "--stats", "--no-whole-file"]).args(options);
        case.run(command.arg(from.join("")).arg(to.join(""))).expect_success()
    };
    let kept_word = format!("--partial-dir={}", kept.display());
    let done = run(&[&kept_word]).said();
    assert!(fs::read(to.join("d/e/f")).expect("it was stored") == content);
    assert!(!kept.join("f").exists(), "what was made use of goes");
    let matched = done.lines().find_map(|line| line.strip_prefix("Matched data: ")).expect("a figure");
    let matched: u64 =
        matched.replace(',', "").split(' ').next().expect("a number").parse().expect("a number");
    assert!(matched > 300_000, "{done}");
    // Files that wait for the end: of two with one name, one does not wait.
    fs::create_dir_all(from.join("g")).expect("our own place");
    fs::write(from.join("g/f"), "other").expect("our own place");
    fs::write(from.join("d/e/f"), "changed").expect("our own place");
    run(&[&kept_word, "--delay-updates"]);
    for (path, text) in [("g/f", "other"), ("d/e/f", "changed")] {
        assert_eq!(fs::read_to_string(to.join(path)).expect(path), text);
    }
    assert_eq!(fs::read_dir(&kept).expect("it stays").count(), 0);
}

#[test]
fn one_file_replaces_a_special_one_as_in_a_tree() {
    for (carrier, direction) in [(Carrier::Ssh, Direction::Push), (Carrier::Ssh, Direction::Pull)] {
        let case = Case::new("one_file_replaces_a_special_one_as_in_a_tree");
        let route = Route::open(&case, carrier, direction);
        fs::create_dir_all(route.source_path("")).expect("our own place");
        fs::write(route.source_path("f"), "content").expect("our own place");
        fs::create_dir_all(route.source_path("d/sub")).expect("our own place");
        let top = route.target_path("");
        fs::create_dir_all(&top).expect("our own place");
        let directory = fs::File::open(&top).expect("our own place");
        for (special, device) in [
            (FileType::RegularFile, 0),
            (FileType::Fifo, 0),
            (FileType::Socket, 0),
            (FileType::CharacterDevice, makedev(1, 3)),
            (FileType::BlockDevice, makedev(7, 99)),
        ] {
            for (source, options) in [
                ("f", &["-t"][..]),
                ("f", &["-a"]),
                ("f", &["-a", "--inplace"]),
                ("f", &["-an"]),
                ("d", &["-a"]),
                ("d", &["-r", "--delete", "--force"]),
            ] {
                let place = top.join("there");
                let _ = fs::remove_file(&place);
                match mknodat(&directory, "there", special, Mode::RUSR | Mode::WUSR, device) {
                    Err(rustix::io::Errno::PERM) => {
                        println!("SKIPPED: devices, which this user may not make");
                        continue;
                    }
                    made => made.expect("it is made"),
                }
                let words: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
                let mut command = route.sync(&words);
                let run = case.run(command.arg(route.source(source)).arg(route.target("there")));
                let now = FileType::from_raw_mode(fs::symlink_metadata(&place).expect("it is there").mode());
                let what = format!("{direction:?} {special:?} {source} {options:?}: {run:?}");
                assert_eq!(run.code == Some(0), source == "f", "{what}");
                if source == "d" || options == ["-an"] {
                    assert_eq!(now, special, "{what}");
                } else {
                    assert_eq!(now, FileType::RegularFile, "{what}");
                    assert!(fs::read(&place).expect("our own") == b"content", "{what}");
                }
            }
        }
    }
}

/// As a disk image is kept small: what is full there gets holes where zeros come.
#[test]
fn zeros_become_holes_of_a_file_that_stays() {
    let case = Case::new("zeros_become_holes_of_a_file_that_stays");
    let (from, to) = (case.local("from"), case.local("to"));
    fs::create_dir_all(&from).expect("our own place");
    fs::create_dir_all(&to).expect("our own place");
    let data = random(300_000, 3);
    let wanted = [&data[..], &vec![0; 2 << 20], &data[..], &vec![0; 1_000_001]].concat();
    fs::write(from.join("f"), &wanted).expect("our own place");
    // A file system without holes keeps the bytes.
    let hole = fs::File::create(from.join("hole")).and_then(|file| file.set_len(1 << 20).map(|()| file));
    let has_holes = hole.and_then(|file| file.metadata()).is_ok_and(|stat| stat.blocks() == 0);
    fs::remove_file(from.join("hole")).expect("our own place");
    for old in [vec![1; wanted.len()], wanted.clone(), vec![2; 5 << 20], data.clone(), Vec::new()] {
        fs::write(to.join("f"), &old).expect("our own place");
        let inode = fs::metadata(to.join("f")).expect("it is there").ino();
        let mut command = case.fobs(Side::Client);
        command.args(["sync", "-aIS", "--inplace"]);
        case.run(command.arg(from.join("")).arg(to.join(""))).expect_success();
        assert!(fs::read(to.join("f")).expect("it is there") == wanted);
        let stat = fs::metadata(to.join("f")).expect("it is there");
        assert_eq!(stat.ino(), inode, "it is the same file");
        let allocated = stat.blocks() * 512;
        assert!(!has_holes || allocated < 700_000, "{allocated} bytes of {}", old.len());
    }
}
