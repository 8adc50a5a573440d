//! What a pod requests, in the several senses in which scheduling asks.
//!
//! Source: `staging/src/k8s.io/component-helpers/resource/helpers.go` (`PodRequests`) and
//! `pkg/scheduler/framework/types.go` (`CalculateResource`), Kubernetes 1.36. Amounts are added exactly and rounded up
//! once, at the end.

use smallvec::SmallVec;

use crate::cluster::watch::error::Fault;
use crate::cluster::watch::text::{RawAmounts, quantity, text_of};
use crate::cluster::watch::wire::{self, items};
use crate::ids::Symbol;
use crate::ledger::NonZero;
use crate::resources::{Quantity, Resource, Resources};

/// For scoring, a container that does not say is taken to want 100 milli-CPU …
const DEFAULT_MILLI_CPU: i64 = 100;
/// … and 200 MiB.
const DEFAULT_MEMORY: i64 = 200 << 20;

/// Amounts by resource; absent and zero differ.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Amounts {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
    ephemeral_storage: Option<Quantity>,
    scalars: SmallVec<[(Symbol, Quantity); 1]>,
}

impl Amounts {
    /// Reads the resources that scheduling knows; the amounts of others are checked all the same.
    fn read(raw: Option<&RawAmounts<'_>>, path: &str) -> Result<Self, Fault> {
        let mut amounts = Self::default();
        for (name, raw) in raw.map(|pairs| pairs.0.as_slice()).unwrap_or_default() {
            let at = |message| Fault::new(format!("{path}[{}]", name.as_str()), message);
            let amount = quantity(raw).map_err(at)?;
            if amount.is_negative() {
                return Err(at(format!("{} is negative", raw.get())));
            }
            if let Some(resource) = Resource::parse(name.as_str()) {
                amounts.set(resource, amount);
            }
        }
        Ok(amounts)
    }

    fn set(&mut self, resource: Resource, amount: Quantity) {
        match resource {
            Resource::Cpu => self.cpu = Some(amount),
            Resource::Memory => self.memory = Some(amount),
            Resource::EphemeralStorage => self.ephemeral_storage = Some(amount),
            Resource::Scalar(name) => match self.scalars.iter_mut().find(|(have, _)| *have == name) {
                Some(slot) => slot.1 = amount,
                None => self.scalars.push((name, amount)),
            },
        }
    }

    fn scalar(&self, name: Symbol) -> Option<Quantity> {
        self.scalars.iter().find(|(have, _)| *have == name).map(|(_, a)| *a)
    }

    fn merge(&mut self, other: &Self, op: fn(Quantity, Quantity) -> Quantity) {
        let both = |mine: Option<Quantity>, theirs: Option<Quantity>| match (mine, theirs) {
            (Some(mine), Some(theirs)) => Some(op(mine, theirs)),
            (one, other) => one.or(other),
        };
        self.cpu = both(self.cpu, other.cpu);
        self.memory = both(self.memory, other.memory);
        self.ephemeral_storage = both(self.ephemeral_storage, other.ephemeral_storage);
        for (name, theirs) in &other.scalars {
            let merged = both(self.scalar(*name), Some(*theirs)).unwrap_or(*theirs);
            self.set(Resource::Scalar(*name), merged);
        }
    }

    fn add(&mut self, other: &Self) {
        self.merge(other, Quantity::plus);
    }

    fn max(&mut self, other: &Self) {
        self.merge(other, Quantity::max);
    }

    /// Only what a pod may request as a whole: CPU, memory and huge pages.
    fn pod_level(mut self) -> Option<Self> {
        self.ephemeral_storage = None;
        self.scalars.retain(|(name, _)| name.as_str().starts_with("hugepages-"));
        (self != Self::default()).then_some(self)
    }

    /// Takes over every amount that `other` names.
    fn replace(&mut self, other: &Self) {
        self.cpu = other.cpu.or(self.cpu);
        self.memory = other.memory.or(self.memory);
        for (name, amount) in &other.scalars {
            self.set(Resource::Scalar(*name), *amount);
        }
    }

    /// Raises every amount that is present to that of `other`; `afresh`: from zero.
    fn raise(&mut self, other: &Self, afresh: bool) {
        let raised = |mine: Quantity, theirs: Option<Quantity>| {
            let base = if afresh { Quantity::default() } else { mine };
            base.max(theirs.unwrap_or_default())
        };
        self.cpu = self.cpu.map(|mine| raised(mine, other.cpu));
        self.memory = self.memory.map(|mine| raised(mine, other.memory));
        for (name, mine) in &mut self.scalars {
            *mine = raised(*mine, other.scalar(*name));
        }
    }

    fn resources(&self) -> Resources {
        let whole = |amount: Option<Quantity>| amount.unwrap_or_default().value();
        let mut resources = Resources {
            milli_cpu: self.cpu.unwrap_or_default().milli_value(),
            memory: whole(self.memory),
            ephemeral_storage: whole(self.ephemeral_storage),
            ..Default::default()
        };
        for (name, amount) in &self.scalars {
            resources.set(Resource::Scalar(*name), amount.value());
        }
        resources
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Main,
    Sidecar,
    Init,
}

#[derive(Debug)]
struct Container {
    kind: Kind,
    spec: Amounts,
    /// The greater of what the status says is in force and what the node has set aside, if the status says anything.
    actual: Option<Amounts>,
}

/// Which of the senses is asked for.
#[derive(Clone, Copy, Default)]
struct Sense {
    use_status: bool,
    default_cpu: bool,
    default_memory: bool,
    pod_level: bool,
}

/// All figures of a pod.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) request: Resources,
    pub(super) fit_score: Resources,
    pub(super) charged: Resources,
    pub(super) charged_non_zero: NonZero,
}

/// What a pod is limited to: shown in metrics, never scheduled by. An overhead counts where there is a limit.
///
/// Source: `staging/src/k8s.io/component-helpers/resource/helpers.go` (`PodLimits`), Kubernetes 1.36.
pub(super) fn limits(spec: &wire::PodSpec<'_>) -> Result<Resources, Fault> {
    let given = spec.resources.as_ref().and_then(|r| r.limits.as_ref());
    let mut limits = Requests {
        containers: SmallVec::new(),
        overhead: Amounts::default(),
        pod_level: Amounts::read(given, "spec.resources.limits")?.pod_level(),
        pod_level_actual: None,
        has_status: false,
        infeasible: false,
    };
    let init = items(&spec.init_containers)
        .iter()
        .enumerate()
        .map(|(at, c)| ("spec.initContainers", at, c));
    let main = items(&spec.containers)
        .iter()
        .enumerate()
        .map(|(at, c)| ("spec.containers", at, c));
    for (list, at, container) in init.chain(main) {
        let kind = match (list, text_of(&container.restart_policy)) {
            ("spec.containers", _) => Kind::Main,
            (_, "Always") => Kind::Sidecar,
            _ => Kind::Init,
        };
        let raw = container.resources.as_ref().and_then(|r| r.limits.as_ref());
        let spec = Amounts::read(raw, "resources.limits").map_err(|fault| fault.under(&format!("{list}[{at}]")))?;
        limits.containers.push(Container {
            kind,
            spec,
            actual: None,
        });
    }
    let total = limits.total(Sense {
        pod_level: true,
        ..Sense::default()
    });
    let mut resources = total.resources();
    let overhead = Amounts::read(spec.overhead.as_ref(), "spec.overhead")?.resources();
    for (resource, amount) in total.resources().iter() {
        resources.set(resource, amount.saturating_add(overhead.get(resource)));
    }
    Ok(resources)
}

#[derive(Debug)]
pub(super) struct Requests {
    containers: SmallVec<[Container; 2]>,
    overhead: Amounts,
    pod_level: Option<Amounts>,
    pod_level_actual: Option<Amounts>,
    has_status: bool,
    /// A resize that the node can never grant: the spec does not count.
    infeasible: bool,
}

impl Requests {
    pub(super) fn read(spec: &wire::PodSpec<'_>, status: &wire::PodStatus<'_>) -> Result<Self, Fault> {
        let mut containers = SmallVec::new();
        for (at, container) in items(&spec.init_containers).iter().enumerate() {
            let is_sidecar = text_of(&container.restart_policy) == "Always";
            let kind = if is_sidecar { Kind::Sidecar } else { Kind::Init };
            let path = |what: &str| format!("{what}[{at}]");
            containers.push(read_container(kind, container, status, || path("spec.initContainers"))?);
        }
        for (at, container) in items(&spec.containers).iter().enumerate() {
            let path = || format!("spec.containers[{at}]");
            containers.push(read_container(Kind::Main, container, status, path)?);
        }
        let pod_level = spec.resources.as_ref().and_then(|r| r.requests.as_ref());
        let pod_level = Amounts::read(pod_level, "spec.resources.requests")?.pod_level();
        let pod_level_actual = status
            .resources
            .as_ref()
            .map(|resources| {
                let mut actual = Amounts::read(resources.requests.as_ref(), "status.resources.requests")?;
                let allocated = status.allocated_resources.as_ref();
                actual.max(&Amounts::read(allocated, "status.allocatedResources")?);
                Ok(actual)
            })
            .transpose()?;
        let resize = items(&status.conditions)
            .iter()
            .find(|condition| text_of(&condition.kind) == "PodResizePending");
        let has_actual = |container: &Container| container.actual.is_some();
        Ok(Self {
            has_status: pod_level_actual.is_some() || containers.iter().any(has_actual),
            containers,
            overhead: Amounts::read(spec.overhead.as_ref(), "spec.overhead")?,
            pod_level,
            pod_level_actual,
            infeasible: resize.is_some_and(|condition| text_of(&condition.reason) == "Infeasible"),
        })
    }

    pub(super) fn figures(&self) -> Figures {
        let request = self.total(Sense {
            pod_level: true,
            ..Default::default()
        });
        let with_defaults = Sense {
            default_cpu: true,
            default_memory: true,
            ..Default::default()
        };
        let fit_score = self.total(with_defaults);
        let charged_sense = Sense {
            use_status: true,
            pod_level: true,
            ..Default::default()
        };
        let charged = if self.has_status {
            self.total(charged_sense)
        } else {
            request.clone()
        };
        let non_zero = if !self.has_status && self.pod_level.is_none() {
            fit_score.clone()
        } else {
            let defaults_for_all = self.pod_level.is_none();
            self.total(Sense {
                default_cpu: defaults_for_all || charged.cpu.is_none(),
                default_memory: defaults_for_all || charged.memory.is_none(),
                ..charged_sense
            })
        };
        Figures {
            request: request.resources(),
            fit_score: fit_score.resources(),
            charged: charged.resources(),
            charged_non_zero: NonZero {
                milli_cpu: non_zero.cpu.unwrap_or_default().milli_value(),
                memory: non_zero.memory.unwrap_or_default().value(),
            },
        }
    }

    fn total(&self, sense: Sense) -> Amounts {
        let mut sum = Amounts::default();
        let mut sidecars = Amounts::default();
        let mut peak = Amounts::default();
        for container in &self.containers {
            let mut amounts = self.effective(container, sense);
            match container.kind {
                Kind::Main => sum.add(&amounts),
                Kind::Sidecar => {
                    sum.add(&amounts);
                    sidecars.add(&amounts);
                    peak.max(&sidecars);
                }
                Kind::Init => {
                    amounts.add(&sidecars);
                    peak.max(&amounts);
                }
            }
        }
        sum.max(&peak);
        if let Some(pod_level) = self.pod_level.as_ref().filter(|_| sense.pod_level) {
            match self.pod_level_actual.as_ref().filter(|_| sense.use_status) {
                None => sum.replace(pod_level),
                Some(actual) => {
                    let mut raised = pod_level.clone();
                    raised.raise(actual, self.infeasible);
                    sum.replace(&raised);
                }
            }
        }
        sum.add(&self.overhead);
        sum
    }

    fn effective(&self, container: &Container, sense: Sense) -> Amounts {
        let actual = container.actual.as_ref().filter(|_| sense.use_status);
        let mut amounts = match actual {
            Some(actual) if self.infeasible => actual.clone(),
            Some(actual) => {
                let mut amounts = container.spec.clone();
                amounts.max(actual);
                amounts
            }
            None => container.spec.clone(),
        };
        if sense.default_cpu && amounts.cpu.is_none() {
            amounts.cpu = Some(Quantity::milli(DEFAULT_MILLI_CPU));
        }
        if sense.default_memory && amounts.memory.is_none() {
            amounts.memory = Some(Quantity::whole(DEFAULT_MEMORY));
        }
        amounts
    }
}

fn read_container(
    kind: Kind,
    container: &wire::Container<'_>,
    status: &wire::PodStatus<'_>,
    path: impl Fn() -> String,
) -> Result<Container, Fault> {
    let requests = container.resources.as_ref().and_then(|r| r.requests.as_ref());
    let spec = Amounts::read(requests, "resources.requests").map_err(|fault| fault.under(&path()))?;
    let actual = if kind == Kind::Init {
        None
    } else {
        read_actual(container, status)?
    };
    Ok(Container { kind, spec, actual })
}

fn read_actual(container: &wire::Container<'_>, status: &wire::PodStatus<'_>) -> Result<Option<Amounts>, Fault> {
    let lists = [
        ("status.initContainerStatuses", &status.init_container_statuses),
        ("status.containerStatuses", &status.container_statuses),
    ];
    let name = text_of(&container.name);
    for (path, list) in lists {
        let mut named = items(list).iter().enumerate();
        let Some((at, entry)) = named.find(|(_, entry)| text_of(&entry.name) == name) else {
            continue;
        };
        let Some(resources) = &entry.resources else {
            return Ok(None);
        };
        let under = |fault: Fault| fault.under(&format!("{path}[{at}]"));
        let mut actual = Amounts::read(resources.requests.as_ref(), "resources.requests").map_err(under)?;
        let allocated = Amounts::read(entry.allocated_resources.as_ref(), "allocatedResources").map_err(under)?;
        actual.max(&allocated);
        return Ok(Some(actual));
    }
    Ok(None)
}
