//! The races of links and addresses.

use super::super::network::{assert_network_agrees, furnish, needs, reserve};
use super::*;

/// Two pods want the last of a link and the last address; one may be deleted meanwhile, and what the other gets is its
/// alone.
fn the_last_of_a_link() {
    let ledger = shared(8000);
    furnish(&ledger, 100, "10.0.0.0/32");
    let [a, b] = [1, 2].map(|uid| charge(uid, 100));
    let first = spawn(&ledger, {
        let pod = Arc::clone(&a);
        move |ledger| reserve(ledger, &pod, &needs(60, None)).is_ok()
    });
    let second = spawn(&ledger, {
        let pod = Arc::clone(&b);
        move |ledger| reserve(ledger, &pod, &needs(60, None)).is_ok()
    });
    let (first, second) = (first.join().unwrap(), second.join().unwrap());
    // A reserve that is undone may have made the other fail: never both get it.
    assert!(!(first && second));
    assert_network_agrees(&*ledger);
}

/// A pod is deleted while it is reserved: nothing of it is left.
fn a_deletion_overtakes() {
    let ledger = shared(8000);
    furnish(&ledger, 100, "10.0.0.0/32");
    let pod = charge(1, 100);
    let reserving = spawn(&ledger, {
        let pod = Arc::clone(&pod);
        move |ledger| _ = reserve(ledger, &pod, &needs(60, None))
    });
    let removing = spawn(&ledger, |ledger| _ = ledger.remove(PodUid(1)));
    reserving.join().unwrap();
    removing.join().unwrap();
    ledger.remove(PodUid(1));
    for now in 1..3 {
        ledger.wake_addresses(crate::clock::Nanos(now), Default::default());
    }
    assert_network_agrees(&*ledger);
    assert_eq!(ledger.pool_use(PoolIdx(0)).free, 1);
}

#[test]
fn the_last_of_a_link_is_promised_once() {
    explore(the_last_of_a_link);
}

#[test]
fn a_deletion_that_overtakes_a_reserve_leaves_nothing() {
    explore(a_deletion_overtakes);
}
