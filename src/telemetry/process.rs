//! `process_*`, read from `/proc/self` when the page is written.
//!
//! Does not: fail; on a system without `/proc` the families are absent.

use std::fs;
use std::sync::OnceLock;

use prometheus_client::metrics::MetricType;

use super::encode::Page;

/// `USER_HZ`: the unit of CPU times in `/proc`, fixed at 100 on every architecture that Linux runs on today.
const TICKS_PER_SECOND: f64 = 100.0;

/// `/proc/self/status` counts memory in units of 1024 bytes, whatever it calls them.
const STATUS_KIB: f64 = 1024.0;

/// What this process has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ProcessUsage {
    /// User and system CPU time, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
}

/// What this process has used so far; `None` on a system without `/proc`.
#[must_use]
pub fn process_usage() -> Option<ProcessUsage> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number of bytes below 2^53"
    )]
    let resident_bytes = status_bytes(&status, "VmRSS:")? as u64;
    Some(ProcessUsage {
        cpu_seconds: cpu_seconds(&stat)?,
        resident_bytes,
    })
}

/// Writes the families that could be read.
pub(super) fn write(page: &mut Page<'_>) -> std::fmt::Result {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let status = fs::read_to_string("/proc/self/status").ok();
    let limits = fs::read_to_string("/proc/self/limits").ok();
    if let Some(seconds) = stat.as_deref().and_then(cpu_seconds) {
        let help = "User and system CPU time, in seconds";
        page.number("process_cpu_seconds", help, MetricType::Counter, seconds)?;
    }
    if let Some(bytes) = status.as_deref().and_then(|status| status_bytes(status, "VmRSS:")) {
        page.number(
            "process_resident_memory_bytes",
            "Resident memory, in bytes",
            MetricType::Gauge,
            bytes,
        )?;
    }
    if let Some(bytes) = status.as_deref().and_then(|status| status_bytes(status, "VmSize:")) {
        page.number(
            "process_virtual_memory_bytes",
            "Virtual memory, in bytes",
            MetricType::Gauge,
            bytes,
        )?;
    }
    if let Ok(entries) = fs::read_dir("/proc/self/fd") {
        let open = u32::try_from(entries.count()).map_or(f64::MAX, f64::from);
        page.number("process_open_fds", "Open file descriptors", MetricType::Gauge, open)?;
    }
    if let Some(most) = limits.as_deref().and_then(max_open_files) {
        page.number(
            "process_max_fds",
            "Most file descriptors that may be open",
            MetricType::Gauge,
            most,
        )?;
    }
    if let Some(seconds) = start_time(stat.as_deref()) {
        let help = "When the process started, in seconds since 1970";
        page.number("process_start_time_seconds", help, MetricType::Gauge, seconds)?;
    }
    Ok(())
}

/// The fields after the command, which stands in brackets and may itself hold spaces and brackets.
fn stat_fields(stat: &str) -> Option<Vec<&str>> {
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_ascii_whitespace().collect())
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    // Fields 14 and 15 of proc_pid_stat(5); the command was field 2.
    let fields = stat_fields(stat)?;
    let user: f64 = fields.get(11)?.parse().ok()?;
    let system: f64 = fields.get(12)?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

fn start_time(stat: Option<&str>) -> Option<f64> {
    static START: OnceLock<Option<f64>> = OnceLock::new();
    *START.get_or_init(|| {
        let ticks: f64 = stat_fields(stat?)?.get(19)?.parse().ok()?;
        let kernel = fs::read_to_string("/proc/stat").ok()?;
        let boot: f64 = kernel
            .lines()
            .find_map(|line| line.strip_prefix("btime "))?
            .trim()
            .parse()
            .ok()?;
        Some(boot + ticks / TICKS_PER_SECOND)
    })
}

fn status_bytes(status: &str, key: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: f64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * STATUS_KIB)
}

fn max_open_files(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_brackets_and_spaces_does_not_shift_the_fields() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 9 0 4242 1 2";
        assert_eq!(cpu_seconds(stat), Some(4.0));
        assert_eq!(stat_fields(stat).unwrap().get(19), Some(&"4242"));
    }

    #[test]
    fn memory_and_limits_are_read() {
        assert_eq!(status_bytes("Name:\tx\nVmRSS:\t  12 kB\n", "VmRSS:"), Some(12288.0));
        assert_eq!(
            max_open_files("Max open files            1024                 4096                 files"),
            Some(1024.0)
        );
        assert_eq!(status_bytes("", "VmRSS:"), None);
    }
}
