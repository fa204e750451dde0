//! The gate registry as the runner sees it: a seam, so that tests can script it.

use futures_util::future::BoxFuture;
use kazma_domain::{CallId, permit::SignedPermit};
use kazma_wire::{
    Problem,
    executor::{
        Claim, FileRequest, Filed, LoseRequest, OutputRequest, RedeemRequest, Redeemed,
        ReplanRequest, ReportRequest, SettleRequest, WithdrawRequest, Work,
    },
    poll::{Poll, Polled},
};

/// Why the registry did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// It answered, and refused.
    #[error("the registry refuses: {}", .0.title)]
    Refused(Box<Problem>),
    /// No answer came, or one that says to try again. It may have done it nevertheless.
    #[error("the registry does not answer")]
    Lost(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl RegistryError {
    /// Whether asking again may help.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Lost(_))
    }
}

/// What a request to the registry comes to.
pub type Asked<'a, T> = BoxFuture<'a, Result<T, RegistryError>>;

/// What an executor asks of the registry. Every request may be repeated.
pub trait Registry: Send + Sync + std::fmt::Debug + 'static {
    /// `POST /v1/calls`.
    fn file<'a>(&'a self, request: &'a FileRequest) -> Asked<'a, Filed>;
    /// `GET /v1/work`.
    fn work(&self, poll: Poll) -> Asked<'_, Polled<Work>>;
    /// `POST /v1/calls/{id}/permit`.
    fn collect(&self, call: CallId) -> Asked<'_, SignedPermit>;
    /// `POST /v1/permits/redeem`.
    fn redeem<'a>(&'a self, request: &'a RedeemRequest) -> Asked<'a, Redeemed>;
    /// `POST /v1/calls/{id}/output`.
    fn output<'a>(&'a self, call: CallId, request: &'a OutputRequest) -> Asked<'a, ()>;
    /// `POST /v1/calls/{id}/settle`.
    fn settle<'a>(&'a self, call: CallId, request: &'a SettleRequest) -> Asked<'a, ()>;
    /// `POST /v1/calls/{id}/replan`.
    fn replan<'a>(&'a self, call: CallId, request: &'a ReplanRequest) -> Asked<'a, SignedPermit>;
    /// `POST /v1/calls/{id}/withdraw`.
    fn withdraw<'a>(&'a self, call: CallId, request: &'a WithdrawRequest) -> Asked<'a, ()>;
    /// `POST /v1/calls/{id}/lose`.
    fn lose<'a>(&'a self, call: CallId, request: &'a LoseRequest) -> Asked<'a, ()>;
    /// `GET /v1/claims`.
    fn claims(&self) -> Asked<'_, Vec<Claim>>;
    /// `POST /v1/claims/report`.
    fn report<'a>(&'a self, request: &'a ReportRequest) -> Asked<'a, ()>;
}
