//! Random spread constraints and terms of affinity between pods.
//!
//! Does not: add anything else to a pod.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use super::cluster::{APPS, HOST, RACK, ZONE, hit, word};

/// One or two spread constraints, no two alike in key and action.
pub(super) fn spread(random: &mut Pcg64Mcg) -> Value {
    let mut constraints = vec![constraint(random)];
    if hit(random, 35) {
        let second = constraint(random);
        let is_new = constraints.iter().all(|first| {
            first["topologyKey"] != second["topologyKey"] || first["whenUnsatisfiable"] != second["whenUnsatisfiable"]
        });
        if is_new {
            constraints.push(second);
        }
    }
    constraints.into()
}

fn constraint(random: &mut Pcg64Mcg) -> Value {
    let is_hard = hit(random, 50);
    let mut constraint = json!({
        "topologyKey": word(random, &[ZONE, ZONE, HOST, RACK]), "maxSkew": random.random_range(1..4),
        "whenUnsatisfiable": if is_hard { "DoNotSchedule" } else { "ScheduleAnyway" },
    });
    if !hit(random, 4) {
        constraint["labelSelector"] = selector(random);
        if hit(random, 20) {
            constraint["matchLabelKeys"] = json!([word(random, &["release", "absent"])]);
        }
    }
    if is_hard && hit(random, 25) {
        constraint["minDomains"] = random.random_range(1..6).into();
    }
    for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if hit(random, 25) {
            constraint[field] = word(random, &["Honor", "Ignore"]).into();
        }
    }
    constraint
}

fn selector(random: &mut Pcg64Mcg) -> Value {
    let app = format!("app-{}", random.random_range(0..APPS));
    let tier = word(random, &["web", "db", "cache"]);
    match random.random_range(0..6) {
        0 => json!({"matchLabels": {"app": app}}),
        1 => json!({"matchLabels": {"tier": tier}}),
        2 => json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": [tier]}]}),
        3 => json!({"matchLabels": {"app": app}, "matchExpressions": [{"key": "track", "operator": "Exists"}]}),
        4 => {
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "app-0", "app-1", "app-2"]}]})
        }
        _ => json!({}),
    }
}

/// Adds one or two kinds of terms; required terms name few pods, so that not everything becomes impossible.
pub(super) fn pod_affinity(random: &mut Pcg64Mcg, spec: &mut Value) {
    let kinds = [
        ("podAffinity", true),
        ("podAffinity", false),
        ("podAffinity", false),
        ("podAntiAffinity", true),
        ("podAntiAffinity", false),
    ];
    for _ in 0..random.random_range(1..3) {
        let Some((side, is_required)) = super::cluster::pick(random, &kinds) else {
            continue;
        };
        if is_required {
            let term = term(random, side == "podAntiAffinity");
            spec["affinity"][side]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([term]);
        } else {
            let terms: Vec<Value> = (0..random.random_range(1..3))
                .map(|_| json!({"weight": random.random_range(1..=100), "podAffinityTerm": term(random, false)}))
                .collect();
            spec["affinity"][side]["preferredDuringSchedulingIgnoredDuringExecution"] = terms.into();
        }
    }
}

fn term(random: &mut Pcg64Mcg, narrow: bool) -> Value {
    let selector = if narrow {
        json!({"matchLabels": {"app": format!("app-{}", random.random_range(0..APPS))}})
    } else {
        selector(random)
    };
    let key = if narrow {
        word(random, &[HOST, HOST, RACK])
    } else {
        word(random, &[ZONE, HOST, RACK])
    };
    let mut term = json!({"labelSelector": selector, "topologyKey": key});
    match random.random_range(0..8) {
        0 => term["namespaces"] = json!(["team-a", "default"]),
        1 => term["namespaceSelector"] = json!({}),
        2 => term["namespaceSelector"] = json!({"matchLabels": {"env": "prod"}}),
        3 => {
            term["namespaces"] = json!(["team-c"]);
            term["namespaceSelector"] = json!({"matchLabels": {"team": "a"}});
        }
        4 if !narrow => term["matchLabelKeys"] = json!(["release"]),
        5 if !narrow => term["mismatchLabelKeys"] = json!(["release"]),
        _ => {}
    }
    term
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_terms_and_no_two_constraints_alike() {
        let make = || {
            let mut random = Pcg64Mcg::seed_from_u64(5);
            (0..200).map(|_| spread(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(make(), make());
        for list in make() {
            let mut pairs: Vec<String> = list
                .as_array()
                .unwrap()
                .iter()
                .map(|one| format!("{}{}", one["topologyKey"], one["whenUnsatisfiable"]))
                .collect();
            let before = pairs.len();
            pairs.sort();
            pairs.dedup();
            assert_eq!(pairs.len(), before);
        }
    }
}
