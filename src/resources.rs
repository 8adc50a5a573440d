//! Quantities and resource vectors in the units that scheduling computes with: milli-CPU, bytes and whole numbers.
//!
//! Does not: read pods or nodes; what a pod requests is compiled in [`crate::cluster`].

mod quantity;

use smallvec::SmallVec;

use crate::ids::Symbol;
pub use quantity::{Quantity, QuantityError};

/// Which resource a figure is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Resource {
    /// `cpu`, in milli-CPU.
    Cpu,
    /// `memory`, in bytes.
    Memory,
    /// `ephemeral-storage`, in bytes.
    EphemeralStorage,
    /// Extended resources, huge pages and attachable volumes, in whole units.
    Scalar(Symbol),
}

impl Resource {
    /// The resource called `name`, or `None` for a name that scheduling ignores (`storage`, unprefixed unknown names).
    ///
    /// Source: `pkg/apis/core/v1/helper/helpers.go` (`IsScalarResourceName`), Kubernetes 1.36.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "cpu" => Some(Self::Cpu),
            "memory" => Some(Self::Memory),
            "ephemeral-storage" => Some(Self::EphemeralStorage),
            _ if is_scalar(name) => Some(Self::Scalar(Symbol::new(name))),
            _ => None,
        }
    }

    /// The name as the API spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
            Self::Scalar(name) => name.as_str(),
        }
    }

    /// `quantity` in this resource's unit, rounded up.
    #[must_use]
    pub fn amount(self, quantity: Quantity) -> i64 {
        match self {
            Self::Cpu => quantity.milli_value(),
            _ => quantity.value(),
        }
    }
}

fn is_scalar(name: &str) -> bool {
    name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains("kubernetes.io/")
        || is_extended(name)
}

/// An extended resource: has a domain, is not native and would make a valid quota name.
///
/// Source: `pkg/apis/core/v1/helper/helpers.go` (`IsExtendedResourceName`), Kubernetes 1.36.
#[must_use]
pub fn is_extended(name: &str) -> bool {
    let Some((prefix, rest)) = name.split_once('/') else {
        return false;
    };
    !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && is_dns_subdomain(prefix, 253 - "requests.".len())
        && is_qualified_part(rest)
}

fn is_dns_subdomain(text: &str, longest: usize) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= longest && text.split('.').all(label)
}

fn is_qualified_part(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && text.as_bytes().last().is_some_and(u8::is_ascii_alphanumeric)
}

/// Amounts of scalar resources, sorted by name's symbol. A name may be present with amount 0.
pub type Scalars = SmallVec<[(Symbol, i64); 1]>;

/// A vector of amounts: what a pod requests, a node offers or has in use.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Resources {
    /// Milli-CPU.
    pub milli_cpu: i64,
    /// Bytes of memory.
    pub memory: i64,
    /// Bytes of ephemeral storage.
    pub ephemeral_storage: i64,
    /// Everything else, in whole units.
    pub scalars: Scalars,
}

impl Resources {
    /// The amount of one resource; 0 when absent.
    #[must_use]
    pub fn get(&self, resource: Resource) -> i64 {
        match resource {
            Resource::Cpu => self.milli_cpu,
            Resource::Memory => self.memory,
            Resource::EphemeralStorage => self.ephemeral_storage,
            Resource::Scalar(name) => self.scalar(name),
        }
    }

    /// The amount of a scalar resource; 0 when absent.
    #[must_use]
    pub fn scalar(&self, name: Symbol) -> i64 {
        self.scalars
            .iter()
            .find(|(have, _)| *have == name)
            .map_or(0, |(_, amount)| *amount)
    }

    /// Sets one resource.
    pub fn set(&mut self, resource: Resource, amount: i64) {
        match resource {
            Resource::Cpu => self.milli_cpu = amount,
            Resource::Memory => self.memory = amount,
            Resource::EphemeralStorage => self.ephemeral_storage = amount,
            Resource::Scalar(name) => *self.scalar_mut(name) = amount,
        }
    }

    /// Every resource that is present: CPU, memory and ephemeral storage unless zero, and all scalars.
    pub fn iter(&self) -> impl Iterator<Item = (Resource, i64)> {
        let fixed = [
            (Resource::Cpu, self.milli_cpu),
            (Resource::Memory, self.memory),
            (Resource::EphemeralStorage, self.ephemeral_storage),
        ];
        let scalars = self
            .scalars
            .iter()
            .map(|(name, amount)| (Resource::Scalar(*name), *amount));
        fixed.into_iter().filter(|(_, amount)| *amount != 0).chain(scalars)
    }

    fn scalar_mut(&mut self, name: Symbol) -> &mut i64 {
        let at = match self.scalars.binary_search_by_key(&name, |(have, _)| *have) {
            Ok(at) => at,
            Err(at) => {
                self.scalars.insert(at, (name, 0));
                at
            }
        };
        &mut self.scalars[at].1
    }

    /// Adds `other`, saturating.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Takes `other` away, saturating; the inverse of [`Self::add`] short of saturation. Scalars that reach 0 go.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
        self.scalars.retain(|(_, amount)| *amount != 0);
    }

    /// The greater of both, resource by resource.
    pub fn max(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Self, op: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = op(self.milli_cpu, other.milli_cpu);
        self.memory = op(self.memory, other.memory);
        self.ephemeral_storage = op(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.scalars {
            let mine = self.scalar_mut(*name);
            *mine = op(*mine, *amount);
        }
    }
}

/// The L4 protocol of a host port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Protocol {
    /// TCP, also when left out.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A host port that a pod occupies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostPort {
    /// The address as written; `0.0.0.0` when left out. No other text is a wildcard (`::` is not).
    pub ip: Symbol,
    /// The protocol.
    pub protocol: Protocol,
    /// 1 to 65535.
    pub port: u16,
}

impl HostPort {
    /// Whether a node can give only one of both. `any` is the symbol of `0.0.0.0`.
    ///
    /// Source: `staging/src/k8s.io/kube-scheduler/framework/types.go` (`HostPortInfo`), Kubernetes 1.36.
    #[must_use]
    pub fn conflicts(&self, other: &Self, any: Symbol) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip == any || other.ip == any)
    }
}

/// A pod's or node's host ports.
pub type HostPorts = SmallVec<[HostPort; 2]>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_scheduled_resources() {
        for name in [
            "example.com/gpu",
            "hugepages-2Mi",
            "kubernetes.io/x",
            "attachable-volumes-aws-ebs",
        ] {
            assert!(matches!(Resource::parse(name), Some(Resource::Scalar(_))), "{name}");
        }
        for name in [
            "storage",
            "gpu",
            "requests.example.com/gpu",
            "example.com/",
            "-x/y",
            "a/b/c",
            "",
        ] {
            assert_eq!(Resource::parse(name), None, "{name}");
        }
    }

    #[test]
    fn subtract_undoes_add() {
        let mut have = Resources {
            milli_cpu: 5,
            ..Default::default()
        };
        let before = have.clone();
        let mut more = Resources {
            memory: 7,
            ..Default::default()
        };
        more.set(Resource::Scalar(Symbol::new("example.com/a")), 3);
        have.add(&more);
        assert_eq!(have.scalar(Symbol::new("example.com/a")), 3);
        have.subtract(&more);
        assert_eq!(have, before);
    }
}
