//! Compiles host ports.

use crate::cluster::watch::error::Fault;
use crate::cluster::watch::text::text_of;
use crate::cluster::watch::wire::{self, items};
use crate::ids::Symbol;
use crate::resources::{HostPort, HostPorts, Protocol};

/// Host ports of sidecars and containers; those of ordinary init containers are free again before the pod runs.
pub(super) fn host_ports(spec: &wire::PodSpec<'_>) -> Result<HostPorts, Fault> {
    let mut ports = HostPorts::new();
    for (at, container) in items(&spec.init_containers).iter().enumerate() {
        if text_of(&container.restart_policy) == "Always" {
            read(container, &mut ports).map_err(|fault| fault.under(&format!("spec.initContainers[{at}]")))?;
        }
    }
    for (at, container) in items(&spec.containers).iter().enumerate() {
        read(container, &mut ports).map_err(|fault| fault.under(&format!("spec.containers[{at}]")))?;
    }
    Ok(ports)
}

fn read(container: &wire::Container<'_>, ports: &mut HostPorts) -> Result<(), Fault> {
    for (at, port) in items(&container.ports).iter().enumerate() {
        let wanted = port.host_port.unwrap_or_default();
        if wanted == 0 {
            continue;
        }
        let Ok(number) = u16::try_from(wanted) else {
            return Err(Fault::new(
                format!("ports[{at}].hostPort"),
                format!("{wanted} is not between 1 and 65535"),
            ));
        };
        ports.push(HostPort {
            ip: Symbol::new(match text_of(&port.host_ip) {
                "" => "0.0.0.0",
                ip => ip,
            }),
            protocol: match text_of(&port.protocol) {
                "" | "TCP" => Protocol::Tcp,
                "UDP" => Protocol::Udp,
                "SCTP" => Protocol::Sctp,
                other => {
                    return Err(Fault::new(
                        format!("ports[{at}].protocol"),
                        format!("{other:?} is none of TCP, UDP and SCTP"),
                    ));
                }
            },
            port: number,
        });
    }
    Ok(())
}
