//! Figures that a scheduler keeps of itself: its metrics page and the histograms on it.
//!
//! Does not: check the scheduler's certificate (it is self-signed and on loopback), or hold a history.

use anyhow::{Context as _, Result, bail};

use crate::schedulers::Scheduler;

/// The argument that opens the metrics page to everybody, for schedulers of both kinds.
pub const OPEN_METRICS: &str = "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics";

/// What a histogram holds without its buckets.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Observations {
    /// How many there were.
    pub count: f64,
    /// Their sum, in seconds for durations.
    pub sum: f64,
}

/// Reads `/metrics` of a scheduler that was started with [`OPEN_METRICS`].
///
/// # Errors
/// When it does not answer or refuses.
pub async fn page(scheduler: &Scheduler) -> Result<String> {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{}", scheduler.port).parse()?);
    config.accept_invalid_certs = true;
    config.default_retry = false;
    let client = kube::Client::try_from(config)?;
    let request = http::Request::get("/metrics").body(kube::client::Body::empty())?;
    let answer = client.send(request).await.context("the scheduler's metrics")?;
    let status = answer.status();
    let bytes = answer.into_body().collect_bytes().await?;
    if !status.is_success() {
        bail!("/metrics of {}: {status}", scheduler.process.name());
    }
    String::from_utf8(bytes.to_vec()).context("/metrics is not text")
}

/// The observations of a histogram's series that have all these labels, added up.
#[must_use]
pub fn observations(page: &str, family: &str, labels: &[(&str, &str)]) -> Observations {
    let wanted: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
    let add = |suffix: &str| {
        let name = format!("{family}{suffix}");
        let lines = page.lines().filter_map(|line| line.strip_prefix(name.as_str()));
        let series = lines.filter_map(|line| {
            let (set, value) = line.rsplit_once(' ')?;
            let is_meant = wanted.iter().all(|label| set.contains(label.as_str()));
            is_meant.then(|| value.parse::<f64>().ok()).flatten()
        });
        series.sum()
    };
    Observations {
        count: add("_count"),
        sum: add("_sum"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_with_the_labels_are_added_up() {
        let page = "# TYPE d histogram\n\
            d_bucket{point=\"PostFilter\",status=\"Success\",le=\"1\"} 7\n\
            d_sum{point=\"PostFilter\",profile=\"a\",status=\"Success\"} 0.5\n\
            d_count{point=\"PostFilter\",profile=\"a\",status=\"Success\"} 3\n\
            d_sum{point=\"PostFilter\",profile=\"b\",status=\"Success\"} 1.5\n\
            d_count{point=\"PostFilter\",profile=\"b\",status=\"Success\"} 4\n\
            d_count{point=\"PostFilter\",profile=\"b\",status=\"Error\"} 100\n";
        let found = observations(page, "d", &[("point", "PostFilter"), ("status", "Success")]);
        assert_eq!(found, Observations { count: 7.0, sum: 2.0 });
        assert_eq!(observations(page, "e", &[]), Observations::default());
    }
}
