//! Namespaces, Services and controllers.

use crate::cluster::watch::{OwnerObject, ReplicaSets, ReplicationControllers, Watched};
use crate::cluster::{NamespaceLabels, ServiceSelector};
use crate::ids::Symbol;

#[test]
fn namespaces_services_and_controllers_are_read() {
    let namespace = r#"{"metadata":{"name":"ns","labels":{"team":"a"}}}"#;
    let (namespace, _) = NamespaceLabels::decode(namespace).unwrap();
    assert_eq!(namespace.labels.get(Symbol::new("team")), Some(Symbol::new("a")));
    let service = r#"{"metadata":{"name":"s","namespace":"ns"},"spec":{"selector":{"app":"a"}}}"#;
    let (service, meta) = ServiceSelector::decode(service).unwrap();
    assert_eq!(meta.name.as_deref(), Some("s"));
    assert!(service.selects(&[("app", "a")].into_iter().collect()));
    let (headless, _) = ServiceSelector::decode(r#"{"metadata":{"name":"h","namespace":"ns"}}"#).unwrap();
    assert_eq!(headless.selector, None);
    let set = r#"{"metadata":{"name":"r","namespace":"ns"},
            "spec":{"selector":{"matchExpressions":[{"key":"app","operator":"Exists"}]}}}"#;
    let (set, _) = OwnerObject::<ReplicaSets>::decode(set).unwrap();
    assert!(set.selector.selector.matches(&[("app", "x")].into_iter().collect()));
    let controller = r#"{"metadata":{"name":"c","namespace":"ns"},"spec":{"selector":{"app":"a"}}}"#;
    let (controller, _) = OwnerObject::<ReplicationControllers>::decode(controller).unwrap();
    assert!(
        !controller
            .selector
            .selector
            .matches(&[("app", "x")].into_iter().collect())
    );
    assert!(NamespaceLabels::decode(r#"{"metadata":{}}"#).is_err());
}
