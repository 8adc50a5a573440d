//! Plugins that know the network: they filter on latency, bandwidth and addresses, score by them and reserve them.
//!
//! Where the network's figures come from is [`crate::topology`]'s business; what is promised on links and of pools is the
//! ledger's.
//!
//! Does not: fetch anything; figures are at hand before a cycle begins.
//!
//! Children in reading order: `peers` (whom a pod talks to), `topology_aware`.

mod peers;
pub(super) mod topology_aware;
