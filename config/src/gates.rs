//! Feature gates of kube-scheduler 1.36: names, stages, defaults, and which values we can live up to.
//!
//! A gate's default is always accepted. A changed value is accepted when our behaviour follows it (or does not depend
//! on it); otherwise it is refused by name, because a gate that is silently ignored is worse than a start-up error.
//!
//! Source: `pkg/features/kube_features.go`.

use crate::decode::hint;

/// Maturity of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Off unless asked for.
    Alpha,
    /// May be on by default.
    Beta,
    /// Generally available.
    Ga,
    /// Generally available and no longer changeable.
    Locked,
}

/// Which values of a gate we follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    /// Both: we follow it, or it concerns other components or only how upstream works inside.
    Any,
    /// Only the default, because the other behaviour is not here.
    Default,
}

/// A known gate.
#[derive(Debug, Clone, Copy)]
struct Gate {
    name: &'static str,
    stage: Stage,
    default: bool,
    values: Values,
}

const fn gate(name: &'static str, stage: Stage, default: bool, values: Values) -> Gate {
    Gate {
        name,
        stage,
        default,
        values,
    }
}

use Stage::{Alpha, Beta, Ga, Locked};

/// The gates that matter to a scheduler, sorted by name.
const GATES: [Gate; 47] = [
    gate("ClearingNominatedNodeNameAfterBinding", Beta, true, Values::Any),
    gate("ComponentFlagz", Beta, true, Values::Any),
    gate("ComponentStatusz", Beta, true, Values::Any),
    gate("CoordinatedLeaderElection", Beta, false, Values::Default),
    gate("DRAAdminAccess", Locked, true, Values::Default),
    gate("DRAConsumableCapacity", Beta, true, Values::Default),
    gate("DRADeviceBindingConditions", Beta, true, Values::Default),
    gate("DRADeviceTaintRules", Beta, false, Values::Default),
    gate("DRADeviceTaints", Beta, true, Values::Default),
    gate("DRAExtendedResource", Beta, true, Values::Default),
    gate("DRAListTypeAttributes", Alpha, false, Values::Default),
    gate("DRANodeAllocatableResources", Alpha, false, Values::Default),
    gate("DRAPartitionableDevices", Beta, true, Values::Default),
    gate("DRAPrioritizedList", Ga, true, Values::Default),
    gate("DRAResourceClaimDeviceStatus", Beta, true, Values::Any),
    gate("DRAResourceClaimGranularStatusAuthorization", Beta, true, Values::Any),
    gate("DRASchedulerFilterTimeout", Beta, true, Values::Default),
    gate("DRAWorkloadResourceClaims", Alpha, false, Values::Default),
    gate("DynamicResourceAllocation", Locked, true, Values::Default),
    gate("GangScheduling", Alpha, false, Values::Default),
    gate("GenericWorkload", Alpha, false, Values::Default),
    gate("InPlacePodLevelResourcesVerticalScaling", Beta, true, Values::Default),
    gate("InPlacePodVerticalScaling", Locked, true, Values::Default),
    gate("MatchLabelKeysInPodAffinity", Locked, true, Values::Default),
    gate("MatchLabelKeysInPodTopologySpread", Beta, true, Values::Default),
    gate(
        "MatchLabelKeysInPodTopologySpreadSelectorMerge",
        Beta,
        true,
        Values::Default,
    ),
    gate("MutableCSINodeAllocatableCount", Locked, true, Values::Default),
    gate("MutablePVNodeAffinity", Alpha, false, Values::Default),
    gate("NodeDeclaredFeatures", Beta, true, Values::Any),
    gate("NodeInclusionPolicyInPodTopologySpread", Locked, true, Values::Default),
    gate("NominatedNodeNameForExpectation", Beta, true, Values::Default),
    gate("OpportunisticBatching", Beta, true, Values::Any),
    gate("PodLevelResources", Beta, true, Values::Default),
    gate("PodObservedGenerationTracking", Locked, true, Values::Default),
    gate("PodSchedulingReadiness", Locked, true, Values::Default),
    gate("SchedulerAsyncAPICalls", Beta, false, Values::Default),
    gate("SchedulerAsyncPreemption", Beta, true, Values::Any),
    gate("SchedulerPopFromBackoffQ", Beta, true, Values::Default),
    gate("SchedulerQueueingHints", Locked, true, Values::Default),
    gate("SidecarContainers", Locked, true, Values::Default),
    gate("StorageCapacityScoring", Alpha, false, Values::Any),
    gate("TaintTolerationComparisonOperators", Alpha, false, Values::Default),
    gate("TopologyAwareWorkloadScheduling", Alpha, false, Values::Default),
    gate("VolumeAttributesClass", Locked, true, Values::Default),
    gate("VolumeLimitScaling", Alpha, false, Values::Default),
    gate("WorkloadAwarePreemption", Alpha, false, Values::Default),
    gate("WorkloadWithJob", Alpha, false, Values::Default),
];

/// Gates of libraries and other components that kube-scheduler's flag knows too; they change nothing here.
const FOREIGN: [&str; 16] = [
    "APIServerTracing",
    "ClientsAllowCBOR",
    "ClientsPreferCBOR",
    "ContextualLogging",
    "InOrderInformers",
    "InformerResourceVersion",
    "KubeletInUserNamespace",
    "LoggingAlphaOptions",
    "LoggingBetaOptions",
    "NodeSwap",
    "ProcMountType",
    "RecoverVolumeExpansionFailure",
    "RotateKubeletServerCertificate",
    "UserNamespacesSupport",
    "WatchList",
    "WatchListClient",
];

/// Why a gate setting is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// Not `Name=true` or `Name=false`.
    #[error("feature gate setting {0:?} is not of the form Name=true or Name=false")]
    Malformed(String),
    /// No such gate.
    #[error("unrecognized feature gate: {name}{hint}")]
    Unknown {
        /// The name.
        name: String,
        /// A similar name, with its punctuation.
        hint: String,
    },
    /// The gate is locked.
    #[error("cannot set feature gate {name} to {value}, feature is locked to {default}")]
    Locked {
        /// The gate.
        name: &'static str,
        /// What was asked for.
        value: bool,
        /// What it stays at.
        default: bool,
    },
    /// We lack the behaviour.
    #[error("cannot set feature gate {name} to {value}: this scheduler has only the behaviour of {name}={default}")]
    NotSupported {
        /// The gate.
        name: &'static str,
        /// What was asked for.
        value: bool,
        /// What it has.
        default: bool,
    },
}

/// The state of all gates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// Gates that differ from their default.
    changed: Vec<(&'static str, bool)>,
}

impl FeatureGates {
    /// Parses `A=true,B=false`; later settings of a name win. Empty parts are skipped, as upstream skips them.
    ///
    /// # Errors
    /// Every setting that cannot be taken.
    pub fn parse(text: &str) -> Result<Self, Vec<GateError>> {
        let mut errors = Vec::new();
        let mut settings: Vec<(&str, bool)> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part
                .split_once('=')
                .and_then(|(name, value)| Some((name.trim(), parse_bool(value.trim())?)))
            {
                Some((name, value)) => {
                    settings.retain(|(earlier, _)| *earlier != name);
                    settings.push((name, value));
                }
                None => errors.push(GateError::Malformed(part.to_owned())),
            }
        }
        let mut gates = Self::default();
        for (name, value) in &settings {
            match *name {
                "AllAlpha" => gates.set_stage(Alpha, *value, &settings, &mut errors),
                "AllBeta" => gates.set_stage(Beta, *value, &settings, &mut errors),
                name => match GATES.iter().find(|gate| gate.name == name) {
                    Some(gate) => gates.set(gate, *value, &mut errors),
                    None if FOREIGN.contains(&name) => {}
                    None => errors.push(unknown(name)),
                },
            }
        }
        if errors.is_empty() { Ok(gates) } else { Err(errors) }
    }

    fn set(&mut self, gate: &Gate, value: bool, errors: &mut Vec<GateError>) {
        let Gate { name, default, .. } = *gate;
        if value == default {
            return;
        }
        match (gate.stage, gate.values) {
            (Locked, _) => errors.push(GateError::Locked { name, value, default }),
            (_, Values::Default) => errors.push(GateError::NotSupported { name, value, default }),
            (_, Values::Any) => self.changed.push((name, value)),
        }
    }

    /// `AllAlpha` and `AllBeta`: every gate of the stage that is not set by its own name.
    fn set_stage(&mut self, stage: Stage, value: bool, settings: &[(&str, bool)], errors: &mut Vec<GateError>) {
        let own = |gate: &&Gate| settings.iter().any(|(name, _)| *name == gate.name);
        for gate in GATES.iter().filter(|gate| gate.stage == stage && !own(gate)) {
            self.set(gate, value, errors);
        }
    }

    /// Whether a gate is on; unknown names are off. O(gates).
    pub fn enabled(&self, name: &str) -> bool {
        let changed = self
            .changed
            .iter()
            .find(|(changed, _)| *changed == name)
            .map(|(_, value)| *value);
        changed.unwrap_or_else(|| GATES.iter().any(|gate| gate.name == name && gate.default))
    }

    /// All gates by name: name, stage, whether on. For `kubernetes_feature_enabled` and help.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Stage, bool)> {
        GATES
            .iter()
            .map(|gate| (gate.name, gate.stage, self.enabled(gate.name)))
    }
}

/// Go's `strconv.ParseBool`.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

fn unknown(name: &str) -> GateError {
    let names: Vec<&str> = GATES.iter().map(|gate| gate.name).collect();
    // All names would be a page; only a likely one helps.
    let hint = Some(hint(name, &names))
        .filter(|hint| hint.contains("did you mean"))
        .unwrap_or_default();
    GateError::Unknown {
        name: name.to_owned(),
        hint,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn errors(text: &str, expected: &Expect) {
        let errors = FeatureGates::parse(text).unwrap_err();
        expected.assert_eq(&errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn table_is_sorted_and_locked_gates_have_one_value() {
        assert!(GATES.is_sorted_by_key(|gate| gate.name));
        assert!(
            GATES
                .iter()
                .all(|gate| gate.stage != Locked || gate.values == Values::Default)
        );
        assert!(GATES.iter().all(|gate| gate.stage != Alpha || !gate.default));
    }

    #[test]
    fn defaults_and_supported_changes_are_taken() {
        let gates =
            FeatureGates::parse("SchedulerQueueingHints=true, NodeDeclaredFeatures=false,,AllAlpha=false").unwrap();
        assert!(gates.enabled("SchedulerQueueingHints"));
        assert!(!gates.enabled("NodeDeclaredFeatures"));
        assert!(!gates.enabled("GangScheduling"));
        assert!(FeatureGates::parse("WatchListClient=false,ContextualLogging=1").is_ok());
        assert!(FeatureGates::parse("StorageCapacityScoring=true").is_ok());
        let again = FeatureGates::parse("NodeDeclaredFeatures=false,NodeDeclaredFeatures=true").unwrap();
        assert_eq!(again, FeatureGates::default());
    }

    #[test]
    fn every_bad_setting_is_named() {
        errors(
            "GangScheduling=true,SchedulerAsyncAPICalls=true,SchedulerQueueingHints=false,GangSchedulin=true,X,Y=maybe,Zzz=true",
            &expect![[r#"
                feature gate setting "X" is not of the form Name=true or Name=false
                feature gate setting "Y=maybe" is not of the form Name=true or Name=false
                cannot set feature gate GangScheduling to true: this scheduler has only the behaviour of GangScheduling=false
                cannot set feature gate SchedulerAsyncAPICalls to true: this scheduler has only the behaviour of SchedulerAsyncAPICalls=false
                cannot set feature gate SchedulerQueueingHints to false, feature is locked to true
                unrecognized feature gate: GangSchedulin; did you mean "GangScheduling"?
                unrecognized feature gate: Zzz"#]],
        );
    }

    #[test]
    fn whole_stages_are_refused_by_each_gate() {
        let refused = FeatureGates::parse("AllAlpha=true").unwrap_err();
        assert!(refused.len() > 5);
        let refused = FeatureGates::parse("AllBeta=true").unwrap_err();
        assert!(
            refused
                .iter()
                .any(|error| error.to_string().contains("SchedulerAsyncAPICalls"))
        );
    }
}
