//! How many requests a credential or a visitor may make.

use std::{hash::Hash, net::IpAddr, num::NonZeroU32};

use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    state::keyed::HashMapStateStore,
};
use kazma_edge::ApiError;
use kazma_wire::Problem;
use uuid::Uuid;

/// Keys kept before the ones that are full again are dropped.
const KEYS_MAX: usize = 4096;

/// The limits of the public API. Source: contracts, gateway HTTP API.
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    /// Requests a second of one credential.
    pub per_second: NonZeroU32,
    /// How many of them may come at once.
    pub burst: NonZeroU32,
    /// Calls of `/api/approve` a minute of one credential.
    pub approvals_per_minute: NonZeroU32,
}

impl Default for Rates {
    fn default() -> Self {
        let number = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        Self {
            per_second: number(200),
            burst: number(400),
            approvals_per_minute: number(20),
        }
    }
}

/// The buckets.
#[derive(Debug)]
pub(crate) struct Limits {
    credentials: Buckets<Uuid>,
    approvals: Buckets<Uuid>,
    visitors: Buckets<IpAddr>,
}

#[derive(Debug)]
struct Buckets<K: Hash + Eq + Clone + std::fmt::Debug> {
    limiter: RateLimiter<K, HashMapStateStore<K>, DefaultClock>,
    clock: DefaultClock,
}

impl<K: Hash + Eq + Clone + std::fmt::Debug> Buckets<K> {
    fn new(quota: Quota) -> Self {
        Self {
            limiter: RateLimiter::hashmap(quota),
            clock: DefaultClock::default(),
        }
    }

    fn check(&self, key: &K) -> Result<(), ApiError> {
        if self.limiter.len() > KEYS_MAX {
            self.limiter.retain_recent();
        }
        self.limiter.check_key(key).map_err(|until| {
            let wait = until.wait_time_from(self.clock.now());
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            too_many(seconds.max(1))
        })
    }
}

/// 429 with the time to wait.
pub(crate) fn too_many(seconds: u64) -> ApiError {
    Problem::new(429, "too-many", "Too many requests")
        .detail(format!("Try again in {seconds} s."))
        .with("retry_after", seconds)
        .into()
}

impl Limits {
    pub(crate) fn new(rates: Rates) -> Self {
        let steady = Quota::per_second(rates.per_second).allow_burst(rates.burst);
        Self {
            credentials: Buckets::new(steady),
            approvals: Buckets::new(Quota::per_minute(rates.approvals_per_minute)),
            visitors: Buckets::new(steady),
        }
    }

    /// One request of a credential.
    pub(crate) fn request(&self, credential: Uuid) -> Result<(), ApiError> {
        self.credentials.check(&credential)
    }

    /// One call of `/api/approve`.
    pub(crate) fn approval(&self, credential: Uuid) -> Result<(), ApiError> {
        self.approvals.check(&credential)
    }

    /// One request of somebody who is not signed in.
    pub(crate) fn visit(&self, peer: IpAddr) -> Result<(), ApiError> {
        self.visitors.check(&network(peer))
    }
}

/// Who has one IPv6 address has 2^64 of them.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
        ip @ IpAddr::V4(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_keys_own() {
        let one = NonZeroU32::MIN;
        let limits = Limits::new(Rates {
            per_second: one,
            burst: one,
            approvals_per_minute: one,
        });
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert!(limits.approval(a).is_ok());
        let refused = limits.approval(a).unwrap_err().0;
        assert_eq!(refused.status, 429);
        assert_eq!(refused.more["retry_after"], 60);
        assert!(limits.approval(b).is_ok());
    }

    #[test]
    fn neighbours_in_one_ipv6_network_share() {
        let one = NonZeroU32::MIN;
        let limits = Limits::new(Rates {
            per_second: one,
            burst: one,
            approvals_per_minute: one,
        });
        assert!(limits.visit("2001:db8::1".parse().unwrap()).is_ok());
        assert!(limits.visit("2001:db8::2".parse().unwrap()).is_err());
        assert!(limits.visit("2001:db8:0:1::2".parse().unwrap()).is_ok());
    }
}
