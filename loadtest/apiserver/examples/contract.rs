//! Runs the API contract suite against any server, and says which behaviours it lacks.
//!
//! The kubeconfig must carry administrator rights. Nothing else should be busy in the cluster's `contract-*` namespaces.
//!
//! `cargo run -p supercargo-apiserver --example contract -- KUBECONFIG`

use std::io::Write as _;

use supercargo_apiserver::contract;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("the path of a kubeconfig is missing")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(&std::fs::read_to_string(path)?))
}

async fn run(kubeconfig: &str) -> Result<(), Box<dyn std::error::Error>> {
    let client = contract::client(kubeconfig).await?;
    let mut out = std::io::stdout();
    let mut failures = 0;
    for test in contract::all() {
        let outcome = test.run(client.clone()).await;
        failures += usize::from(outcome.is_err());
        match outcome {
            Ok(()) => writeln!(out, "ok    {}", test.name)?,
            Err(error) => writeln!(out, "FAIL  {error}")?,
        }
    }
    if failures > 0 {
        return Err(format!("{failures} of {} tests failed", contract::all().len()).into());
    }
    Ok(())
}
