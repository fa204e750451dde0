//! kazma-policy.
