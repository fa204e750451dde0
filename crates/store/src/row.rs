//! Between columns and the domain: times as microseconds, ids as bytes, structures as JSON.

use jiff::Timestamp;
use kazma_domain::{Digest, Id, id::Kind};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{Decode, Postgres, Row as _, Type, postgres::PgRow};
use uuid::Uuid;

use crate::{StoreError, sqlite};

/// A row of either database.
pub(crate) enum Row {
    Sqlite(sqlite::Row),
    Postgres(PgRow),
}

/// What a column of either database decodes to.
pub(crate) trait Column<'r>:
    sqlite::Readable<'r> + Decode<'r, Postgres> + Type<Postgres>
{
}

impl<'r, T> Column<'r> for T where T: sqlite::Readable<'r> + Decode<'r, Postgres> + Type<Postgres> {}

impl Row {
    /// A column as the driver decodes it.
    pub(crate) fn get<'r, T: Column<'r>>(&'r self, column: &str) -> Result<T, StoreError> {
        match self {
            Self::Sqlite(row) => row.get(column),
            Self::Postgres(row) => Ok(row.try_get(column)?),
        }
    }
}

/// A row of one table, read column by column; what does not decode names table and row.
pub(crate) struct Reader<'r> {
    row: &'r Row,
    table: &'static str,
    id: String,
}

impl<'r> Reader<'r> {
    /// Reads `row` of `table`; `id` names the row in errors.
    pub(crate) fn new(
        row: &'r Row,
        table: &'static str,
        id: impl std::fmt::Display + Copy,
    ) -> Self {
        Self {
            row,
            table,
            id: id.to_string(),
        }
    }

    /// The error that this row is.
    pub(crate) fn wrong(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> StoreError {
        StoreError::inconsistent(self.table, &self.id, source)
    }

    /// A column as the driver decodes it.
    pub(crate) fn get<T: Column<'r>>(&self, column: &str) -> Result<T, StoreError> {
        self.row.get(column).map_err(|error| self.wrong(error))
    }

    /// Whether a number is not 0.
    pub(crate) fn yes(&self, column: &str) -> Result<bool, StoreError> {
        Ok(self.get::<i64>(column)? != 0)
    }

    /// A UUID, stored as its 16 bytes.
    pub(crate) fn uuid(&self, column: &str) -> Result<Uuid, StoreError> {
        Uuid::from_slice(self.get(column)?).map_err(|error| self.wrong(error))
    }

    /// An id.
    pub(crate) fn id<K: Kind>(&self, column: &str) -> Result<Id<K>, StoreError> {
        self.uuid(column).map(Id::from_uuid)
    }

    /// An id that may be missing.
    pub(crate) fn id_option<K: Kind>(&self, column: &str) -> Result<Option<Id<K>>, StoreError> {
        match self.get::<Option<&[u8]>>(column)? {
            Some(_) => self.id(column).map(Some),
            None => Ok(None),
        }
    }

    /// A time.
    pub(crate) fn time(&self, column: &str) -> Result<Timestamp, StoreError> {
        Timestamp::from_microsecond(self.get(column)?).map_err(|error| self.wrong(error))
    }

    /// A time that may be missing.
    pub(crate) fn time_option(&self, column: &str) -> Result<Option<Timestamp>, StoreError> {
        match self.get::<Option<i64>>(column)? {
            Some(_) => self.time(column).map(Some),
            None => Ok(None),
        }
    }

    /// A number that is never negative.
    pub(crate) fn count<T: TryFrom<i64>>(&self, column: &str) -> Result<T, StoreError> {
        T::try_from(self.get::<i64>(column)?)
            .map_err(|_| self.wrong(format!("{column} is out of range")))
    }

    /// A structure.
    pub(crate) fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, StoreError> {
        serde_json::from_str(self.get(column)?).map_err(|error| self.wrong(error))
    }

    /// A word of a closed set.
    pub(crate) fn word<T: std::str::FromStr>(&self, column: &str) -> Result<T, StoreError>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        self.get::<&str>(column)?
            .parse()
            .map_err(|error: T::Err| self.wrong(error))
    }

    /// A digest, stored as its 32 bytes.
    pub(crate) fn digest(&self, column: &str) -> Result<Digest, StoreError> {
        <[u8; 32]>::try_from(self.get::<&[u8]>(column)?)
            .map(Digest::from_bytes)
            .map_err(|_| self.wrong(format!("{column} is not 32 bytes long")))
    }
}

/// A time as it is stored.
pub(crate) fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

/// A structure as it is stored.
pub(crate) fn json<T: Serialize>(
    table: &'static str,
    id: impl std::fmt::Display,
    value: &T,
) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::inconsistent(table, id, error))
}
