//! How many bindings a second the embedded server takes, with one pod watch open.
//!
//! The server runs on one thread of its own, the client (plain hyper, 64 connections by default) on another. It prints the
//! rate, the time until the watch has shown the last binding, and the memory that the stored pods take.
//!
//! `cargo run --release -p supercargo-apiserver --example bind_rate -- [PODS] [IN_FLIGHT]`

use std::io::Write as _;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use supercargo_apiserver::workload::{self, WorkloadParams};
use supercargo_apiserver::{Server, ServerConfig, ServerHandle};
use tokio::net::TcpStream;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), AnyError> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (pods, in_flight) = (number(50_000)?, number(64)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(pods, in_flight))
}

async fn run(pods: usize, in_flight: usize) -> Result<(), AnyError> {
    let server = Server::start(ServerConfig {
        threads: 1,
        ..ServerConfig::default()
    })
    .await?;
    let params = WorkloadParams {
        nodes: Some(5_000),
        pods: Some(pods),
        ..WorkloadParams::default()
    };
    let plan = workload::generate(params)?;
    plan.load_nodes(server.store())?;
    let before = resident_kib();
    let start = Instant::now();
    plan.load_pods(server.store())?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "load: {pods} pods in {:?}, {} KiB more resident",
        start.elapsed(),
        resident_kib() - before
    )?;

    let watched = tokio::spawn(watch(authority(&server), server.store().version(), pods));
    let start = Instant::now();
    let tasks: Vec<_> = (0..in_flight)
        .map(|lane| tokio::spawn(bind(authority(&server), (lane..pods).step_by(in_flight).collect())))
        .collect();
    for task in tasks {
        task.await??;
    }
    let elapsed = start.elapsed();
    let bytes = watched.await??;
    let seen = start.elapsed();
    let rate = f64::from(u32::try_from(pods)?) / elapsed.as_secs_f64();
    writeln!(
        out,
        "bind: {pods} in {elapsed:?}: {rate:.0}/s with {in_flight} in flight"
    )?;
    writeln!(out, "watch: the last of {pods} events after {seen:?}, {bytes} bytes")?;
    writeln!(out, "end: {} KiB resident, {:?}", resident_kib(), server.stats())?;
    server.stop().await;
    Ok(())
}

fn authority(server: &ServerHandle) -> String {
    server.url().trim_start_matches("http://").to_owned()
}

async fn bind(authority: String, indices: Vec<usize>) -> Result<(), AnyError> {
    let stream = TcpStream::connect(&authority).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    for index in indices {
        let body = format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{{\"name\":\"pod-{index:07}\"}},\"target\":{{\"apiVersion\":\
             \"v1\",\"kind\":\"Node\",\"name\":\"node-{:06}\"}}}}",
            index % 5_000
        );
        let request = http::Request::post(format!("/api/v1/namespaces/default/pods/pod-{index:07}/binding"))
            .header("host", authority.as_str())
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        response.into_body().collect().await?;
        if status != http::StatusCode::CREATED {
            return Err(format!("a binding was refused with {status}").into());
        }
    }
    drop(sender);
    connection.await??;
    Ok(())
}

/// Reads a pod watch until `count` events came; returns the bytes read.
async fn watch(authority: String, version: u64, count: usize) -> Result<usize, AnyError> {
    let stream = TcpStream::connect(&authority).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = http::Request::get(format!("/api/v1/pods?watch=true&resourceVersion={version}"))
        .header("host", authority)
        .body(Empty::<Bytes>::new())?;
    let mut body = sender.send_request(request).await?.into_body();
    let (mut lines, mut bytes) = (0, 0);
    while lines < count {
        let Some(frame) = body.frame().await else {
            return Err("the watch ended".into());
        };
        if let Some(data) = frame?.data_ref() {
            bytes += data.len();
            lines += data.iter().filter(|byte| **byte == b'\n').count();
        }
    }
    connection.abort();
    Ok(bytes)
}

/// Resident memory of this process.
fn resident_kib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}
