//! The end-to-end suite on a real etcd and kube-apiserver, built from Go modules; needs the `go` command the first
//! time.

#![cfg(feature = "real-control-plane")]

use supercargo_loadtest::e2e::Backend;

supercargo_loadtest::e2e_tests!(Backend::Real);

/// Volumes are bound by the controllers that a cluster has.
mod with_controllers {
    use supercargo_loadtest::e2e::run_with_controllers;
    use supercargo_loadtest::e2e::scenarios::claims;

    #[test]
    fn local_volumes_are_bound() {
        run_with_controllers("local_volumes_are_bound", async |world| {
            claims::local_volumes_are_bound(world).await
        });
    }

    #[test]
    fn late_claim_wakes_its_pod() {
        run_with_controllers("late_claim_wakes_its_pod", async |world| {
            claims::late_claim_wakes_its_pod(world).await
        });
    }
}
