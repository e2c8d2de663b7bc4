//! A sync of one tree to another as both ends of a session do it, with all that a delta may have beside it.

use super::*;

/// How a run differs from the ordinary one.
pub(super) struct Play<'p> {
    pub(super) alter: fn(&mut SyncOptions),
    pub(super) key: NameKey,
    pub(super) terms: Terms,
    /// Data of a chunk, bytes.
    pub(super) data_max: usize,
    pub(super) beside: Beside,
    /// How files of one length may be listed.
    pub(super) cutting: Cutting,
    /// Ends after this number of chunks.
    pub(super) chunks: usize,
    /// Called with the number of each chunk before it is stored.
    pub(super) between: &'p mut dyn FnMut(usize),
}

impl<'p> Play<'p> {
    /// A sync of files by their content, to its end.
    pub(super) fn ordinary(between: &'p mut dyn FnMut(usize)) -> Play<'p> {
        Play {
            alter: |_| (),
            key: NameKey::new([1; 32]),
            terms: Terms::default(),
            data_max: 1 << 20,
            beside: Beside::Nothing,
            cutting: Cutting::ByContent,
            chunks: usize::MAX,
            between,
        }
    }
}

/// What an end has beside the two trees.
pub(super) enum Beside {
    Nothing,
    /// The sender: an earlier version.
    Earlier(PathBuf),
    /// The sender: versions that it sent, and where they were.
    Sent(Remembered),
    /// The receiver: the directory of the sources.
    Sources(PathBuf),
    /// The receiver: it may ask what the sources have.
    Paths,
}

/// What it did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Delta {
    /// Bytes on the wire, those of patches that were of no use too.
    pub(super) wire: u64,
    pub(super) matched: u64,
    /// Patches that were of no use.
    pub(super) unusable: usize,
    /// Rows whose basis was listed, and bytes of the lists and answers.
    pub(super) listed: usize,
    pub(super) lists: u64,
    /// Rows of which something is supposed.
    pub(super) supposed: usize,
    /// What was deleted before anything was stored.
    pub(super) deleted_first: Vec<String>,
    /// What was there, by the file that it came from.
    pub(super) from: Matched,
    pub(super) resumed: u64,
    pub(super) failures: Vec<String>,
    /// What is told of entries.
    pub(super) items: Vec<String>,
    /// Directories of which the sender was asked.
    pub(super) asked: Vec<String>,
}

pub(super) fn play(world: &World, key: NameKey) -> Delta {
    play_with(world, key, Cutting::InPlace)
}

pub(super) fn play_with(world: &World, key: NameKey, cutting: Cutting) -> Delta {
    let mut between = |_| ();
    let terms = Terms::default();
    run(world, Play { key, terms, cutting, ..Play::ordinary(&mut between) })
}

pub(super) fn ordinary(world: &World) -> Delta {
    play(world, NameKey::new([1; 32]))
}

/// The options of a run.
fn options_of(play: &Play<'_>) -> Arc<SyncOptions> {
    let mut options = SyncOptions {
        preserve: Preserve { sparse: true, ..Preserve::as_cp(true) },
        directories: Enter::All,
        ..SyncOptions::default()
    };
    (play.alter)(&mut options);
    Arc::new(options)
}

/// What a run sends.
fn source_of(world: &World, options: &Arc<SyncOptions>, beside: &Beside) -> Source {
    let from = format!("{}/", world.from("").display());
    let mut source = Source::open(SourceSpec {
        preserve: options.preserve.clone(),
        sync: Some(options.clone()),
        ..spec(&[Path::new(&from)])
    })
    .expect("a source can be read");
    source.tell_identities();
    match beside {
        Beside::Earlier(earlier) => {
            let place = std::os::unix::ffi::OsStrExt::as_bytes(earlier.as_os_str());
            source.has_earlier(EarlierFiles::at(&Base::Ambient, place).expect("it can be read"));
        }
        Beside::Sent(sent) => source.has_earlier(EarlierFiles::Remembered(sent.clone())),
        Beside::Nothing | Beside::Sources(_) | Beside::Paths => {}
    }
    source
}

/// Where a run stores.
fn sink_of(world: &World, options: &Arc<SyncOptions>, play: &Play<'_>, shape: SourceShape) -> Sink {
    let spec = SinkSpec {
        preserve: options.preserve.clone(),
        terms: play.terms,
        keep: Partial::Keep,
        link_dest: options.link_dest.clone(),
        ..sink_spec(&world.to(""), shape)
    };
    let mut sink = Sink::open(spec).expect("the destination can be written");
    sink.follow(options);
    if let Beside::Sources(directory) = &play.beside {
        sink.finds_sources(&SourcesHere::open(&[directory]));
    }
    sink
}

/// Syncs `from/` to `to` as both ends of a session do.
pub(super) fn run(world: &World, play: Play<'_>) -> Delta {
    let options = options_of(&play);
    let mut source = source_of(world, &options, &play.beside);
    let mut sink = sink_of(world, &options, &play, source.shape());
    let compares = options.rules.compare == sync::Compare::Content;
    let checksums = if compares { Checksums::Listed } else { Checksums::Omitted };
    let form = ListingForm { checksums, parts: Parts::Told };
    let mut compare =
        Compare::for_sync(&mut sink, options, Privileges::OfTheUser).expect("the options are possible");
    compare.offer(&mut sink);
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    if let Beside::Paths = play.beside {
        compare.may_ask_about_paths();
        if compare.wants_path_questions() {
            compare.asks(questions(source.places().expect("a tree"), asked.clone()));
        }
    }
    let offers = sink.offers();
    if play.cutting == Cutting::InPlace {
        offers.iter().for_each(Offers::may_be_in_place);
    }
    let (lists, answered) = answering(source.budget(), offers.clone(), play.key.clone());
    source.match_with(lists.clone(), play.key.clone(), Pays::new(sync::Delta::Always));
    let (mut delta, answers) = (Delta::default(), Answers::default());
    let mut lister = source.survey(Box::new(answers.clone()), form).expect("a tree");
    while let Some(batch) = lister.next_batch().expect("the source can be read") {
        let rows = decode_batch(&batch.bytes).expect("our own");
        for (at, (row, listed)) in rows.iter().zip(batch.entries).enumerate() {
            compare.rename_whole(row, &rows[at + 1..], 0, &|| false);
            let ruling = compare.rule(row);
            let choice = compare.carry_out(row, ruling, &|| false).expect("within bounds");
            delta.listed += usize::from(choice.changes.contains(Changes::LISTED));
            delta.supposed += usize::from(choice.changes.contains(Changes::SUPPOSED));
            delta.items.extend(compare.item(row, &choice).map(|item| told(&item)));
            answers.0.lock().expect("not poisoned").push_back((listed, choice));
        }
    }
    compare.delete(&mut |deleted| match deleted {
        Deleted::Gone(found) => delta.deleted_first.push(String::from_utf8_lossy(&found.path).into_owned()),
        other => delta.failures.push(format!("{other:?}")),
    });
    delta.lists = list(offers.as_ref(), &lists, &play.key);
    store((&mut source, &lists), sink, offers.as_ref(), play, &mut delta);
    delta.lists += answered.bytes.load(Ordering::Relaxed);
    delta.asked = std::mem::take(&mut *asked.lock().expect("not poisoned"));
    delta
}

/// What asks the sender about paths, and is answered at once.
fn questions(places: SourcePlaces, asked: Arc<Mutex<Vec<String>>>) -> PathQuestions {
    let own: Arc<OnceLock<PathQuestions>> = Arc::default();
    // Not by itself: nothing of it would ever be let go.
    let answers = own.clone();
    let questions = PathQuestions::new(Box::new(move |path| {
        asked.lock().expect("not poisoned").push(String::from_utf8_lossy(path).into_owned());
        let there = places.has(path).expect("a path that can be");
        answers.get().expect("it is set").answer(there).expect("our own question");
        true
    }));
    own.set(questions.clone()).expect("it is set once");
    questions
}

/// An item as it is told; what of it comes how is not.
fn told(item: &Item) -> String {
    let changes = item.changes.0 & !(Changes::LISTED.0 | Changes::SUPPOSED.0);
    format!("{:?} {changes:#x} {}", item.kind, String::from_utf8_lossy(&item.path))
}

/// Lists all that is offered.
fn list(offers: Option<&Offers>, lists: &Lists, key: &NameKey) -> u64 {
    let mut bytes = 0;
    let Some(offers) = offers else { return 0 };
    offers.are_complete();
    while let Some(job) = offers.next_job() {
        let row = job.row;
        job.list(offers, key, &mut |segment: Segment| {
            bytes += segment.pieces.len() as u64;
            lists.take(segment.part_of(row))
        })
        .expect("our own list");
    }
    bytes
}

fn store(
    (source, lists): (&mut Source, &Lists),
    mut sink: Sink,
    offers: Option<&Offers>,
    play: Play<'_>,
    delta: &mut Delta,
) {
    let (mut buf, mut scratch) = (vec![0; CHUNK_LEN_MAX], Vec::new());
    for number in 0..play.chunks {
        let filled = source.next_chunk(&mut buf, play.data_max).expect("the source can be read");
        (play.between)(number);
        let whole = &buf[..filled.len];
        let patched = filled.patch.as_ref().map(|patch| {
            delta.wire += patch.chunk.len() as u64;
            assert!(patch.chunk.len() < filled.len, "it is shorter");
            verify_with(&patch.chunk, &mut scratch, offers).map(|verified| (&patch.chunk[..], verified))
        });
        let (chunk, verified) = match patched {
            Some(Ok(patched)) => patched,
            unusable => {
                if unusable.is_some() {
                    delta.unusable += 1;
                    lists.was_mistaken();
                }
                delta.wire += whole.len() as u64;
                (whole, verify(whole, &mut scratch).expect("our own chunks verify"))
            }
        };
        delta.matched += verified.copied_bytes();
        delta.from.add_all(verified.matched());
        sink.apply(chunk, verified, &scratch, &mut |event| match event {
            SinkEvent::FileFailed(error) | SinkEvent::SourceFailed(error) => {
                delta.failures.push(error.message);
            }
            SinkEvent::Resumed(bytes) => delta.resumed += bytes,
            _ => {}
        })
        .expect("it can be stored");
        if filled.is_final {
            sink.finish(&mut |_| ()).expect("it is whole").1.acknowledged();
            return;
        }
    }
    sink.suspend();
}
