use super::*;
use crate::{CHUNK_DATA_MAX, Sink, SinkEvent, chunk_room, verify};
use fobs_rng::Rng;
use std::collections::VecDeque;
use std::io::Write;

/// What happens at an input, in order.
#[derive(Debug, Clone)]
enum Step {
    Bytes(Vec<u8>),
    Pause,
    Fails,
}

struct Script(VecDeque<Step>);

impl Read for Script {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self.0.front_mut() {
            Some(Step::Bytes(bytes)) => {
                let count = bytes.len().min(room.len());
                room[..count].copy_from_slice(&bytes[..count]);
                bytes.drain(..count);
                if bytes.is_empty() {
                    self.0.pop_front();
                }
                Ok(count)
            }
            Some(Step::Fails) => Err(io::Error::other("the disk is gone")),
            Some(Step::Pause) | None => Ok(0),
        }
    }
}

impl PipeInput for Script {
    fn wait(&mut self) -> io::Result<More> {
        while matches!(self.0.front(), Some(Step::Pause)) {
            self.0.pop_front();
        }
        match self.0.front() {
            Some(Step::Fails) => Err(io::Error::other("the disk is gone")),
            Some(_) => Ok(More::Bytes),
            None => Ok(More::End),
        }
    }
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Moves a pipe chunk by chunk; what came out after each, and how it ended.
fn piped(steps: &[Step], data_max: usize) -> (Vec<u8>, Vec<usize>, Result<()>) {
    let input = Box::new(Script(steps.iter().cloned().collect()));
    let mut source = Source::from_pipe(input, false, MemoryBudget::default()).unwrap();
    let written = Written::default();
    let mut sink = Sink::to_pipe(Box::new(written.clone()), MemoryBudget::default());
    let mut buffer = vec![0; chunk_room(CHUNK_DATA_MAX)];
    let (mut lengths, mut scratch) = (Vec::new(), Vec::new());
    let ended = loop {
        let chunk = match source.next_chunk(&mut buffer, data_max) {
            Ok(chunk) => chunk,
            Err(error) => break Err(error),
        };
        let body = &buffer[..chunk.len];
        let verified = verify(body, &mut scratch).expect("it verifies");
        let events = &mut |event| assert!(matches!(event, SinkEvent::FileDone(_)), "{event:?}");
        sink.apply(body, verified, &scratch, events).expect("it is taken");
        lengths.push(written.len());
        if chunk.is_final {
            let (summary, _) = sink.finish(events).unwrap();
            assert_eq!(summary.root, source.root(), "both ends saw the same");
            break Ok(());
        }
    };
    (written.0.lock().unwrap().clone(), lengths, ended)
}

#[test]
fn what_has_come_leaves_before_what_is_long_in_coming() {
    let steps = [Step::Bytes(b"one".to_vec()), Step::Pause, Step::Bytes(b"two".to_vec()), Step::Pause];
    let (all, lengths, ended) = piped(&steps, CHUNK_DATA_MAX);
    assert_eq!((all.as_slice(), ended), (&b"onetwo"[..], Ok(())));
    assert_eq!(lengths, [3, 6, 6], "each with a chunk of its own, and then the end");
    assert_eq!(piped(&[], CHUNK_DATA_MAX).0, b"");
}

#[test]
fn any_rhythm_of_bytes_and_pauses_comes_out_as_it_went_in() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut steps = Vec::new();
        for _ in 0..rng.below(20) {
            let len = rng.pick(&[0, 1, 65_535, 65_536, 65_537, 131_072, 200_000]);
            let mut bytes = vec![0; len];
            rng.fill(&mut bytes);
            steps.push(Step::Bytes(bytes));
            if rng.chance(0.5) {
                steps.push(Step::Pause);
            }
        }
        steps.retain(|step| !matches!(step, Step::Bytes(bytes) if bytes.is_empty()));
        let whole: Vec<u8> = steps
            .iter()
            .flat_map(|step| match step {
                Step::Bytes(bytes) => bytes.clone(),
                Step::Pause | Step::Fails => Vec::new(),
            })
            .collect();
        let (all, _, ended) = piped(&steps, rng.pick(&[65_536, 100_000, 1 << 20]));
        assert_eq!(ended, Ok(()), "seed {seed}");
        assert!(all == whole, "seed {seed}: {} of {} bytes", all.len(), whole.len());
    }
}

#[test]
fn an_input_that_fails_ends_the_pipe_and_is_no_end_of_data() {
    for before in
        [vec![], vec![Step::Bytes(b"some".to_vec())], vec![Step::Bytes(vec![7; 100_000]), Step::Pause]]
    {
        let steps = [before, vec![Step::Fails]].concat();
        let error = piped(&steps, CHUNK_DATA_MAX).2.unwrap_err();
        assert!(error.kind == ErrorKind::FileIo && error.message.contains("the disk is gone"), "{error:?}");
    }
}
