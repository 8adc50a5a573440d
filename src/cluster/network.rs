//! What pods and nodes say about the network, and how all of it hangs together: the tree of places, latencies, who
//! depends on whom.
//!
//! Pods say it by annotations and labels, compiled once to a [`PodNetwork`]; nodes to a [`NodeNetwork`]. Where a node
//! lies in the tree is found when its object comes in. A worker sees all of it as of one position in the change log
//! ([`NetworkView`]).
//!
//! Does not: decide anything; keep what is promised on links and of pools (the ledger's).
//!
//! Children in reading order: `demand` (a pod's), `supply` (a node's), `apps` (AppGroups), `store` (what is known of the
//! whole), `view` (as a worker sees it).

mod apps;
mod demand;
mod store;
mod supply;
#[cfg(test)]
mod tests;
mod view;

pub use apps::{AppGroup, AppMember, Dependency};
pub use demand::{AddressRequest, Bandwidth, NetworkFaults, Peer, PeerTarget, PodNetwork};
pub use store::{Network, NetworkLevels};
pub use supply::NodeNetwork;
pub use view::NetworkView;
