//! The recorded vectors of this repository, and the runner itself.

use std::path::{Path, PathBuf};

use super::record::Record;
use super::replay::{Replayed, replay};
use super::*;

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("parity")
}

#[test]
fn every_record_comes_out_as_recorded() {
    let report = check(&[vectors()], None).unwrap();
    assert!(report.failures().is_empty(), "{}", report.text(10));
    let summary = report.summary();
    assert_eq!(
        (summary.all.not_supported, summary.themes.len(), summary.all.passed),
        (0, 18, 1953)
    );
}

/// Every record of a theme, each changed by `change`, must fail with a difference whose path is `path`.
fn must_fail(theme: &str, path: &str, change: impl Fn(&mut serde_json::Value) -> bool) {
    let mut changed = 0;
    files::each_line(&vectors().join(format!("{theme}.jsonl.gz")), |line| {
        let mut record: serde_json::Value = serde_json::from_str(line)?;
        if changed < 5 && change(&mut record) {
            let record: Record = serde_json::from_str(&record.to_string())?;
            match replay(&record) {
                Replayed::Compared(found) => {
                    let hit = found.iter().any(|difference| difference.starts_with(path));
                    assert!(hit, "{}: {path} is not among {found:?}", record.name);
                    changed += 1;
                }
                Replayed::NotSupported(_) => {}
            }
        }
        Ok(())
    })
    .unwrap();
    assert!(changed > 0, "no record of {theme} was changed");
}

#[test]
fn every_part_of_an_expectation_is_compared() {
    let first = |value: &mut serde_json::Value, pointer: &str, to: serde_json::Value| {
        let by_node = value.pointer_mut(pointer).and_then(serde_json::Value::as_object_mut);
        let slot = by_node.and_then(|by_node| by_node.values_mut().next());
        slot.map(|slot| *slot = to).is_some()
    };
    let set = |value: &mut serde_json::Value, pointer: &str, to: serde_json::Value| {
        value.pointer_mut(pointer).map(|slot| *slot = to).is_some()
    };
    let skip = || serde_json::json!({"code": "Skip"});
    must_fail("taints", "preFilter", |r| set(r, "/expect/preFilter", skip()));
    must_fail("taints", "filter.", |r| first(r, "/expect/filter", skip()));
    let scores = || serde_json::json!({"TaintToleration": -1});
    must_fail("taints", "scores.", |r| first(r, "/expect/scores", scores()));
    must_fail("taints", "rawScores.", |r| first(r, "/expect/rawScores", scores()));
    must_fail("taints", "totals.", |r| first(r, "/expect/totals", (-1).into()));
    must_fail("taints", "winners", |r| {
        set(r, "/expect/winners", serde_json::json!([]))
    });
    must_fail("taints", "message", |r| set(r, "/expect/message", "fits".into()));
    must_fail("preemption", "nominated", |r| {
        set(r, "/expect/nominated", serde_json::json!(["x"]))
    });
    let candidate = || serde_json::json!({"victims": [], "numPDBViolations": 0});
    must_fail("preemption", "candidates.", |r| {
        first(r, "/expect/candidates", candidate())
    });
    must_fail("preemption", "dryRunRejections.", |r| {
        first(r, "/expect/dryRunRejections", skip())
    });
    must_fail("field-reports", "steps[1]", |r| {
        set(r, "/steps/1/totals", serde_json::json!({}))
    });
    must_fail("field-reports", "steps[1]", |r| set(r, "/steps/1/chosen", "x".into()));
}

#[test]
fn a_record_that_cannot_be_built_fails_with_the_reason() {
    let record = |objects: serde_json::Value, config: serde_json::Value| -> Record {
        let pod = serde_json::json!({
            "metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {"schedulerName": "default-scheduler"},
        });
        let record = serde_json::json!({
            "name": "n", "theme": "t", "config": config, "objects": objects, "pod": pod,
            "expect": {"message": "no nodes available to schedule pods"},
        });
        serde_json::from_str(&record.to_string()).unwrap()
    };
    let differences = |record: &Record| match replay(record) {
        Replayed::Compared(found) => found,
        Replayed::NotSupported(reason) => panic!("{}", reason.reason()),
    };
    let none = serde_json::Value::Null;
    let empty = record(serde_json::json!({}), none.clone());
    assert_eq!(differences(&empty), [] as [&str; 0]);
    let bad_node =
        serde_json::json!({"nodes": [{"metadata": {"name": "x"}, "status": {"allocatable": {"cpu": "1K"}}}]});
    let found = differences(&record(bad_node, none)).join("\n");
    assert!(found.starts_with("node x: status.allocatable[cpu]: "), "{found}");
    let found = differences(&record(serde_json::json!({}), serde_json::json!({"kind": "Pod"})));
    assert_eq!(found.len(), 1);
}

#[test]
fn the_summary_has_the_agreed_names() {
    let report = check(
        &[vectors().join("node-declared-features.jsonl.gz")],
        Some("node-declared-features"),
    )
    .unwrap();
    assert_eq!(
        serde_json::to_value(report.summary()).unwrap(),
        serde_json::json!({
            "passed": 15, "failed": 0, "not_supported": 0,
            "themes": {"node-declared-features": {"passed": 15, "failed": 0, "not_supported": 0}},
        })
    );
    assert!(check(&[vectors()], Some("no such theme")).is_err());
}
