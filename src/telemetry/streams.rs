//! Log lines on two streams: errors on one at once, everything else on the other, perhaps buffered.
//!
//! Source: `component-base/logs` (`--log-text-split-stream`, `--log-text-info-buffer-size`, `--log-flush-frequency` and
//! their JSON kin), Kubernetes 1.36. As there, warnings are errors in text and no errors in JSON.
//!
//! Does not: reorder lines of a stream. A line of errors is preceded by what is buffered.

use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use crossbeam::channel::{RecvTimeoutError, Sender, bounded};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use crate::sync::Mutex;

/// Largest buffer, as upstream: 2 GiB.
const MAX_BUFFER_BYTES: usize = 2 << 30;

/// A stream that is written by one thread at a time.
type Stream = Arc<Mutex<BufWriter<Box<dyn Write + Send>>>>;

/// The two streams.
#[derive(Clone)]
pub(super) struct SplitStreams {
    info: Stream,
    errors: Stream,
    /// Lines of this level and above it are errors.
    errors_from: Level,
}

impl SplitStreams {
    /// Info lines to `info` with a buffer of so many bytes (0: none), errors to `errors`.
    pub(super) fn new(
        info: Box<dyn Write + Send>,
        errors: Box<dyn Write + Send>,
        errors_from: Level,
        buffer_bytes: usize,
    ) -> Self {
        let stream = |writer, bytes: usize| Arc::new(Mutex::new(BufWriter::with_capacity(bytes, writer)));
        Self {
            info: stream(info, buffer_bytes.min(MAX_BUFFER_BYTES)),
            errors: stream(errors, 0),
            errors_from,
        }
    }

    /// Writes out what is buffered.
    pub(super) fn flush(&self) {
        // Nobody is left to tell when the log cannot be written.
        drop(self.info.lock().flush());
    }

    /// Flushes every so often until the answer is dropped.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn flush_every(&self, every: Duration) -> std::io::Result<Sender<()>> {
        let (stop, stopped) = bounded(0);
        let streams = self.clone();
        Builder::new().name("log-flush".to_owned()).spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                streams.flush();
            }
        })?;
        Ok(stop)
    }
}

impl std::fmt::Debug for SplitStreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SplitStreams")
            .field("errors_from", &self.errors_from)
            .finish_non_exhaustive()
    }
}

/// Writes one line.
#[derive(Clone)]
pub(super) struct Line {
    stream: Stream,
    before: Option<Stream>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(before) = &self.before {
            before.lock().flush()?;
        }
        self.stream.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.lock().flush()
    }
}

impl MakeWriter<'_> for SplitStreams {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line {
            stream: Arc::clone(&self.errors),
            before: Some(Arc::clone(&self.info)),
        }
    }

    fn make_writer_for(&self, meta: &Metadata<'_>) -> Line {
        // The most severe level is the least.
        if *meta.level() <= self.errors_from {
            return self.make_writer();
        }
        Line {
            stream: Arc::clone(&self.info),
            before: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Page {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).unwrap()
        }
    }

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn log(errors_from: Level, buffer_bytes: usize, lines: impl FnOnce(&Page, &Page, &SplitStreams)) {
        let (info, errors) = (Page::default(), Page::default());
        let streams = SplitStreams::new(
            Box::new(info.clone()),
            Box::new(errors.clone()),
            errors_from,
            buffer_bytes,
        );
        let subscriber = tracing_subscriber::fmt()
            .with_writer(streams.clone())
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .finish();
        tracing::subscriber::with_default(subscriber, || lines(&info, &errors, &streams));
    }

    #[test]
    fn errors_and_the_rest_go_apart() {
        log(Level::WARN, 0, |info, errors, _| {
            tracing::info!("one");
            tracing::warn!("two");
            tracing::error!("three");
            assert_eq!(info.text(), " INFO one\n");
            assert_eq!(errors.text(), " WARN two\nERROR three\n");
        });
        log(Level::ERROR, 0, |info, errors, _| {
            tracing::warn!("two");
            assert_eq!((info.text().as_str(), errors.text().as_str()), (" WARN two\n", ""));
        });
    }

    #[test]
    fn a_buffer_waits_for_a_flush_or_an_error() {
        log(Level::ERROR, 1024, |info, _, streams| {
            tracing::info!("one");
            assert_eq!(info.text(), "");
            streams.flush();
            assert_eq!(info.text(), " INFO one\n");
            tracing::info!("two");
            tracing::error!("three");
            assert_eq!(info.text(), " INFO one\n INFO two\n");
        });
    }

    #[test]
    fn what_is_buffered_is_flushed_from_time_to_time() {
        log(Level::ERROR, 1024, |info, _, streams| {
            let _running = streams.flush_every(Duration::from_millis(1)).unwrap();
            tracing::info!("one");
            while info.text().is_empty() {
                std::thread::yield_now();
            }
        });
    }
}
