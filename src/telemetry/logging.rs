//! The `tracing` subscriber: log lines on the standard streams, spans to a collector, verbosity that changes at run time.
//!
//! Does not: write log files or rotate them. One process has one subscriber; libraries that embed the scheduler and have
//! their own simply do not call [`init`].

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crossbeam::channel::Sender;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Level;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};

use super::streams::SplitStreams;
use super::trace::{self, TraceOptions};

/// Longest wait for the last spans when the process ends.
const FLUSH_DEADLINE: Duration = Duration::from_secs(3);

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One line of text an event.
    #[default]
    Text,
    /// One JSON object an event.
    Json,
}

/// Where log lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogOutput {
    /// All to standard error, unbuffered.
    #[default]
    Single,
    /// Errors (in text warnings too) to standard error, everything else to standard output.
    Split {
        /// Bytes of standard output that may wait to be written; 0: none.
        buffer_bytes: usize,
        /// How long they wait at most; zero: until the buffer is full or an error is logged.
        flush_every: Duration,
    },
}

/// What is logged and traced.
#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// Text or JSON.
    pub format: LogFormat,
    /// The streams.
    pub output: LogOutput,
    /// `-v`: 0 to 3 log state changes, 4 and 5 each pod, 6 and above everything of ours.
    pub verbosity: u32,
    /// `--vmodule`: verbosity of single modules of ours, such as `queue` or `cluster::watch`.
    pub modules: Vec<(String, u32)>,
    /// Spans to a collector; `None`: no tracing.
    pub trace: Option<TraceOptions>,
}

/// Why logging or tracing could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The exporter refused its settings.
    #[error("trace exporter for endpoint {endpoint:?} cannot be made")]
    Exporter {
        /// The endpoint as given.
        endpoint: String,
        /// What the exporter said.
        source: opentelemetry_otlp::ExporterBuildError,
    },
    /// The share of sampled cycles is not a share.
    #[error("trace sampling ratio {0} is not between 0 and 1")]
    Ratio(f64),
    /// The process has a subscriber already.
    #[error("a tracing subscriber is installed already")]
    Installed(#[from] tracing_subscriber::util::TryInitError),
    /// The thread that flushes buffered lines cannot be started.
    #[error("the thread that flushes the log cannot be started")]
    Flusher(#[source] std::io::Error),
}

/// Keeps the subscriber's controls. Call [`TelemetryGuard::shutdown`] before the process ends.
#[derive(Debug)]
pub struct TelemetryGuard {
    filter: reload::Handle<EnvFilter, Registry>,
    verbosity: AtomicU32,
    modules: Vec<(String, u32)>,
    provider: Option<SdkTracerProvider>,
    streams: Option<SplitStreams>,
    /// Ends the flushing thread when dropped.
    _flusher: Option<Sender<()>>,
}

/// Installs the process's subscriber. With `trace` set, call it inside a tokio runtime: the exporter's connection lives
/// there.
///
/// # Errors
/// When the trace settings are not usable or a subscriber is installed already.
pub fn init(options: &LogOptions) -> Result<TelemetryGuard, TelemetryError> {
    let provider = options.trace.as_ref().map(trace::provider).transpose()?;
    let (filter, handle) = reload::Layer::new(filter_for(options.verbosity, &options.modules));
    let (streams, flusher) = streams(options).map_err(TelemetryError::Flusher)?;
    let writer = streams
        .clone()
        .map_or_else(|| BoxMakeWriter::new(std::io::stderr), BoxMakeWriter::new);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(colours());
    let lines = match options.format {
        LogFormat::Text => lines.with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    };
    let spans = provider.as_ref().map(trace::layer);
    tracing_subscriber::registry().with(lines).with(spans).try_init()?;
    if let Some(trace) = &options.trace {
        trace::set_ratio(trace.ratio);
    }
    Ok(TelemetryGuard {
        filter: handle,
        verbosity: AtomicU32::new(options.verbosity),
        modules: options.modules.clone(),
        provider,
        streams,
        _flusher: flusher,
    })
}

/// The split streams with their flusher, if they are wanted.
fn streams(options: &LogOptions) -> std::io::Result<(Option<SplitStreams>, Option<Sender<()>>)> {
    let LogOutput::Split {
        buffer_bytes,
        flush_every,
    } = options.output
    else {
        return Ok((None, None));
    };
    let errors_from = match options.format {
        LogFormat::Text => Level::WARN,
        LogFormat::Json => Level::ERROR,
    };
    let (info, errors) = (Box::new(std::io::stdout()), Box::new(std::io::stderr()));
    let streams = SplitStreams::new(info, errors, errors_from, buffer_bytes);
    let flusher = if buffer_bytes > 0 && !flush_every.is_zero() {
        Some(streams.flush_every(flush_every)?)
    } else {
        None
    };
    Ok((Some(streams), flusher))
}

impl TelemetryGuard {
    /// Controls of a subscriber that is in use on this thread alone, for as long as the second value lives.
    #[cfg(test)]
    pub(crate) fn of_this_thread() -> (Self, tracing::subscriber::DefaultGuard) {
        let (filter, handle) = reload::Layer::new(filter_for(0, &[]));
        let lines = tracing_subscriber::fmt::layer().with_test_writer().with_filter(filter);
        let in_use = tracing_subscriber::registry().with(lines).set_default();
        (
            Self {
                filter: handle,
                verbosity: AtomicU32::new(0),
                modules: Vec::new(),
                provider: None,
                streams: None,
                _flusher: None,
            },
            in_use,
        )
    }

    /// The present verbosity.
    #[must_use]
    pub fn verbosity(&self) -> u32 {
        self.verbosity.load(Ordering::Relaxed)
    }

    /// Changes what is logged from now on.
    pub fn set_verbosity(&self, verbosity: u32) {
        // Reloading fails only when the subscriber is gone, which it is not before the process ends.
        if self.filter.reload(filter_for(verbosity, &self.modules)).is_ok() {
            self.verbosity.store(verbosity, Ordering::Relaxed);
        }
    }

    /// Sends the spans that are still here, for at most three seconds, and writes the lines that are buffered. Blocks;
    /// call it outside the runtime's threads.
    pub fn shutdown(&self) {
        trace::set_ratio(0.0);
        if let Some(provider) = &self.provider
            && let Err(error) = provider.shutdown_with_timeout(FLUSH_DEADLINE)
        {
            tracing::warn!(%error, "the last spans were not sent");
        }
        if let Some(streams) = &self.streams {
            streams.flush();
        }
    }
}

/// Whether to colour lines: a person looks at standard error and did not forbid it (<https://no-color.org>).
fn colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The filter behind `-v`: klog's numbers as kube-scheduler's messages use them. What the libraries below say about each
/// failed try of a watch or a connection, we say ourselves once in a while.
fn filter_for(verbosity: u32, modules: &[(String, u32)]) -> EnvFilter {
    let directives = match verbosity {
        0..=3 => "info,kube_runtime=error,rustls_platform_verifier=off",
        4..=5 => "info,supercargo=debug,kube_runtime=error,rustls_platform_verifier=off",
        6..=7 => "info,supercargo=trace,kube_client=debug,kube_runtime=debug",
        _ => "debug,supercargo=trace",
    };
    let modules = modules.iter().map(|(module, verbosity)| {
        let level = match verbosity {
            0..=3 => "info",
            4..=5 => "debug",
            _ => "trace",
        };
        format!(",supercargo::{module}={level}")
    });
    // Spans for the collector are no log lines.
    EnvFilter::new(format!(
        "{directives}{},{}=off",
        modules.collect::<String>(),
        trace::TARGET
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_changes_while_lines_are_written() {
        let (guard, _in_use) = TelemetryGuard::of_this_thread();
        assert!(!tracing::enabled!(target: "supercargo::cycle", Level::DEBUG));
        guard.set_verbosity(4);
        assert_eq!(guard.verbosity(), 4);
        assert!(tracing::enabled!(target: "supercargo::cycle", Level::DEBUG));
        assert!(!tracing::enabled!(target: "hyper", Level::DEBUG));
        guard.set_verbosity(0);
        assert!(!tracing::enabled!(target: "supercargo::cycle", Level::DEBUG));
    }

    #[test]
    fn verbosity_opens_our_own_messages_first() {
        let calm = filter_for(0, &[]).to_string();
        assert!(calm.contains("info") && calm.contains("kube_runtime=error"), "{calm}");
        assert!(filter_for(4, &[]).to_string().contains("supercargo=debug"));
        assert!(filter_for(10, &[]).to_string().contains("supercargo=trace"));
        let queue = filter_for(0, &[("queue".to_owned(), 5)]).to_string();
        assert!(queue.contains("supercargo::queue=debug"), "{queue}");
    }
}
