//! A transaction: statements that read are run at once, those that write wait and travel together.
//!
//! The driver runs SQLite on a thread of its own, and waking it costs more than most statements do.

use kazma_domain::{Digest, Id, id::Kind};
use kazma_faults::{Check, wrong};
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};
use uuid::Uuid;

use crate::{StoreError, registry::tail::Tail};

/// A transaction, or a consistent view where nothing is written. Repositories take one.
#[derive(Debug)]
pub struct Tx {
    connection: SqliteConnection,
    waiting: Vec<Write>,
    /// What the registry's chain and events end with, as this transaction sees it.
    pub(crate) tail: Option<Tail>,
}

impl Tx {
    pub(crate) const fn new(connection: SqliteConnection) -> Self {
        Self {
            connection,
            waiting: Vec::new(),
            tail: None,
        }
    }

    /// The connection, for statements that nothing waits before.
    pub(crate) const fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// The connection, once everything that waits is written.
    pub(crate) async fn settled(&mut self) -> Result<&mut SqliteConnection, StoreError> {
        self.flush().await?;
        Ok(&mut self.connection)
    }

    /// Writes with the next flush. The end of the request is one.
    pub(crate) fn later(&mut self, write: Write) {
        self.waiting.push(write);
    }

    /// Forgets what waits: the request failed.
    pub(crate) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Sends what waits as one.
    pub(crate) async fn flush(&mut self) -> Result<(), StoreError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let writes = std::mem::take(&mut self.waiting);
        let sql = together(&writes);
        let expected = u64::try_from(writes.len()).unwrap_or(u64::MAX);
        let may_be_stale = writes.iter().find_map(|write| write.seen.clone());
        // Every text is put together from the constants of this crate; values are bound.
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for value in writes.into_iter().flat_map(|write| write.values) {
            query = match value {
                Value::Null => query.bind(None::<i64>),
                Value::Number(number) => query.bind(number),
                Value::Text(text) => query.bind(text),
                Value::Bytes(bytes) => query.bind(bytes),
            };
        }
        let done = query.execute(&mut self.connection).await?;
        // Each write changes one row, or the row is not the one that was seen.
        if wrong(Check::Version, done.rows_affected() != expected) {
            let (table, id) = may_be_stale.unwrap_or(("a row", String::new()));
            return Err(StoreError::Stale { table, id });
        }
        Ok(())
    }

    pub(crate) async fn close(self) -> Result<(), StoreError> {
        Ok(self.connection.close().await?)
    }

    /// Runs statements without values, one after the other.
    pub(crate) async fn run(&mut self, statements: &'static str) -> Result<(), StoreError> {
        sqlx::raw_sql(statements)
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }
}

/// A statement that changes exactly one row.
#[derive(Debug)]
pub(crate) struct Write {
    sql: &'static str,
    values: Vec<Value>,
    seen: Option<(&'static str, String)>,
}

impl Write {
    /// A statement with the placeholders `$1`, `$2` and so on.
    pub(crate) const fn new(sql: &'static str) -> Self {
        Self {
            sql,
            values: Vec::new(),
            seen: None,
        }
    }

    /// Gives the next placeholder its value.
    pub(crate) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Says that this one may find its row changed: then the request is refused as `Stale`.
    pub(crate) fn seen(mut self, table: &'static str, id: impl std::fmt::Display) -> Self {
        self.seen = Some((table, id.to_string()));
        self
    }
}

/// A value to bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Uuid> for Value {
    fn from(uuid: Uuid) -> Self {
        Self::Bytes(uuid.as_bytes().to_vec())
    }
}

impl<K: Kind> From<Id<K>> for Value {
    fn from(id: Id<K>) -> Self {
        id.uuid().into()
    }
}

impl From<&Digest> for Value {
    fn from(digest: &Digest) -> Self {
        Self::Bytes(digest.as_bytes().to_vec())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The statements in one text, their placeholders counted through.
fn together(writes: &[Write]) -> String {
    let mut text = String::with_capacity(writes.iter().map(|write| write.sql.len() + 8).sum());
    let mut offset = 0;
    for write in writes {
        let mut rest = write.sql;
        while let Some((before, after)) = rest.split_once('$') {
            text.push_str(before);
            text.push('$');
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            let (number, left) = after.split_at(digits);
            // A `$` without a number is no placeholder; it stays what it is.
            match number.parse::<usize>() {
                Ok(number) => text.push_str(&(number + offset).to_string()),
                Err(_) => text.push_str(number),
            }
            rest = left;
        }
        text.push_str(rest);
        text.push_str(";\n");
        offset += write.values.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_counted_through() {
        let writes = [
            Write::new("UPDATE a SET x = $2 WHERE id = $1 AND y = $2")
                .bind(1)
                .bind("x"),
            Write::new("INSERT INTO b VALUES ($1)").bind(None::<i64>),
            Write::new("INSERT INTO c VALUES ($1, '$', $2)")
                .bind(2)
                .bind(3),
        ];
        assert_eq!(
            together(&writes),
            "UPDATE a SET x = $2 WHERE id = $1 AND y = $2;\n\
             INSERT INTO b VALUES ($3);\n\
             INSERT INTO c VALUES ($4, '$', $5);\n"
        );
    }
}
