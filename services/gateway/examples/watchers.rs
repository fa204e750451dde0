//! Many who watch: opens event streams and says when each of them heard of a card.
//!
//! `watchers ADDRESS COUNT`, with a value of the header `Cookie` on each line of standard input, over which
//! the streams are spread, and an empty line after the last. Prints `ready` once every stream is open. At the
//! end of standard input prints one JSON object: for each gate the microseconds since 1970 at which each
//! stream heard of it.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, Read as _, Write as _},
    sync::{Arc, Mutex, PoisonError},
};

use kazma_domain::Clock as _;
use kazma_runtime::{BoxError, SystemClock};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// When each gate was heard of.
type Heard = Arc<Mutex<BTreeMap<String, Vec<i64>>>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().ok_or("which address?")?;
    let count: usize = arguments.next().ok_or("how many?")?.parse()?;
    let cookies: Vec<String> = std::io::stdin()
        .lock()
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    let heard = Heard::default();
    for cookie in cookies.iter().cycle().take(count) {
        let mut lines = open(&address, cookie).await?;
        let heard = Arc::clone(&heard);
        tokio::spawn(async move {
            if let Err(error) = watch(&mut lines, &heard).await {
                drop(writeln!(std::io::stderr(), "a stream ended: {error}"));
            }
        });
    }
    writeln!(std::io::stdout(), "ready")?;
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&*heard)?)?;
    Ok(())
}

/// Opens a stream and reads until it says hello.
async fn open(address: &str, cookie: &str) -> Result<BufReader<TcpStream>, BoxError> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "GET /api/events HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nAccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    while lines.read_line(&mut line).await? > 0 {
        if line.starts_with("HTTP/1.1") && !line.contains(" 200 ") {
            return Err(line.into());
        }
        if line.starts_with("retry:") {
            return Ok(lines);
        }
        line.clear();
    }
    Err("the stream said nothing".into())
}

async fn watch(lines: &mut BufReader<TcpStream>, heard: &Heard) -> Result<(), BoxError> {
    let mut line = String::new();
    let mut pending = false;
    while lines.read_line(&mut line).await? > 0 {
        if let Some(event) = line.strip_prefix("event:") {
            pending = event.trim() == "gate.pending";
        } else if let Some(data) = line.strip_prefix("data:").filter(|_| pending) {
            let mark = "\"gate_id\":\"";
            let gate = data
                .split_once(mark)
                .and_then(|(_, rest)| rest.split_once('"'))
                .map(|(gate, _)| gate.to_owned())
                .ok_or("a card without a gate")?;
            heard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(gate)
                .or_default()
                .push(SystemClock.now().as_microsecond());
            pending = false;
        }
        line.clear();
    }
    Err("closed".into())
}
