//! A fetch as data: what a row of `kazma policy url` says the network would answer.

use std::{collections::BTreeMap, net::IpAddr};

use serde::Deserialize;
use serde_json::Value;

use crate::{Answers, Judge, Refusal, Target};

/// One fetch. Fields that are not named here are passed over.
#[derive(Debug, Clone, Deserialize)]
pub struct Row {
    /// What would be fetched.
    url: String,
    /// `{A, AAAA, CNAME}`: the answer to every lookup.
    #[serde(default)]
    dns: Option<Value>,
    /// Answers to successive lookups.
    #[serde(default)]
    dns_sequence: Option<Value>,
    /// The answers of the servers, in order.
    #[serde(default)]
    redirects: Vec<Hop>,
    /// Whom the last connection went to.
    #[serde(default)]
    peer: Option<String>,
    /// The environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// What a server answers.
#[derive(Debug, Clone, Deserialize)]
struct Hop {
    #[serde(default)]
    status: u16,
    #[serde(default)]
    location: Option<String>,
    #[serde(default)]
    refresh: Option<String>,
    #[serde(default)]
    alt_svc: Option<String>,
}

impl Judge {
    /// Judges a whole fetch, hop by hop.
    pub fn row(&self, row: &Row) -> Result<(), Refusal> {
        self.environment(
            row.env
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        )?;
        let mut trail = vec![self.url(&row.url)?];
        let mut judged = self.looked_up(row, trail.first())?;
        for hop in &row.redirects {
            let Some(from) = trail.last() else { break };
            if let Some(header) = &hop.alt_svc {
                self.alt_svc(header)?;
            }
            if let Some(header) = &hop.refresh {
                self.refresh(from, header)?;
            }
            let Some(location) = hop.location.as_deref().filter(|_| redirects(hop.status)) else {
                continue;
            };
            let next = self.redirect(&trail, location)?;
            judged = self.looked_up(row, Some(&next))?;
            trail.push(next);
        }
        let Some(peer) = &row.peer else {
            return Ok(());
        };
        let peer = peer.parse().map_err(|_| Refusal::NotAnAddress)?;
        self.peer(&judged, peer, trail.last().map_or(0, Target::port))
    }

    fn looked_up(&self, row: &Row, target: Option<&Target>) -> Result<Vec<IpAddr>, Refusal> {
        let Some(target) = target else {
            return Err(Refusal::Unresolved);
        };
        let mut answers = Answers::default();
        for records in [&row.dns, &row.dns_sequence].into_iter().flatten() {
            collect(records, &mut answers)?;
        }
        self.answers(target, &answers)
    }
}

/// Whether a client goes where the answer's Location says.
pub(crate) const fn redirects(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Takes every address and alias out of records, however they are nested.
fn collect(records: &Value, into: &mut Answers) -> Result<(), Refusal> {
    match records {
        Value::Null => Ok(()),
        Value::String(address) => {
            into.addresses
                .push(address.parse().map_err(|_| Refusal::NotAnAddress)?);
            Ok(())
        }
        Value::Array(many) => many.iter().try_for_each(|each| collect(each, into)),
        Value::Object(kinds) => kinds.iter().try_for_each(|(kind, records)| {
            if kind.eq_ignore_ascii_case("cname") {
                alias(records, into)
            } else if kind.eq_ignore_ascii_case("ttl") {
                Ok(())
            } else {
                collect(records, into)
            }
        }),
        Value::Bool(_) | Value::Number(_) => Err(Refusal::NotAnAddress),
    }
}

fn alias(records: &Value, into: &mut Answers) -> Result<(), Refusal> {
    match records {
        Value::Null => Ok(()),
        Value::String(name) => {
            into.aliases.push(name.clone());
            Ok(())
        }
        Value::Array(many) => many.iter().try_for_each(|each| alias(each, into)),
        _ => Err(Refusal::NotAnAddress),
    }
}
