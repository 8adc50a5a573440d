//! The command line: `run` (the default), `config`, `version`, `demo`.

#[cfg(feature = "demo")]
mod demo;
mod options;
mod run;

use std::io::Write as _;
use std::process::ExitCode;

use options::Command;
use supercargo::telemetry::error_text;
use supercargo_config::PluginCatalogue;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match options::parse(std::env::args_os(), &PluginCatalogue::in_tree()) {
        Ok(Command::Run(options)) => run::run(&options).unwrap_or_else(|error| fail(&error_text(error.as_ref()), 1)),
        #[cfg(feature = "demo")]
        Ok(Command::Demo(args)) => match demo::run(&args) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => fail("not every pod that can be scheduled is bound", 1),
            Err(error) => fail(&error_text(error.as_ref()), 1),
        },
        Ok(Command::Print(text)) => match std::io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&format!("standard output: {error}"), 1),
        },
        Err(failure) => fail(&failure.message, failure.code),
    }
}

fn fail(message: &str, code: u8) -> ExitCode {
    match writeln!(std::io::stderr(), "error: {message}") {
        Ok(()) => ExitCode::from(code),
        // Nobody is left to tell.
        Err(_) => ExitCode::FAILURE,
    }
}
