//! `DefaultBinder`: binds through the API's `binding` subresource.

use std::sync::LazyLock;

use crate::cluster::PodInfo;
use crate::framework::{ApiRequest, Bind, BindOutcome, CycleState, EventHint, LabelsRead, Plugin};
use crate::ids::Symbol;

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("DefaultBinder"));

/// The plugin.
pub(super) struct DefaultBinder;

impl Plugin for DefaultBinder {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(Vec::new())
    }

    fn bind(&self) -> Option<&dyn Bind> {
        Some(self)
    }
}

impl Bind for DefaultBinder {
    fn bind_pod(&self, _: &CycleState, _: &PodInfo, _: Symbol) -> BindOutcome {
        BindOutcome::Request(ApiRequest::BindPod)
    }
}
