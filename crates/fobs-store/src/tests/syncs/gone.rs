//! Files that go while a sync runs.

use super::*;

#[test]
fn a_file_that_goes_before_it_is_read_keeps_nothing_from_deletion() {
    let world = World::new();
    for when in ALL_MOMENTS {
        world.write("tree/a", b"a");
        world.write("tree/b", &content(3_000_000, 1));
        for name in ["a", "extra", "in/extra"] {
            write(&world.to(name), "of old");
        }
        let sources = [slash(&world.from("tree"))];
        let goes = |at: usize| {
            if at == usize::MAX {
                fs::remove_file(world.from("tree/a")).expect("it is there");
            }
        };
        let synced = sync_while((&sources, &world.to("")), &options(when), TOLD, &goes);
        assert_eq!(synced.failures, ["file has vanished: 'a'"], "{when:?}");
        // What it was is kept: the listing had it.
        assert_eq!(paths(&world.to("")), ["a", "b"], "{when:?}");
        assert_eq!(fs::read_to_string(world.to("a")).expect("a file"), "of old");
        fs::remove_file(world.to("b")).expect("it came");
    }
}

#[test]
fn what_goes_while_it_is_listed_was_never_there() {
    let world = World::new();
    let names: Vec<String> = (0..200).map(|at| format!("f{at}")).collect();
    let sources = [slash(&world.from("tree"))];
    for when in [DeleteWhen::During, DeleteWhen::After] {
        names.iter().for_each(|name| drop(world.write(&format!("tree/{name}"), b"new")));
        fs::create_dir_all(world.from("tree/d/in")).expect("a directory");
        write(&world.to("extra"), "of old");
        let goes = |at: usize| {
            if at == 1 {
                let _ = fs::remove_dir_all(world.from("tree/d"));
                names
                    .iter()
                    .for_each(|name| fs::remove_file(world.from(&format!("tree/{name}"))).expect("it"));
            }
        };
        let synced = sync_while((&sources, &world.to("")), &options(when), TOLD, &goes);
        let told = |failure: &String| failure.starts_with("file has vanished: 'f");
        assert!(synced.failures.iter().all(told), "{when:?}: {synced:?}");
        // Those of the first batch were listed; of the others nothing is said.
        assert!(synced.failures.len() < names.len(), "{when:?}: {synced:?}");
        assert!(synced.gone.contains(&"extra".to_owned()), "{when:?}: {synced:?}");
    }
}
