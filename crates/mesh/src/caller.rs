//! Who calls, as an extractor: a handler's signature says who may.

use std::marker::PhantomData;

use axum::extract::{ConnectInfo, FromRequestParts};
use http::request::Parts;
use kazma_domain::Service;
use kazma_edge::ApiError;
use kazma_wire::Problem;

/// The other end of a connection of the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The service in its certificate; none for a caller without one.
    pub service: Option<Service>,
}

/// A set of services that may call a route.
pub trait Callers: Send + Sync + 'static {
    /// The services.
    const ALLOWED: &'static [Service];
}

/// Every service of the mesh.
#[derive(Debug)]
pub enum Anyone {}

impl Callers for Anyone {
    const ALLOWED: &'static [Service] = &Service::ALL;
}

/// The calling service, which is one of `C`.
#[derive(Debug)]
pub struct Caller<C: Callers> {
    /// Which.
    pub service: Service,
    allowed: PhantomData<fn() -> C>,
}

impl<C: Callers, S: Send + Sync> FromRequestParts<S> for Caller<C> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let peer = parts
            .extensions
            .get::<ConnectInfo<Peer>>()
            .and_then(|info| info.0.service);
        match peer {
            None => Err(
                Problem::new(401, "no-certificate", "A certificate of the mesh is needed").into(),
            ),
            Some(service) if C::ALLOWED.contains(&service) => Ok(Self {
                service,
                allowed: PhantomData,
            }),
            Some(service) => Err(
                Problem::new(403, "wrong-service", "Another service's route")
                    .detail(format!("{service} may not call this."))
                    .into(),
            ),
        }
    }
}
