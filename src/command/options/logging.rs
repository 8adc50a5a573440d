//! Log flags to [`LogOptions`].
//!
//! Source: `component-base/logs/api/v1`. Upstream wants the gate `LoggingAlphaOptions` for split streams and buffers; here
//! they need none.

use std::time::Duration;

use crate::resources::Quantity;
use crate::telemetry::{LogFormat, LogOptions, LogOutput, TraceOptions};
use supercargo_config::settings::TracingSettings;

use super::flags::{LogFlags, RunFlags};
use super::values::Reader;

/// Longest time that buffered lines wait.
const DEFAULT_FLUSH: Duration = Duration::from_secs(5);

/// What the log flags say; traces are added by [`with_traces`].
pub(super) fn logging(flags: &RunFlags, reader: &mut Reader) -> LogOptions {
    let logs = &flags.logs;
    let format = match logs.logging_format.as_deref().unwrap_or("text") {
        "text" => LogFormat::Text,
        "json" => LogFormat::Json,
        other => {
            reader.refuse("--logging-format", other, "unsupported log format; text or json");
            LogFormat::Text
        }
    };
    let verbosity = reader.parsed::<u32>("-v", flags.verbosity.as_ref(), "should be a number from 0");
    let modules = logs
        .vmodule
        .as_deref()
        .map(|value| modules(value, reader))
        .unwrap_or_default();
    let output = output(logs, format, reader);
    LogOptions {
        format,
        output,
        verbosity: verbosity.unwrap_or(0),
        modules,
        trace: None,
    }
}

/// The streams of the format in use; the flags of the other one are checked and do nothing.
fn output(logs: &LogFlags, format: LogFormat, reader: &mut Reader) -> LogOutput {
    let flush_every = reader.duration(
        "--log-flush-frequency",
        logs.log_flush_frequency.as_ref(),
        DEFAULT_FLUSH,
    );
    let text = (
        reader.bool("--log-text-split-stream", logs.log_text_split_stream.as_ref()),
        bytes(
            "--log-text-info-buffer-size",
            logs.log_text_info_buffer_size.as_ref(),
            reader,
        ),
    );
    let json = (
        reader.bool("--log-json-split-stream", logs.log_json_split_stream.as_ref()),
        bytes(
            "--log-json-info-buffer-size",
            logs.log_json_info_buffer_size.as_ref(),
            reader,
        ),
    );
    let (split, buffer_bytes) = match format {
        LogFormat::Text => text,
        LogFormat::Json => json,
    };
    match split {
        Some(true) => LogOutput::Split {
            buffer_bytes,
            flush_every,
        },
        Some(false) | None => LogOutput::Single,
    }
}

/// A quantity of bytes; none when it is not given, and when it is negative, as upstream.
fn bytes(flag: &str, value: Option<&String>, reader: &mut Reader) -> usize {
    let Some(text) = value.filter(|text| !text.is_empty()) else {
        return 0;
    };
    match Quantity::parse(text) {
        Ok(quantity) => usize::try_from(quantity.value()).unwrap_or(0),
        Err(error) => {
            reader.refuse(flag, text, &error.to_string());
            0
        }
    }
}

/// `name=level,name=level`; a name is one of ours, such as `queue` or `cluster::watch`.
fn modules(value: &str, reader: &mut Reader) -> Vec<(String, u32)> {
    let mut modules = Vec::new();
    for part in value.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let name_and_level = part.split_once('=').and_then(|(name, level)| {
            let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
            let named = !name.is_empty() && name.chars().all(right);
            Some((name, level.parse::<u32>().ok()?)).filter(|_| named)
        });
        match name_and_level {
            Some((name, level)) => modules.push((name.to_owned(), level)),
            None => reader.refuse("--vmodule", part, "should be a module and a level, as queue=5"),
        }
    }
    modules
}

/// Adds traces as the settings have them.
pub(super) fn with_traces(mut logging: LogOptions, tracing: &TracingSettings) -> LogOptions {
    if !tracing.otlp_endpoint.is_empty() && tracing.sample_ratio > 0.0 {
        logging.trace = Some(TraceOptions {
            endpoint: tracing.otlp_endpoint.clone(),
            ratio: tracing.sample_ratio,
        });
    }
    logging
}
