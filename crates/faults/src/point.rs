//! The named steps of a call's way.

macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)+) => {
        /// A step of a call's way at which a process may die. Source: architecture, section 2.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Point {
            $($(#[$doc])* $point,)+
        }

        impl Point {
            /// All of them, in the order in which a call comes by.
            pub const ALL: &[Self] = &[$(Self::$point,)+];

            /// Its name in files and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)+
                }
            }
        }
    };
}

points! {
    /// The registry has a person's message on disk and has not answered.
    MessageKept = "message-kept",
    /// The agent has its checkpoint on disk and has named nothing yet.
    CheckpointKept = "checkpoint-kept",
    /// The executor has made the plan and has not filed it.
    Planned = "planned",
    /// The registry has written the call, and nothing is committed.
    Filing = "filing",
    /// The call is on disk, and the executor has no answer.
    Filed = "filed",
    /// The agent has its executor's answer and has not written it down.
    Named = "named",
    /// The registry has written a decision, and nothing is committed.
    Deciding = "deciding",
    /// The decision is on disk, and the gateway has no answer.
    Decided = "decided",
    /// The gateway has the registry's answer, and the person has none.
    Answering = "answering",
    /// A permit is minted, and the executor has no answer.
    Minted = "minted",
    /// The executor has checked its permit and has not redeemed it.
    Checked = "checked",
    /// The registry has written the claim, and nothing is committed.
    Redeeming = "redeeming",
    /// The claim is on disk, and the executor has no answer.
    Redeemed = "redeemed",
    /// The executor has redeemed its permit and has done nothing.
    Claimed = "claimed",
    /// The executor has done it and has told nobody.
    Acted = "acted",
    /// The registry has written the end, and nothing is committed.
    Settling = "settling",
    /// The end is on disk, and the executor has no answer.
    Settled = "settled",
    /// The agent has seen the end of a call and has not gone on.
    OutcomeSeen = "outcome-seen",
    /// The registry has the reply and the turn's end on disk, and the agent has no answer.
    TurnEnded = "turn-ended",
}
