//! What every program shows of itself.

use kazma_metrics::{Meters, MetricError};
use kazma_runtime::Held;

/// Shows what the kernel holds of this process's confinement; none before it is known.
///
/// # Errors
///
/// Where the name is taken.
pub fn confinement(meters: &Meters, held: Option<Held>) -> Result<(), MetricError> {
    let shown = meters.gauges(
        "kazma_confinement_info",
        "Always 1; whether Landlock holds this process by `all` of its rules, `partly` or by `none`.",
        ["landlock"],
    )?;
    let word = match held {
        None => return Ok(()),
        Some(Held::All) => "all",
        Some(Held::Partly) => "partly",
        Some(Held::WithoutLandlock) => "none",
    };
    shown.set([word], 1.0);
    Ok(())
}
