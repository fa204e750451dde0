//! What bubblewrap leaves when it is killed between a jail's first process and its user map.

use std::{
    io::{PipeWriter, Write},
    os::unix::process::CommandExt,
    process::{Child, Command},
};

use kazma_sandbox_runner::jail::orphans::{JAIL_NAME, sweep};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::house::{House, PATIENCE, marked, processes_with};

/// A bubblewrap that hangs right after it made its child: the pipe it must write to first is full.
fn half_born(marker: &str) -> (Child, std::io::PipeReader) {
    let (unread, full) = std::io::pipe().unwrap();
    fill(&full);
    let child = Command::new("/usr/bin/bwrap")
        .arg0(JAIL_NAME)
        .args("--unshare-user --unshare-pid --as-pid-1 --die-with-parent".split(' '))
        .args("--ro-bind / / --info-fd 1 -- /bin/true".split(' '))
        .arg(marker)
        .stdout(full)
        .spawn()
        .unwrap();
    (child, unread)
}

fn fill(pipe: &PipeWriter) {
    let flags = fcntl_getfl(pipe).unwrap();
    fcntl_setfl(pipe, flags | OFlags::NONBLOCK).unwrap();
    let mut writer = pipe;
    while writer.write(&[b' '; 4096]).is_ok() {}
    fcntl_setfl(pipe, flags).unwrap();
}

async fn until_left(marker: &str, wanted: usize) {
    let waiting = async {
        while processes_with(marker) != wanted {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("{} are left, not {wanted}", processes_with(marker)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_bubblewrap_left_is_ended_by_the_next_broker() {
    let marker = marked();
    let (mut bubblewrap, _unread) = half_born(&marker);
    until_left(&marker, 2).await;
    // While its bubblewrap lives, it is being born and nobody's business.
    sweep();
    assert_eq!(processes_with(&marker), 2);

    bubblewrap.kill().unwrap();
    bubblewrap.wait().unwrap();
    // This is the leak: it waits for ever.
    assert_eq!(processes_with(&marker), 1);

    let house = House::open().await;
    until_left(&marker, 0).await;
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn and_by_a_broker_that_ends() {
    let house = House::open().await;
    let marker = marked();
    let (mut bubblewrap, _unread) = half_born(&marker);
    until_left(&marker, 2).await;
    bubblewrap.kill().unwrap();
    bubblewrap.wait().unwrap();
    house.close().await;
    assert_eq!(processes_with(&marker), 0);
}
