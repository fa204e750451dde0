//! kazma-agent.
