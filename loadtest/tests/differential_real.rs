//! A short random differential test against the real kube-scheduler; `supercargo-loadtest differential` runs long ones.

#![cfg(feature = "real-control-plane")]

use supercargo_loadtest::differential::{DifferentialArgs, run};

/// The same pods in every run of the tests; long runs draw a new seed.
const SEED: u64 = 20_260_501;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_schedulers_decide_alike() {
    // So few nodes that the preemptors, who come last, find them full.
    let mut args = DifferentialArgs::new(70, 8, SEED);
    args.preemptors = Some(20);
    args.out = Some(std::env::temp_dir().join(format!("differential-{SEED}")));
    args.scheduler_bin = std::env::var_os("SUPERCARGO_E2E_BINARY").map(Into::into);
    let report = run(&args).await.expect("the comparison runs");
    assert!(report.is_good(), "{}", report.summary());
    assert_eq!(report.pods, 70, "{}", report.summary());
    assert!(report.bound > 20 && report.refused > 0, "{}", report.summary());
    let compared = [report.scores, report.events, report.preemptors, report.victims];
    assert!(compared.iter().all(|count| *count > 0), "{}", report.summary());
}
