//! The scheduler with the in-tree plugins; all that it does is in [`supercargo::command`].

use std::process::ExitCode;

use supercargo::command::Command;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Command::new().main()
}
