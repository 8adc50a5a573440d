use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::sync::atomic::AtomicU64 as LoomWord;
use proptest::prelude::*;

use super::*;
use crate::sync::model::Unordered;

/// Every field tells the same number, so that a torn read shows.
fn change(number: u32) -> Change {
    let kind = ChangeKind::NodeAdded(Incarnation(number.into()));
    Change {
        node: NodeIdx(number),
        version: number.into(),
        kind,
        class: Some(ClassId(number)),
    }
}

fn seen<W: Word>(log: &ChangeLog<W>, cursor: &mut Cursor) -> (Vec<Change>, Replay) {
    let mut all = Vec::new();
    let replay = log.replay(cursor, |_, change| all.push(*change));
    (all, replay)
}

#[test]
fn a_reader_sees_each_change_once_and_in_order() {
    let log = ChangeLog::<AtomicU64>::with_capacity(8);
    let mut cursor = log.cursor();
    assert_eq!(seen(&log, &mut cursor), (vec![], Replay::UpTo(0)));
    assert_eq!((log.append(change(1)), log.append(change(2))), (0, 1));
    assert_eq!(log.lag(cursor), 2);
    assert_eq!(seen(&log, &mut cursor), (vec![change(1), change(2)], Replay::UpTo(2)));
    assert_eq!(seen(&log, &mut cursor), (vec![], Replay::UpTo(2)));
    log.append_global(ChangeKind::Rules);
    assert_eq!(
        seen(&log, &mut cursor),
        (vec![Change::global(ChangeKind::Rules)], Replay::UpTo(3))
    );
    assert_eq!((cursor.position(), log.lag(cursor)), (3, 0));
}

#[test]
fn a_reader_a_ring_behind_is_told() {
    let log = ChangeLog::<AtomicU64>::with_capacity(4);
    let mut on_time = Cursor::at(1);
    let mut late = Cursor::at(0);
    for number in 0..5 {
        log.append(change(number));
    }
    assert_eq!(seen(&log, &mut late), (vec![], Replay::FellBehind));
    assert_eq!(seen(&log, &mut on_time).1, Replay::UpTo(5));
    assert_eq!(seen(&log, &mut Cursor::at(5)), (vec![], Replay::UpTo(5)));
}

proptest! {
    #[test]
    fn any_change_comes_back_as_it_went_in(
        node in any::<u32>(),
        version in any::<u64>(),
        class in any::<Option<u32>>(),
        incarnation in any::<u64>(),
        kind in 0_u64..13,
    ) {
        let kind = kind_of(kind, Incarnation(incarnation)).unwrap();
        let change = Change { node: NodeIdx(node), version, kind, class: class.map(ClassId) };
        let log = ChangeLog::<AtomicU64>::with_capacity(2);
        log.append(change);
        prop_assert_eq!(seen(&log, &mut Cursor::at(0)), (vec![change], Replay::UpTo(1)));
    }
}

#[test]
fn many_writers_and_readers_agree_on_one_order() {
    const WRITERS: u32 = 3;
    const EACH: u32 = 4000;
    let log = ChangeLog::<AtomicU64>::with_capacity(1 << 14);
    let read_all = || {
        let (mut cursor, mut all) = (Cursor::at(0), Vec::new());
        while all.len() < (WRITERS * EACH) as usize {
            let replay = log.replay(&mut cursor, |seq, change| {
                assert_eq!(seq, all.len() as u64);
                all.push(*change);
            });
            assert_ne!(replay, Replay::FellBehind);
            std::thread::yield_now();
        }
        all
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(read_all), scope.spawn(read_all)];
        for writer in 0..WRITERS {
            let log = &log;
            scope.spawn(move || {
                for number in 0..EACH {
                    log.append(change(writer * EACH + number));
                }
            });
        }
        let [first, second] = readers.map(|reader| reader.join().unwrap());
        assert_eq!(first, second);
        assert!(first.iter().all(|found| *found == change(found.node.0)));
        for writer in 0..WRITERS {
            let of: Vec<_> = first
                .iter()
                .map(|found| found.node.0)
                .filter(|node| node / EACH == writer)
                .collect();
            assert!(of.is_sorted());
        }
    });
}

#[test]
fn a_slow_reader_of_a_small_ring_sees_no_torn_change() {
    let log = ChangeLog::<AtomicU64>::with_capacity(4);
    std::thread::scope(|scope| {
        let writers = [0_u32, 1].map(|writer| {
            let log = &log;
            scope.spawn(move || {
                for number in 0..5000 {
                    log.append(change(number * 2 + writer));
                }
            })
        });
        let mut cursor = log.cursor();
        while !writers.iter().all(|writer| writer.is_finished()) {
            if log.replay(&mut cursor, |_, found| assert_eq!(*found, change(found.node.0))) == Replay::FellBehind {
                cursor = log.cursor();
            }
        }
    });
    assert_eq!(log.head(), 10_000);
}

/// All schedules with up to two preemptions, and all values that weak memory allows in each. The threads of a model
/// are all spawned: the checker takes the first step of the thread that spawns for one that cannot race.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

fn spawn<W: Word, R: 'static>(
    log: &Arc<ChangeLog<W>>,
    run: impl FnOnce(&ChangeLog<W>) -> R + 'static,
) -> loom::thread::JoinHandle<R> {
    let log = Arc::clone(log);
    loom::thread::spawn(move || run(&log))
}

/// A writer laps a reader in a ring of two. Gives how many changes the reader saw.
fn lapped_reader<W: Word>() -> usize {
    let log = Arc::new(ChangeLog::<W>::with_capacity(2));
    let writer = spawn(&log, |log| {
        (0..3)
            .map(|number| log.append_change(change(number)))
            .collect::<Vec<_>>()
            .len()
    });
    let reader = spawn(&log, |log| {
        let mut count = 0;
        log.replay(&mut Cursor::at(0), |seq, found| {
            assert_eq!(*found, change(found.node.0), "a torn change");
            assert_eq!(seq, u64::from(found.node.0), "a change in the wrong place");
            count += 1;
        });
        count
    });
    writer.join().unwrap();
    reader.join().unwrap()
}

#[test]
fn model_a_lapped_reader_sees_no_torn_change() {
    let seen = Arc::new([const { AtomicU64::new(0) }; 4]);
    let counts = Arc::clone(&seen);
    explore(move || {
        counts[lapped_reader::<LoomWord>()].fetch_add(1, Ordering::Relaxed);
    });
    // Every outcome was met, so the model is about something.
    assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) > 0), "{seen:?}");
}

#[test]
fn model_finds_the_torn_change_when_memory_is_not_ordered() {
    let found = catch_unwind(AssertUnwindSafe(|| {
        explore(|| assert!(lapped_reader::<Unordered>() < 4))
    }));
    assert!(found.is_err());
}

#[test]
fn model_two_writers_leave_a_log_without_gaps() {
    explore(|| {
        let log = Arc::new(ChangeLog::<LoomWord>::with_capacity(2));
        let writers = [1, 2].map(|number| {
            spawn(&log, move |log| {
                let own = log.append_change(change(number));
                let (mut cursor, mut found) = (Cursor::at(0), Vec::new());
                log.replay_to_end(&mut cursor, |_, change| found.push(*change));
                assert!(cursor.position() > own, "its own change was passed over");
                assert_eq!(found.get(usize::try_from(own).unwrap()), Some(&change(number)));
                own
            })
        });
        let [first, second] = writers.map(|writer| writer.join().unwrap());
        assert_eq!(first + second, 1);
        let mut found = Vec::new();
        assert_eq!(
            log.replay(&mut Cursor::at(0), |_, change| found.push(*change)),
            Replay::UpTo(2)
        );
        assert_eq!(found[usize::try_from(first).unwrap()], change(1));
    });
}

#[test]
fn model_a_writer_waits_for_the_slot_that_it_takes_over() {
    explore(|| {
        let log = Arc::new(ChangeLog::<LoomWord>::with_capacity(2));
        let slow = spawn(&log, |log| log.append_change(change(7)));
        let fast = spawn(&log, |log| {
            (0..2).map(|_| log.append_change(change(8))).collect::<Vec<_>>().len()
        });
        let own = slow.join().unwrap();
        fast.join().unwrap();
        let mut found = Vec::new();
        log.replay(&mut Cursor::at(1), |seq, change| found.push((seq, change.node.0)));
        let expected = |seq| (seq, if seq == own { 7 } else { 8 });
        assert_eq!(found, [expected(1), expected(2)]);
    });
}
