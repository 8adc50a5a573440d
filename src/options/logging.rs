//! Log flags to [`LogOptions`].
//!
//! Source: `component-base/logs/api/v1`.

use supercargo::telemetry::{LogFormat, LogOptions, TraceOptions};
use supercargo_config::settings::TracingSettings;

use super::flags::RunFlags;
use super::values::Reader;

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
    // Nothing is buffered, so that there is nothing to flush; the value is still checked.
    reader.duration(
        "--log-flush-frequency",
        logs.log_flush_frequency.as_ref(),
        std::time::Duration::ZERO,
    );
    for (flag, value) in [
        ("--log-text-split-stream", &logs.log_text_split_stream),
        ("--log-json-split-stream", &logs.log_json_split_stream),
    ] {
        if reader.bool(flag, value.as_ref()) == Some(true) {
            reader.refuse(flag, "true", "not supported: logs go to standard error");
        }
    }
    for (flag, value) in [
        ("--log-text-info-buffer-size", &logs.log_text_info_buffer_size),
        ("--log-json-info-buffer-size", &logs.log_json_info_buffer_size),
    ] {
        if let Some(value) = value.as_deref().filter(|value| !matches!(*value, "" | "0")) {
            reader.refuse(flag, value, "not supported: logs are not buffered");
        }
    }
    LogOptions {
        format,
        verbosity: verbosity.unwrap_or(0),
        modules,
        trace: None,
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
