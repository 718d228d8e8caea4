//! The program `onceward`; everything it does is in [`onceward::cli`].

use std::process::ExitCode;

/// An exchange makes some dozens of small allocations, and hands some to other threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    onceward::cli::run()
}
