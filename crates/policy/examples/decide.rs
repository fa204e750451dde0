//! How long `decide()` takes, beside hashing the tool's name once.
//!
//! `cargo run --release -p kazma-policy --example decide` prints one JSON line; times in nanoseconds.

use std::{
    hash::{BuildHasher as _, RandomState},
    hint::black_box,
    io::Write as _,
    time::Instant,
};

use kazma_domain::Service;
use kazma_policy::{Request, Route, decide};

const SAMPLES: usize = 400;
/// Calls in one sample: one alone is shorter than the clock can tell.
const CALLS: u32 = 1_000;

const TOOLS: [&str; 4] = ["python_exec", "file_read", "shell_exec", "nobody_knows_it"];

fn main() -> std::io::Result<()> {
    let hasher = RandomState::new();
    let decided = medians(|tool| {
        let route = Route::Executor(Service::RunnerApi);
        black_box(decide(black_box(&Request { tool, route })));
    });
    let baseline = medians(|tool| {
        black_box(hasher.hash_one(black_box(tool)));
    });
    writeln!(
        std::io::stdout(),
        "{{\"p50\":{:.1},\"p95\":{:.1},\"hash_p50\":{:.1},\"runs\":{SAMPLES}}}",
        decided.0,
        decided.1,
        baseline.0
    )
}

/// The median and the 95th percentile of a call, in nanoseconds.
fn medians(mut call: impl FnMut(&'static str)) -> (f64, f64) {
    let mut times: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let begun = Instant::now();
            for tool in TOOLS.iter().copied().cycle().take(CALLS as usize) {
                call(tool);
            }
            begun.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let at = |share: usize| {
        times
            .get(SAMPLES * share / 100)
            .copied()
            .unwrap_or(f64::NAN)
    };
    (at(50), at(95))
}
