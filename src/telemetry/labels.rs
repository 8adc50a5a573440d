//! The enumerations behind label values.
//!
//! Does not: know metrics; each value has a dense index and the text that kube-scheduler uses.

/// Defines an enumeration with a dense index and a fixed text for each value.
macro_rules! label_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident => $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_doc])* $variant),+
        }

        impl $name {
            /// Every value, in index order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The label's text.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text),+
                }
            }

            /// Position in [`Self::ALL`].
            #[must_use]
            pub const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

label_enum! {
    /// Outcome of a scheduling attempt.
    AttemptResult {
        /// A node was found and the pod was bound.
        Scheduled => "scheduled",
        /// No node fits now.
        Unschedulable => "unschedulable",
        /// The scheduler itself failed.
        Error => "error",
    }
}

label_enum! {
    /// What failed of a pod's volumes, spelled as in `volume_scheduling_stage_error_total`.
    VolumeStage {
        /// Looking at a node.
        Predicate => "predicate",
        /// Promising volumes.
        Assume => "assume",
        /// Writing what was promised, and waiting for what comes of it.
        Bind => "bind",
    }
}

label_enum! {
    /// An extension point, spelled as in `framework_extension_point_duration_seconds`.
    ExtensionPoint {
        /// Before the pod may enter the active queue.
        PreEnqueue => "PreEnqueue",
        /// Once a pod, before Filter.
        PreFilter => "PreFilter",
        /// A pod is added to the pre-filter state of a dry run.
        PreFilterExtensionAddPod => "PreFilterExtensionAddPod",
        /// A pod is removed from the pre-filter state of a dry run.
        PreFilterExtensionRemovePod => "PreFilterExtensionRemovePod",
        /// Once a node.
        Filter => "Filter",
        /// When no node passed.
        PostFilter => "PostFilter",
        /// Once a pod, before Score.
        PreScore => "PreScore",
        /// Once a feasible node.
        Score => "Score",
        /// After all nodes have a raw score.
        ScoreExtensionNormalize => "ScoreExtensionNormalize",
        /// Reserve, in order.
        Reserve => "Reserve",
        /// Unreserve, in reverse order.
        Unreserve => "Unreserve",
        /// Before binding may start.
        Permit => "Permit",
        /// Whether PreBind has anything to do.
        PreBindPreFlight => "PreBindPreFlight",
        /// Before Bind.
        PreBind => "PreBind",
        /// The bind itself.
        Bind => "Bind",
        /// After the bind.
        PostBind => "PostBind",
        /// The pod's signature for batching.
        Sign => "Sign",
    }
}

label_enum! {
    /// The points at which `plugin_evaluation_total` counts.
    EvaluationPoint {
        /// PreFilter.
        PreFilter => "PreFilter",
        /// Filter.
        Filter => "Filter",
        /// PreScore.
        PreScore => "PreScore",
        /// Score.
        Score => "Score",
    }
}

label_enum! {
    /// A status code as a label.
    StatusLabel {
        /// Passed.
        Success => "Success",
        /// The plugin failed.
        Error => "Error",
        /// Does not fit now; preemption may help.
        Unschedulable => "Unschedulable",
        /// Does not fit; preemption cannot help.
        UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
        /// Permit asks to wait.
        Wait => "Wait",
        /// The plugin has nothing to do for this pod.
        Skip => "Skip",
        /// Scheduling waits for something outside.
        Pending => "Pending",
    }
}

label_enum! {
    /// One of the queues of pods that are not placed yet.
    QueueKind {
        /// Ready to be popped.
        Active => "active",
        /// Waiting for its backoff to end.
        Backoff => "backoff",
        /// Waiting for an event that may help.
        Unschedulable => "unschedulable",
        /// Held back by PreEnqueue.
        Gated => "gated",
    }
}

label_enum! {
    /// What `cache_size` counts.
    CacheKind {
        /// Nodes known.
        Nodes => "nodes",
        /// Pods on nodes.
        Pods => "pods",
        /// Pods reserved here and not yet seen bound.
        AssumedPods => "assumed_pods",
    }
}

label_enum! {
    /// What a queueing hint answered.
    HintOutcome {
        /// The event may help.
        Queue => "Queue",
        /// It cannot help.
        QueueSkip => "QueueSkip",
        /// The hint failed (the pod is queued).
        Error => "Error",
    }
}

label_enum! {
    /// A plain success or failure.
    Outcome {
        /// Done.
        Success => "success",
        /// Not done.
        Error => "error",
    }
}

label_enum! {
    /// How a pod's nodes were evaluated.
    EngineMode {
        /// Every node, from nothing.
        Full => "full",
        /// From the class's index, with the changes since.
        Incremental => "incremental",
    }
}

label_enum! {
    /// Health endpoint, the `type` label of `kubernetes_healthcheck`.
    HealthEndpoint {
        /// `/healthz`
        Healthz => "healthz",
        /// `/livez`
        Livez => "livez",
        /// `/readyz`
        Readyz => "readyz",
    }
}

label_enum! {
    /// Outcome of one health check.
    HealthOutcome {
        /// Passed.
        Success => "success",
        /// Failed.
        Error => "error",
        /// Not evaluated yet.
        Pending => "pending",
    }
}

label_enum! {
    /// HTTP method of a request to the API server.
    HttpVerb {
        /// Read.
        Get => "GET",
        /// Create.
        Post => "POST",
        /// Replace.
        Put => "PUT",
        /// Change in part.
        Patch => "PATCH",
        /// Remove.
        Delete => "DELETE",
        /// Any other.
        Other => "OTHER",
    }
}
