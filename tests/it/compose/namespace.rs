//! Work in the network namespace of somebody else.

use std::{fs::File, os::fd::AsFd as _, path::Path, thread};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Does `work` on a thread that is in the network namespace which the file names.
pub(super) fn within<T: Send>(network: &Path, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let there = scope.spawn(|| {
            let file = File::open(network).unwrap_or_else(|error| panic!("{network:?}: {error}"));
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        });
        match there.join() {
            Ok(value) => value,
            Err(why) => std::panic::resume_unwind(why),
        }
    })
}

/// Waits for `future` on this thread, so that its sockets are of this thread's namespace.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}
