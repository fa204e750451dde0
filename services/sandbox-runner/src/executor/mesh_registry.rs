//! The gate registry over the mesh.

use kazma_domain::{CallId, permit::SignedPermit};
use kazma_mesh::{CallError, Client};
use kazma_wire::{
    executor::{
        Claim, FileRequest, Filed, LoseRequest, OutputRequest, RedeemRequest, Redeemed,
        ReplanRequest, ReportRequest, SettleRequest, WithdrawRequest, Work,
    },
    poll::{Poll, Polled},
};
use serde::{Serialize, de::IgnoredAny};

use super::registry::{Asked, Registry, RegistryError};

/// Asks the real registry.
#[derive(Debug, Clone)]
pub struct MeshRegistry(pub Client);

impl From<CallError> for RegistryError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Problem { problem, .. } if problem.status < 500 && problem.status != 429 => {
                Self::Refused(problem)
            }
            lost => Self::Lost(Box::new(lost)),
        }
    }
}

impl MeshRegistry {
    async fn tell<B: Serialize + Sync>(&self, path: String, body: &B) -> Result<(), RegistryError> {
        let _: IgnoredAny = self.0.post(&path, body).await?;
        Ok(())
    }
}

/// An empty JSON object, the body of requests that say everything in their path.
#[derive(Debug, Serialize)]
struct Nothing {}

impl Registry for MeshRegistry {
    fn file<'a>(&'a self, request: &'a FileRequest) -> Asked<'a, Filed> {
        Box::pin(async move { Ok(self.0.post("/v1/calls", request).await?) })
    }

    fn work(&self, poll: Poll) -> Asked<'_, Polled<Work>> {
        let path = format!("/v1/work?after={}&wait_ms={}", poll.after, poll.wait_ms);
        Box::pin(async move { Ok(self.0.get(&path).await?) })
    }

    fn collect(&self, call: CallId) -> Asked<'_, SignedPermit> {
        let path = format!("/v1/calls/{call}/permit");
        Box::pin(async move { Ok(self.0.post(&path, &Nothing {}).await?) })
    }

    fn redeem<'a>(&'a self, request: &'a RedeemRequest) -> Asked<'a, Redeemed> {
        Box::pin(async move { Ok(self.0.post("/v1/permits/redeem", request).await?) })
    }

    fn output<'a>(&'a self, call: CallId, request: &'a OutputRequest) -> Asked<'a, ()> {
        Box::pin(self.tell(format!("/v1/calls/{call}/output"), request))
    }

    fn settle<'a>(&'a self, call: CallId, request: &'a SettleRequest) -> Asked<'a, ()> {
        Box::pin(self.tell(format!("/v1/calls/{call}/settle"), request))
    }

    fn replan<'a>(&'a self, call: CallId, request: &'a ReplanRequest) -> Asked<'a, SignedPermit> {
        let path = format!("/v1/calls/{call}/replan");
        Box::pin(async move { Ok(self.0.post(&path, request).await?) })
    }

    fn withdraw<'a>(&'a self, call: CallId, request: &'a WithdrawRequest) -> Asked<'a, ()> {
        Box::pin(self.tell(format!("/v1/calls/{call}/withdraw"), request))
    }

    fn lose<'a>(&'a self, call: CallId, request: &'a LoseRequest) -> Asked<'a, ()> {
        Box::pin(self.tell(format!("/v1/calls/{call}/lose"), request))
    }

    fn claims(&self) -> Asked<'_, Vec<Claim>> {
        Box::pin(async move {
            let polled: Polled<Claim> = self.0.get("/v1/claims").await?;
            Ok(polled.items)
        })
    }

    fn report<'a>(&'a self, request: &'a ReportRequest) -> Asked<'a, ()> {
        Box::pin(self.tell("/v1/claims/report".to_owned(), request))
    }
}
