//! Which Landlock this kernel has.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetError, Scope,
};

/// The kinds of rules that services use, oldest first. Source: landlock(7), "Landlock features".
const STEPS: [(ABI, u8); 6] = [
    (ABI::V1, 1),
    (ABI::V2, 2),
    (ABI::V3, 3),
    (ABI::V4, 4),
    (ABI::V5, 5),
    (ABI::V6, 6),
];

/// The newest Landlock ABI, of those that services use, that this kernel has; 0 for none. Nothing is
/// restricted by asking.
pub fn landlock_abi() -> u8 {
    STEPS
        .iter()
        .take_while(|(abi, _)| has(*abi).is_ok())
        .last()
        .map_or(0, |(_, number)| *number)
}

fn has(abi: ABI) -> Result<(), RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    let network = AccessNet::from_all(abi);
    if !network.is_empty() {
        ruleset = ruleset.handle_access(network)?;
    }
    let scopes = Scope::from_all(abi);
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    ruleset.create().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_restricts_nothing() {
        let before = landlock_abi();
        assert!(before <= 6);
        assert_eq!(landlock_abi(), before);
        assert!(std::fs::read_dir("/").is_ok());
    }
}
