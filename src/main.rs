//! The command line: `run` (the default), `config`, `version`, `demo`.

mod options;

use std::io::Write as _;
use std::process::ExitCode;

use options::Command;
use supercargo_config::PluginCatalogue;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match options::parse(std::env::args_os(), &PluginCatalogue::in_tree()) {
        Ok(Command::Run(options)) => run(&options),
        #[cfg(feature = "demo")]
        Ok(Command::Demo(args)) => fail(&format!("this build has no demo yet (asked for {args:?})"), 1),
        Ok(Command::Print(text)) => match std::io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&format!("standard output: {error}"), 1),
        },
        Err(failure) => fail(&failure.message, failure.code),
    }
}

fn run(options: &options::Options) -> ExitCode {
    fail(
        &format!("this build has no scheduling loop yet (asked for {options:?})"),
        1,
    )
}

fn fail(message: &str, code: u8) -> ExitCode {
    match writeln!(std::io::stderr(), "error: {message}") {
        Ok(()) => ExitCode::from(code),
        // Nobody is left to tell.
        Err(_) => ExitCode::FAILURE,
    }
}
