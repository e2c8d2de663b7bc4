//! Why a command of `fobs-lab` failed, and the exit code that says so.

use std::process::ExitCode;

/// Usage error, invalid plan or scenario, or a run that could not be started.
pub const EXIT_USAGE: u8 = 1;
/// An input file that cannot be read or used.
pub const EXIT_NO_SOURCE: u8 = 3;
/// A bug: a rule of the protocol was broken in the simulator.
pub const EXIT_INTERNAL: u8 = 9;
/// Output that cannot be written.
pub const EXIT_FILE_IO: u8 = 11;
/// A command that needs root was started without it: test harnesses read it as "skipped".
pub const EXIT_NO_ROOT: u8 = 77;

/// Why a command ended early, and its exit code.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// A failure with [`EXIT_USAGE`].
    pub fn new(message: impl Into<String>) -> Failure {
        Failure::with_code(EXIT_USAGE, message)
    }

    /// A failure with one of the exit codes of this module.
    pub fn with_code(code: u8, message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code }
    }

    /// Prints the message to standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        eprintln!("fobs-lab: {}", self.message);
        ExitCode::from(self.code)
    }
}

/// The exit code of a command; prints its failure.
pub fn exit_code(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
