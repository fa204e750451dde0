//! Rows in, verdicts out: JSON Lines, one answer a line, in the same order.

use std::{
    io::{self, BufRead, Read as _, Write},
    process::ExitCode,
};

use kazma_runtime::BoxError;
use serde::{Serialize, de::DeserializeOwned};

/// The longest row, in bytes: a longer one is malformed.
const ROW_LIMIT: u64 = 16 * 1024 * 1024;

/// A malformed row was named; the rows before it were answered.
const MALFORMED: u8 = 2;

/// Reads rows from standard input and writes `judge`'s answer to each.
///
/// Empty lines are passed over. At the first malformed row its line number goes to standard error and the exit code
/// is 2: what follows a row that could not be read may not be what the caller believes.
pub(crate) fn run<Row, Answer>(judge: impl FnMut(Row) -> Answer) -> Result<ExitCode, BoxError>
where
    Row: DeserializeOwned,
    Answer: Serialize,
{
    let stdout = io::BufWriter::new(io::stdout().lock());
    match over(io::stdin().lock(), stdout, judge)? {
        None => Ok(ExitCode::SUCCESS),
        Some(malformed) => {
            writeln!(
                io::stderr().lock(),
                "line {}: {}",
                malformed.line,
                malformed.why
            )?;
            Ok(ExitCode::from(MALFORMED))
        }
    }
}

/// A row that is not what it should be.
#[derive(Debug, PartialEq, Eq)]
struct Malformed {
    /// Counted from 1.
    line: u64,
    why: String,
}

fn over<Row, Answer>(
    mut rows: impl BufRead,
    mut answers: impl Write,
    mut judge: impl FnMut(Row) -> Answer,
) -> io::Result<Option<Malformed>>
where
    Row: DeserializeOwned,
    Answer: Serialize,
{
    let mut row = Vec::new();
    let mut line = 0;
    loop {
        row.clear();
        line += 1;
        if (&mut rows)
            .take(ROW_LIMIT + 1)
            .read_until(b'\n', &mut row)?
            == 0
        {
            answers.flush()?;
            return Ok(None);
        }
        let malformed = |why: String| Some(Malformed { line, why });
        if row.len() as u64 > ROW_LIMIT {
            answers.flush()?;
            return Ok(malformed(format!(
                "the row is longer than {ROW_LIMIT} bytes"
            )));
        }
        if row.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(&row) {
            Ok(read) => {
                serde_json::to_writer(&mut answers, &judge(read))?;
                answers.write_all(b"\n")?;
            }
            Err(error) => {
                answers.flush()?;
                return Ok(malformed(error.to_string()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn answers(rows: &str) -> (String, Option<Malformed>) {
        let mut out = Vec::new();
        let ended = over(rows.as_bytes(), &mut out, |row: Vec<u8>| row.len()).unwrap();
        (String::from_utf8(out).unwrap(), ended)
    }

    #[test]
    fn each_row_is_answered_in_its_order() {
        assert_eq!(answers("[1,2]\n\n[]\n[3]"), ("2\n0\n1\n".to_owned(), None));
        assert_eq!(answers(""), (String::new(), None));
    }

    #[test]
    fn a_malformed_row_is_named_by_its_line() {
        let (out, ended) = answers("[1]\n\n{\"a\":1}\n[2]\n");
        assert_eq!(out, "1\n");
        assert_eq!(ended.unwrap().line, 3);
    }

    #[test]
    fn a_row_without_end_is_not_read_to_its_end() {
        let endless = io::BufReader::new(io::repeat(b'['));
        let ended = over(endless, io::sink(), |row: Value| row).unwrap();
        assert_eq!(ended.unwrap().line, 1);
    }
}
