//! What a program that watches the destination is told: many take in a file once it is moved to its name, or
//! closed under it. Of a file that is made under its name, or given one by a link, most wait for more.

use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use super::support::*;

/// Files of the tree; the last one has several chunks.
const FILES: usize = 12;

fn name(file: usize) -> String {
    format!("f{file:02}")
}

#[test]
fn a_watcher_sees_each_file_moved_to_its_name_once_it_is_whole() {
    let world = World::new();
    for file in 0..FILES {
        let len = if file + 1 == FILES { 9 << 20 } else { file * file * 1_000 };
        world.write(&format!("d/{}", name(file)), &content(len, file as u64));
    }
    // Some are there already.
    fs::create_dir(world.to("d")).expect("a directory");
    for file in 0..FILES / 2 {
        fs::write(world.to("d").join(name(file)), "from before").expect("a file");
    }
    let watcher = inotify::init(CreateFlags::NONBLOCK).expect("a watcher");
    let watched = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
    inotify::add_watch(&watcher, world.to("d"), watched).expect("a watch");

    copy(&[&world.from("d")], &world.to("")).assert_clean();

    let mut seen: BTreeMap<String, Vec<ReadFlags>> = BTreeMap::new();
    let mut room = [MaybeUninit::uninit(); 1 << 16];
    let mut events = Reader::new(&watcher, &mut room);
    while let Ok(event) = events.next() {
        let name = event.file_name().expect("what is in the directory").to_str().expect("our names");
        seen.entry(name.to_owned()).or_default().push(event.events());
    }
    for file in 0..FILES {
        let told = seen.remove(&name(file)).unwrap_or_default();
        assert_eq!(told, [ReadFlags::MOVED_TO, ReadFlags::CLOSE_WRITE], "{}", name(file));
    }
    // What else was seen had a name of ours until then.
    assert_eq!(seen.len(), FILES, "{seen:?}");
    assert!(seen.keys().all(|name| name.contains(".fobs-")), "{seen:?}");
}
