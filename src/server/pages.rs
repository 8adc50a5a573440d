//! Pages for people: `/flagz`, `/statusz`, `/version`.
//!
//! Source of the layout: component-base `zpages` (1.36): a title, a warning that the page is for debugging, then lines.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Content;
use crate::clock::{Clock, Nanos};

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";

/// The content with what the pages know besides.
#[derive(Debug)]
pub(super) struct Site {
    content: Content,
    started: jiff::Timestamp,
    started_at: Nanos,
}

impl Site {
    pub(super) fn new(content: Content) -> Self {
        let clock = Clock::Real;
        Self {
            content,
            started: clock.wall(),
            started_at: clock.now(),
        }
    }

    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    /// Flags as `name=value`, in the order in which they were given.
    pub(super) fn flagz(&self) -> String {
        let mut page = format!("\n{} flagz\n{WARNING}\n\n", self.content.component);
        for (name, value) in &self.content.flags {
            // Writing to a string cannot fail.
            if writeln!(page, "{name}={value}").is_err() {
                break;
            }
        }
        page
    }

    /// Since when, for how long, which version, which paths.
    pub(super) fn statusz(&self) -> String {
        let up = Clock::Real.now().since(self.started_at).as_secs();
        let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
        format!(
            "\n{} statusz\n{WARNING}\n\nStarted: {}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\n\
             Binary version: {}\nEmulation version: 1.36\nPaths: \
             /configz /flagz /healthz /livez /metrics /metrics/resources /metrics/slis \
             /readyz /statusz /version\n",
            self.content.component,
            self.started.strftime("%a %b %e %H:%M:%S UTC %Y"),
            env!("CARGO_PKG_VERSION"),
        )
    }
}

/// What was built, in the shape of `version.Info`.
pub(super) fn version() -> Value {
    json!({
        "major": env!("CARGO_PKG_VERSION_MAJOR"),
        "minor": env!("CARGO_PKG_VERSION_MINOR"),
        "gitVersion": concat!("v", env!("CARGO_PKG_VERSION")),
        "gitCommit": option_env!("SUPERCARGO_GIT_COMMIT").unwrap_or_default(),
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}
