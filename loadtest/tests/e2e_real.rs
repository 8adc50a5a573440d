//! The end-to-end suite on a real etcd and kube-apiserver, built from Go modules; needs the `go` command the first
//! time.

#![cfg(feature = "real-control-plane")]

use supercargo_loadtest::e2e::Backend;

supercargo_loadtest::e2e_tests!(Backend::Real);
