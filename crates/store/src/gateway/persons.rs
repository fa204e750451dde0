//! Persons.

use jiff::Timestamp;
use kazma_domain::{PersonId, Role};

use crate::{
    StoreError, Tx,
    row::{Reader, Row, micros},
    statement::Statement,
};

/// A person who may sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Who.
    pub id: PersonId,
    /// The name others see; no two persons have the same, whatever the capitals.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// Whether this is the person of the first start, who cannot be removed.
    pub is_operator: bool,
    /// When they were added.
    pub created_at: Timestamp,
}

pub(super) fn read(row: &Row) -> Result<Person, StoreError> {
    let reader = Reader::new(row, "persons", "");
    let id: PersonId = reader.id("person_id")?;
    let reader = Reader::new(row, "persons", id);
    Ok(Person {
        id,
        name: reader.get("person_name")?,
        role: reader.word("person_role")?,
        is_operator: reader.yes("person_is_operator")?,
        created_at: reader.time("person_created_at")?,
    })
}

/// Adds a person. The error [`StoreError::is_taken`] where another one has the name.
pub async fn add_person(tx: &mut Tx, person: &Person) -> Result<(), StoreError> {
    tx.execute(Statement::new(
        "INSERT INTO persons (id, name, folded, role, is_operator, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
    ).bind(person.id).bind(&person.name).bind(person.name.to_lowercase()).bind(person.role.name()).bind(person.is_operator).bind(micros(person.created_at)))
    .await?;
    Ok(())
}

/// Everybody who may sign in, oldest first.
pub async fn persons(tx: &mut Tx) -> Result<Vec<Person>, StoreError> {
    tx.all(Statement::new(
        "SELECT id AS person_id, name AS person_name, role AS person_role, is_operator AS person_is_operator,
                created_at AS person_created_at
         FROM persons WHERE removed_at IS NULL ORDER BY id",
    ))
    .await?
    .iter()
    .map(read)
    .collect()
}

/// One person, if they may still sign in.
pub async fn person(tx: &mut Tx, id: PersonId) -> Result<Option<Person>, StoreError> {
    tx.optional(Statement::new(
        "SELECT id AS person_id, name AS person_name, role AS person_role, is_operator AS person_is_operator,
                created_at AS person_created_at
         FROM persons WHERE id = $1 AND removed_at IS NULL",
    ).bind(id))
    .await?
    .as_ref()
    .map(read)
    .transpose()
}

/// The person of the first start, if there was one.
pub async fn operator(tx: &mut Tx) -> Result<Option<Person>, StoreError> {
    tx.optional(Statement::new(
        "SELECT id AS person_id, name AS person_name, role AS person_role, is_operator AS person_is_operator,
                created_at AS person_created_at
         FROM persons WHERE is_operator = 1",
    ))
    .await?
    .as_ref()
    .map(read)
    .transpose()
}

/// Removes a person with everything they sign in with. False where there is no such person, or it is
/// the operator. The row stays, so that what they decided keeps its name.
pub async fn remove_person(tx: &mut Tx, id: PersonId, now: Timestamp) -> Result<bool, StoreError> {
    let removed = tx.execute(Statement::new(
        "UPDATE persons SET removed_at = $2 WHERE id = $1 AND removed_at IS NULL AND is_operator = 0",
    ).bind(id).bind(micros(now)))
    .await?
    ;
    if removed == 0 {
        return Ok(false);
    }
    for statement in [
        "DELETE FROM sessions WHERE person = $1",
        "DELETE FROM tokens WHERE person = $1",
        "DELETE FROM links WHERE person = $1",
    ] {
        tx.execute(Statement::new(statement).bind(id)).await?;
    }
    Ok(true)
}

/// How many persons may decide and can sign in at `now`. The operator always can.
pub async fn electorate(tx: &mut Tx, now: Timestamp) -> Result<u32, StoreError> {
    let row = tx.one(Statement::new(
        "SELECT count(*) AS n FROM persons p
         WHERE p.removed_at IS NULL AND p.role IN ('approver', 'operator', 'admin')
           AND (p.is_operator = 1
                OR EXISTS (SELECT 1 FROM sessions s WHERE s.person = p.id AND s.expires_at > $1)
                OR EXISTS (SELECT 1 FROM tokens t WHERE t.person = p.id AND coalesce(t.expires_at, $1 + 1) > $1)
                OR EXISTS (SELECT 1 FROM links l WHERE l.person = p.id AND l.expires_at > $1))",
    ).bind(micros(now)))
    .await?;
    Reader::new(&row, "persons", "all").count("n")
}
