//! What is done beyond this house: fetches and searches.

use std::sync::Arc;

use kazma_domain::{Action, Plan, Service, plan::Part};
use kazma_netguard::{Client, Origin, Target};
use kazma_wire::{Problem, executor::Claim};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    arguments::Request,
    fetch,
    search::{self, Search},
};
use crate::executor::{Finish, Hands, Redeemed, Refused};

/// The hands of the egress process. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    pub(crate) client: Client,
    /// Where searches go; none if the operator configured no service.
    pub(crate) search: Option<Origin>,
    /// Fetches at the same time.
    pub(crate) slots: Arc<Semaphore>,
}

/// What carries a plan out.
#[derive(Debug)]
pub(crate) enum Act {
    Fetch { target: Target, part: Part },
    Search(Search),
}

impl Hands for Reach {
    const ME: Service = Service::RunnerEgress;
    type Request = Request;
    type Act = Act;
    type Place = OwnedSemaphorePermit;

    fn parse(tool: &str, arguments: &Value) -> Result<Request, Problem> {
        Request::parse(tool, arguments)
    }

    async fn plan(&self, request: Request) -> Result<(Action, Act), Refused> {
        match request {
            Request::Fetch { url, part } => {
                let (action, target) = fetch::plan(&self.client, &url, part)?;
                Ok((action, Act::Fetch { target, part }))
            }
            Request::Search { query, results } => {
                let (action, search) = search::plan(self.search.as_ref(), &query, results)?;
                Ok((action, Act::Search(search)))
            }
        }
    }

    async fn place(&self, _: &Plan) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).acquire_owned().await.ok()
    }

    async fn act(&self, _spent: Redeemed, act: Act, _: &mut OwnedSemaphorePermit) -> Finish {
        match act {
            Act::Fetch { target, part } => fetch::act(&self.client, &target, part).await,
            Act::Search(search) => search::act(&self.client, &search).await,
        }
    }

    fn what_changed(filed: &Plan, now: &Plan) -> String {
        match (&filed.action, &now.action) {
            (Action::SearchWeb { service: then, .. }, Action::SearchWeb { service: now, .. })
                if then != now =>
            {
                format!("The search service is {now} now; the card said {then}.")
            }
            _ => "What would be sent now is not what the card showed.".to_owned(),
        }
    }

    async fn what_became_of(&self, _: &Claim) -> Finish {
        Finish::Lost(
            "The runner was started anew while it asked; whether the request arrived is not known. It is not \
             sent again."
                .to_owned(),
        )
    }
}
