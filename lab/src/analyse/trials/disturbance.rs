//! What happens beside a copy: competing flows, and steps of the link.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::case::Drawn;
use crate::run::emulator::ask;
use crate::run::group::Group;
use crate::run::namespace::Namespace;
use crate::run::process::Process;
use crate::run::ready::wait_ready;
use crate::run::tuning::AllAllowed;
use crate::tool::{Options, Program, Task, by_name};

/// How long competing flows run: longer than a copy.
const FLOWS_S: u64 = 40;
/// Time in which they fill the link before the copy begins.
const FLOWS_AHEAD: Duration = Duration::from_millis(1500);

/// TCP flows beside the copy; they end when this is dropped.
pub struct Flows {
    _processes: Vec<Process>,
    _allowed: AllAllowed,
}

impl Flows {
    /// Starts them from the sending to the receiving host.
    pub fn start(
        count: u32,
        task: &Task,
        namespaces: [&Namespace; 2],
        group: &Group,
    ) -> Result<Flows, String> {
        let allowed = AllAllowed::new()?;
        let mut options = Options::new();
        options.insert("cc".to_owned(), "cubic".into());
        options.insert("streams".to_owned(), count.into());
        let amount = crate::tool::Amount::Time(Duration::from_secs(FLOWS_S));
        let task = Task {
            options: &options,
            amount,
            programs: task.programs,
            path: task.path,
            sender: task.sender.clone(),
            receiver: task.receiver.clone(),
            source: task.source.clone(),
            destination: task.destination.clone(),
            directory: task.directory.clone(),
            index: 0,
        };
        let launch = by_name("iperf3").ok_or("there is no tool iperf3")?.launch(&task)?;
        let [sender, receiver] = namespaces;
        let server = launch.servers.first().ok_or("iperf3 has no server")?;
        let start = |program: &Program, namespace| Process::start(program, namespace, group, &[]);
        let mut receiving = start(&server.program, receiver)?;
        wait_ready(&mut receiving, server.ready)?;
        let sending = start(&launch.client, sender)?;
        thread::sleep(FLOWS_AHEAD);
        Ok(Flows { _processes: vec![sending, receiving], _allowed: allowed })
    }
}

/// A change of the link in the middle of the copy.
pub struct Step {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Step {
    /// Changes the emulator at `control` at the drawn time after `began`; `None` where nothing is drawn.
    pub fn start(drawn: &Drawn, control: PathBuf, began: Instant) -> Option<Step> {
        let at = began + Duration::from_millis(u64::from(drawn.step_at_ms?));
        let mut keys = serde_json::Map::new();
        if let Some(rate) = drawn.step_mbit {
            keys.insert("rate".to_owned(), format!("{rate}Mbit").into());
        }
        if let Some(rtt) = drawn.step_rtt_ms {
            keys.insert("delay".to_owned(), format!("{}ms", f64::from(rtt) / 2.0).into());
        }
        let change: Value = json!({"set": {"forward": keys, "backward": keys}});
        let (stop, stopped) = channel::<()>();
        let thread = thread::spawn(move || {
            let left = at.saturating_duration_since(Instant::now());
            if stopped.recv_timeout(left) == Err(RecvTimeoutError::Timeout)
                && let Err(error) = ask(&control, &change)
            {
                eprintln!("fobs-lab: the step was not made: {error}");
            }
        });
        Some(Step { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
