//! `/metrics/resources`: what pods request and are limited to.
//!
//! Source: kube-scheduler's `metrics/resources` collector (1.36): non-terminal pods known here, gauges
//! `kube_pod_resource_request` and `kube_pod_resource_limit`, nothing on a replica that does not lead.
//!
//! Does not: hold the page in memory: a million pods are written in pieces of 64 KiB as fast as the client reads.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;

/// Size of a piece of the page.
const PIECE_BYTES: usize = 64 * 1024;

/// Pieces that wait for a slow client.
const PIECES: usize = 4;

/// One resource of one pod.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PodResource<'a> {
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod.
    pub pod: &'a str,
    /// Its node; empty while it has none.
    pub node: &'a str,
    /// Its `schedulerName`.
    pub scheduler: &'a str,
    /// Its priority; `None` when the pod has none.
    pub priority: Option<i32>,
    /// Name of the resource.
    pub resource: &'a str,
    /// What it requests, in the resource's base unit (cores for `cpu`, bytes for memory and storage); 0: no sample.
    pub request: f64,
    /// What it is limited to; 0: no sample.
    pub limit: f64,
}

/// Where the rows come from.
pub trait ResourceMetricsSource: Send + Sync {
    /// Whether this replica shows anything: it leads, or runs without leader election.
    fn active(&self) -> bool;

    /// Calls `row` for every resource of every pod that has not ended. Runs on a blocking thread, twice a page, and may
    /// take its time; stops early when `row` answers false.
    fn rows(&self, row: &mut dyn FnMut(&PodResource<'_>) -> bool);
}

/// The page, made while it is read.
pub(super) fn body(source: Option<Arc<dyn ResourceMetricsSource>>) -> Body {
    let Some(source) = source.filter(|source| source.active()) else {
        return Body::empty();
    };
    let (pieces, receiver) = mpsc::channel::<Bytes>(PIECES);
    // The task ends with the client: a closed channel stops the rows.
    drop(tokio::task::spawn_blocking(move || write(&*source, &pieces)));
    Body::from_stream(stream::unfold(receiver, async |mut receiver| {
        let piece = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), receiver))
    }))
}

fn write(source: &dyn ResourceMetricsSource, pieces: &mpsc::Sender<Bytes>) {
    type Value = fn(&PodResource<'_>) -> f64;
    let families: [(&str, &str, Value); 2] = [
        (
            "kube_pod_resource_request",
            "[STABLE] Resources that pods request, as the scheduler counts them, by resource and its unit",
            |row| row.request,
        ),
        (
            "kube_pod_resource_limit",
            "[STABLE] Resources that pods are limited to, as the scheduler counts them, by resource and its unit",
            |row| row.limit,
        ),
    ];
    let mut page = Page {
        text: String::with_capacity(PIECE_BYTES + 512),
        pieces,
        open: true,
    };
    for (name, help, value) in families {
        let mut headed = false;
        source.rows(&mut |row| {
            let value = value(row);
            if value > 0.0 {
                if !headed {
                    page.push(format_args!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
                    headed = true;
                }
                page.sample(name, row, value);
            }
            page.open
        });
    }
    page.flush();
}

struct Page<'a> {
    text: String,
    pieces: &'a mpsc::Sender<Bytes>,
    /// Whether the client still reads.
    open: bool,
}

impl Page<'_> {
    fn sample(&mut self, name: &str, row: &PodResource<'_>, value: f64) {
        let priority = row.priority.map(|priority| priority.to_string()).unwrap_or_default();
        self.push(format_args!(
            "{name}{{namespace=\"{}\",node=\"{}\",pod=\"{}\",priority=\"{priority}\",resource=\"{}\",scheduler=\"{}\",\
             unit=\"{}\"}} {value}\n",
            Escaped(row.namespace),
            Escaped(row.node),
            Escaped(row.pod),
            Escaped(row.resource),
            Escaped(row.scheduler),
            unit(row.resource),
        ));
    }

    fn push(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        if self.text.write_fmt(arguments).is_err() || self.text.len() >= PIECE_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            let piece = Bytes::copy_from_slice(self.text.as_bytes());
            self.text.clear();
            self.open = self.open && self.pieces.blocking_send(piece).is_ok();
        }
    }
}

/// A label value as the exposition format wants it.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => formatter.write_str("\\\\")?,
                '"' => formatter.write_str("\\\"")?,
                '\n' => formatter.write_str("\\n")?,
                other => formatter.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// The unit that kube-scheduler names for a resource.
fn unit(resource: &str) -> &'static str {
    match resource {
        "cpu" => "cores",
        "memory" | "storage" | "ephemeral-storage" => "bytes",
        other if other.starts_with("hugepages-") => "bytes",
        _ => "integer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rows {
        active: bool,
        pods: usize,
    }

    impl ResourceMetricsSource for Rows {
        fn active(&self) -> bool {
            self.active
        }

        fn rows(&self, row: &mut dyn FnMut(&PodResource<'_>) -> bool) {
            for index in 0..self.pods {
                let pod = format!("p{index}");
                let base = PodResource {
                    namespace: "n\"s",
                    pod: &pod,
                    node: "",
                    scheduler: "default-scheduler",
                    priority: None,
                    resource: "cpu",
                    request: 0.25,
                    limit: 0.0,
                };
                let memory = PodResource {
                    resource: "memory",
                    request: 0.0,
                    limit: 1_048_576.0,
                    priority: Some(-7),
                    ..base
                };
                if !row(&base) || !row(&memory) {
                    return;
                }
            }
        }
    }

    async fn page(rows: Rows) -> String {
        let body = body(Some(Arc::new(rows)));
        String::from_utf8(axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn requests_and_limits_stand_in_families_of_their_own() {
        expect_test::expect![[r##"
            # HELP kube_pod_resource_request [STABLE] Resources that pods request, as the scheduler counts them, by resource and its unit
            # TYPE kube_pod_resource_request gauge
            kube_pod_resource_request{namespace="n\"s",node="",pod="p0",priority="",resource="cpu",scheduler="default-scheduler",unit="cores"} 0.25
            # HELP kube_pod_resource_limit [STABLE] Resources that pods are limited to, as the scheduler counts them, by resource and its unit
            # TYPE kube_pod_resource_limit gauge
            kube_pod_resource_limit{namespace="n\"s",node="",pod="p0",priority="-7",resource="memory",scheduler="default-scheduler",unit="bytes"} 1048576
        "##]]
        .assert_eq(&page(Rows { active: true, pods: 1 }).await);
    }

    #[tokio::test]
    async fn a_standby_shows_nothing_and_a_large_page_is_whole() {
        assert_eq!(page(Rows { active: false, pods: 5 }).await, "");
        assert_eq!(
            page(Rows {
                active: true,
                pods: 5_000
            })
            .await
            .lines()
            .count(),
            10_004
        );
    }

    #[tokio::test]
    async fn a_client_that_leaves_ends_the_rows() {
        let (sender, receiver) = mpsc::channel(1);
        drop(receiver);
        tokio::task::spawn_blocking(move || {
            write(
                &Rows {
                    active: true,
                    pods: usize::MAX,
                },
                &sender,
            )
        })
        .await
        .unwrap();
    }
}
