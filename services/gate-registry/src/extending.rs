//! More time to answer a card.

use kazma_domain::{Event, GateId, State};
use kazma_store::registry::calls;
use kazma_wire::gateway::{ExtendRequest, Extended};
use serde_json::json;

use crate::{Error, Registry, people::gate_subjects};

impl Registry {
    /// Gives a card more time: every call of it that waits, the same deadline for all.
    ///
    /// # Errors
    ///
    /// Refuses who may not decide, and a question that has ended.
    pub async fn extend(&self, gate: GateId, request: ExtendRequest) -> Result<Extended, Error> {
        self.write(move |tx, step| {
            Box::pin(async move {
                let rows = calls::of_gate(tx, gate).await?;
                let first = rows.first().ok_or(Error::NotFound("gate"))?;
                let event = Event::Extend {
                    role: request.actor.role,
                };
                let mut until = None;
                let mut changed = false;
                for row in &rows {
                    if !matches!(row.call.state, State::Pending { .. }) {
                        continue;
                    }
                    let next = step.apply(tx, row, &event).await?;
                    changed |= next.is_some();
                    until = next.as_ref().unwrap_or(&row.call).state.deadline();
                }
                let Some(expires_at) = until else {
                    let state = first.call.state.name().to_owned();
                    return Err(Error::GateEnded { state });
                };
                if changed {
                    step.gate_anew(tx, gate).await?;
                    let payload = json!({"name": request.actor.name, "expires_at": expires_at});
                    let about = gate_subjects(gate, &rows);
                    step.record(tx, "gate.extended", request.actor.id, about, payload)
                        .await?;
                }
                Ok(Extended { expires_at })
            })
        })
        .await
    }
}
