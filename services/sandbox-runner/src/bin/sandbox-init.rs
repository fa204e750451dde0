//! Process 1 of every jail. See [`kazma_sandbox_runner::jail::init`].

fn main() -> std::process::ExitCode {
    kazma_sandbox_runner::jail::init::main(std::env::args().skip(1))
}
