//! The catalogue's look-ups and its overlay of promises.

use super::*;
use crate::cluster::volumes::ClaimRef;

fn volume(name: &str, version: &str, class: &str) -> PersistentVolume {
    PersistentVolume {
        name: name.into(),
        resource_version: version.into(),
        class: Some(Symbol::new(class)),
        available: true,
        ..PersistentVolume::default()
    }
}

fn promised(of: &PersistentVolume, claim: &str) -> PersistentVolume {
    PersistentVolume {
        claim_ref: Some(ClaimRef {
            namespace: Symbol::new("default"),
            name: claim.into(),
            uid: "1".into(),
        }),
        ..of.clone()
    }
}

fn with(volumes: &[PersistentVolume]) -> VolumeCatalogue {
    let catalogue = VolumeCatalogue::default();
    for volume in volumes {
        catalogue.apply(VolumeObject::Volume(Arc::new(volume.clone())));
    }
    catalogue
}

fn holder(catalogue: &VolumeCatalogue, name: &str) -> Option<Box<str>> {
    catalogue.volume(name)?.claim_ref.as_ref().map(|to| to.name.clone())
}

#[test]
fn volumes_are_listed_by_class_with_what_is_promised() {
    let catalogue = with(&[volume("a", "1", "fast"), volume("b", "1", "slow")]);
    let fast = Some(Symbol::new("fast"));
    let a = catalogue.volume("a").unwrap();
    catalogue.assume_volume(&a, promised(&a, "c")).unwrap();
    let listed = catalogue.volumes_of_class(fast);
    assert_eq!(listed.len(), 1);
    assert!(listed[0].claim_ref.is_some());
    catalogue.apply(VolumeObject::Volume(Arc::new(volume("a", "2", "slow"))));
    assert!(catalogue.volumes_of_class(fast).is_empty());
    assert_eq!(catalogue.volumes_of_class(Some(Symbol::new("slow"))).len(), 2);
}

#[test]
fn of_two_that_looked_at_the_same_volume_one_gets_it() {
    let catalogue = with(&[volume("a", "1", "fast")]);
    let a = catalogue.volume("a").unwrap();
    let first = catalogue.assume_volume(&a, promised(&a, "c")).unwrap();
    assert_eq!(
        catalogue.assume_volume(&a, promised(&a, "d")),
        Err(AssumeError::Changed("a".to_owned()))
    );
    assert_eq!(holder(&catalogue, "a").as_deref(), Some("c"));
    assert_eq!(catalogue.seen_volume("a").unwrap().claim_ref, None);
    catalogue.restore_volume(&first);
    assert_eq!(holder(&catalogue, "a"), None);
    catalogue.assume_volume(&a, promised(&a, "d")).unwrap();
    // Taking it back once more does not touch the promise of another.
    catalogue.restore_volume(&first);
    assert_eq!(holder(&catalogue, "a").as_deref(), Some("d"));
}

#[test]
fn a_newer_object_replaces_a_promise_and_a_relist_does_not() {
    let catalogue = with(&[volume("a", "1", "fast")]);
    let a = catalogue.volume("a").unwrap();
    catalogue.assume_volume(&a, promised(&a, "c")).unwrap();
    catalogue.apply(VolumeObject::Volume(Arc::new(volume("a", "1", "fast"))));
    assert_eq!(holder(&catalogue, "a").as_deref(), Some("c"));
    catalogue.apply(VolumeObject::Volume(Arc::new(volume("a", "2", "fast"))));
    assert_eq!(holder(&catalogue, "a"), None);
}

#[test]
fn every_change_moves_the_epoch_and_what_is_gone_is_gone() {
    let catalogue = with(&[volume("a", "1", "fast"), volume("b", "1", "fast")]);
    let before = catalogue.epoch();
    let a = VolumeObject::Volume(Arc::new(volume("a", "1", "fast"))).key();
    assert!(catalogue.keys(VolumeKind::Volume).contains(&a));
    assert!(catalogue.remove(&a).is_some() && catalogue.remove(&a).is_none());
    assert_eq!(catalogue.epoch(), before + 1);
    assert!(catalogue.volume("a").is_none() && catalogue.volume("b").is_some());
    assert_eq!(catalogue.volumes_of_class(Some(Symbol::new("fast"))).len(), 1);
}

#[test]
fn attachments_are_found_by_node() {
    let catalogue = VolumeCatalogue::default();
    let on = |node: &str| {
        VolumeObject::Attachment(Arc::new(VolumeAttachment {
            name: "x".into(),
            resource_version: node.into(),
            attacher: None,
            node: Symbol::new(node),
            volume_name: None,
        }))
    };
    catalogue.apply(on("n1"));
    catalogue.apply(on("n2"));
    let count = |node: &str| catalogue.attachments(Symbol::new(node)).len();
    assert_eq!((count("n1"), count("n2")), (0, 1));
    catalogue.remove(&on("n2").key());
    assert_eq!(count("n2"), 0);
}
