//! What a plugin asks of `binding` before a bind: typed requests to the API server, and something to wait for.
//!
//! Does not: perform anything.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::cluster::NodeSpec;
use crate::framework::Status;
use crate::ids::Symbol;

/// How a plugin prepares a bind.
#[allow(missing_debug_implementations, reason = "a future has none")]
pub enum PreBindAction {
    /// By requests, and by waiting for what comes of them.
    Work(Arc<dyn PreBindWork>),
    /// By itself.
    Future(BoxFuture<'static, Status>),
}

/// A change of a volume object, made if the object is still the one that it was decided about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VolumeRequest {
    /// Reserve a PersistentVolume for a claim.
    BindVolume {
        /// The volume's name.
        volume: Box<str>,
        /// Its resource version when it was decided about.
        resource_version: Box<str>,
        /// The claim's namespace.
        namespace: Symbol,
        /// The claim's name.
        claim: Box<str>,
        /// The claim's UID.
        claim_uid: Box<str>,
        /// The claim's resource version.
        claim_version: Box<str>,
        /// Say that no person did this.
        by_controller: bool,
    },
    /// Ask for a volume for a claim, reachable from a node.
    SelectNode {
        /// The claim's namespace.
        namespace: Symbol,
        /// The claim's name.
        claim: Box<str>,
        /// Its resource version when it was decided about.
        resource_version: Box<str>,
        /// The node.
        node: Symbol,
    },
}

/// Why the work before a bind failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PreBindFailure {
    /// A request was refused.
    Refused(String),
    /// What was waited for cannot come any more.
    Hopeless(String),
    /// It did not come in time.
    TimedOut,
}

/// What `binding` does for a plugin before a bind: first all requests, then waiting for what comes of them.
pub trait PreBindWork: Send + Sync {
    /// The requests, in order; the first that fails ends it.
    fn requests(&self) -> Vec<VolumeRequest>;
    /// The request of this position was applied; the object has this resource version now.
    fn applied(&self, position: usize, resource_version: &str);
    /// Whether what is waited for has come. Asked whenever volume objects changed, and now and then.
    ///
    /// # Errors
    /// It cannot come any more.
    fn is_done(&self, node: &NodeSpec) -> Result<bool, String>;
    /// How long to wait for it.
    fn timeout(&self) -> Duration;
    /// It failed: the plugin's status.
    fn failed(&self, failure: PreBindFailure) -> Status;
}
