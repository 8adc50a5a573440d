//! How a plugin's factory gets the plugin's args.
//!
//! Does not: check values; the configuration's loader has.

use std::borrow::Cow;

use supercargo_config::PluginArgs;
use supercargo_config::plugin_args::{
    DefaultPreemptionArgs, InterPodAffinityArgs, NodeAffinityArgs, NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs, PodTopologySpreadArgs, TopologyAwareArgs, VolumeBindingArgs,
};

use crate::framework::PluginContext;

/// The type of one plugin's args.
pub(super) trait OwnArgs: Clone + Default {
    /// As messages call it.
    const TYPE: &'static str;

    /// `args`, if they are of this type.
    fn cast(args: &PluginArgs) -> Option<&Self>;
}

macro_rules! own_args {
    ($($plugin:ident: $type:ident),+ $(,)?) => {$(
        impl OwnArgs for $type {
            const TYPE: &'static str = stringify!($type);

            fn cast(args: &PluginArgs) -> Option<&Self> {
                match args {
                    PluginArgs::$plugin(args) => Some(args),
                    _ => None,
                }
            }
        }
    )+};
}

own_args!(
    DefaultPreemption: DefaultPreemptionArgs,
    InterPodAffinity: InterPodAffinityArgs,
    NodeAffinity: NodeAffinityArgs,
    NodeResourcesBalancedAllocation: NodeResourcesBalancedAllocationArgs,
    NodeResourcesFit: NodeResourcesFitArgs,
    PodTopologySpread: PodTopologySpreadArgs,
    TopologyAware: TopologyAwareArgs,
    VolumeBinding: VolumeBindingArgs,
);

/// A plugin's own args, or their defaults where its profile has none.
///
/// # Errors
/// The args are another plugin's.
pub(super) fn own_args<'c, T: OwnArgs>(context: &PluginContext<'c>) -> Result<Cow<'c, T>, String> {
    match context.args {
        None => Ok(Cow::Owned(T::default())),
        Some(args) => match T::cast(args) {
            Some(own) => Ok(Cow::Borrowed(own)),
            None => Err(format!("want args to be of type {}", T::TYPE)),
        },
    }
}
