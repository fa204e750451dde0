//! The checks of the floor and of a permit's way.

macro_rules! checks {
    ($($(#[$doc:meta])* $check:ident = $name:literal,)+) => {
        /// A check that somebody must miss when it is gone.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Check {
            $($(#[$doc])* $check,)+
        }

        impl Check {
            /// All of them, in the order of a call's way.
            pub const ALL: &[Self] = &[$(Self::$check,)+];

            /// Its name in reports and in [`crate::SABOTAGE`].
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$check => $name,)+
                }
            }
        }
    };
}

checks! {
    /// An always-asked tool is asked.
    FloorAlways = "floor-always",
    /// A dangerous tool is asked.
    FloorDanger = "floor-danger",
    /// What leaves the house is asked.
    FloorLeavesHouse = "floor-leaves-house",
    /// A tool that nobody classified is asked.
    FloorUnclassified = "floor-unclassified",
    /// A tool is run by its own executor alone.
    FloorExecutor = "floor-executor",
    /// What this build does not have is denied.
    FloorNotBuilt = "floor-not-built",
    /// A call is filed in an open turn.
    FilingTurn = "filing-turn",
    /// The same key with another call is a conflict.
    FilingKey = "filing-key",
    /// What a person denied is denied again until they speak.
    FilingDeniedAgain = "filing-denied-again",
    /// Who decides may decide.
    DecisionRole = "decision-role",
    /// A decision is for the card that was seen.
    DecisionCard = "decision-card",
    /// A decision comes before the deadline.
    DecisionDeadline = "decision-deadline",
    /// A permit goes to the call's executor alone.
    CollectExecutor = "collect-executor",
    /// A permit is minted while the approval lasts.
    CollectLate = "collect-late",
    /// The executor: the signature is the registry's.
    PermitSignature = "permit-signature",
    /// The executor: the permit is for this service.
    PermitAudience = "permit-audience",
    /// The executor: the permit is for this call.
    PermitCall = "permit-call",
    /// The executor: the permit is for this plan.
    PermitPlan = "permit-plan",
    /// The executor: the permit is of this thread and on behalf of this principal.
    PermitThread = "permit-thread",
    /// The executor: the plan that was asked for is not quietly made again.
    PlanAgain = "plan-again",
    /// The executor: the registry's answer is about this attempt.
    RedeemAnswer = "redeem-answer",
    /// The registry: the signature is its own.
    RedeemSignature = "redeem-signature",
    /// The registry: who redeems is who the permit is for.
    RedeemAudience = "redeem-audience",
    /// The registry: it minted this permit for this call.
    RedeemMinted = "redeem-minted",
    /// The registry: no restore came between.
    RedeemEpoch = "redeem-epoch",
    /// The registry: the policy has not changed since.
    RedeemPolicy = "redeem-policy",
    /// The registry: the plan is the call's.
    RedeemPlan = "redeem-plan",
    /// The registry: the permit has not expired.
    RedeemExpiry = "redeem-expiry",
    /// The registry: the approval still lasts.
    RedeemLate = "redeem-late",
    /// The registry: a call is redeemed once.
    RedeemOnce = "redeem-once",
    /// The registry: only the call's executor moves it.
    OnlyExecutor = "only-executor",
    /// The registry: an end is not told otherwise later.
    SettleOnce = "settle-once",
    /// The store: a row is as it was seen.
    Version = "version",
}
