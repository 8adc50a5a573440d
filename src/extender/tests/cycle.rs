//! Whole decisions: what is asked, what is kept when the cluster moves on meanwhile, and what is said in the end.

use std::sync::Arc;

use serde_json::json;
use supercargo_config::extender::Extender as ExtenderConfig;
use supercargo_config::{Loader, PluginCatalogue};

use super::kit::*;
use crate::cluster::{Cluster, LabelVisibility, ObjectText, PodInfo};
use crate::cycle::full::{self, Outcome};
use crate::cycle::{Decision, View};
use crate::extender::{Consultation, Deciding, Extenders, Step};
use crate::framework::{Code, Handle, Profile, Profiles, Registry};
use crate::ids::Symbol;
use crate::ledger::Checks;
use crate::plugins;
use crate::testing::{NodeBuilder, PodBuilder, node, pod};

const BASE: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

struct Scene {
    cluster: Cluster,
    view: View,
    profile: Arc<Profile>,
    extenders: Extenders,
}

impl Scene {
    /// Nodes of 4 CPUs with these names, under the default profile.
    fn new(nodes: &[&str], configs: &[ExtenderConfig]) -> Self {
        let catalogue = PluginCatalogue::in_tree();
        let loaded = Loader::new(&catalogue).load_str("test", BASE).unwrap();
        let registry: Registry = plugins::registry();
        let profiles = Profiles::build(&loaded.configuration, &registry, &Arc::new(Handle::default())).unwrap();
        let cluster = Cluster::new([Symbol::new("default-scheduler")], LabelVisibility::All);
        let mut scene = Self {
            view: View::new(&cluster),
            cluster,
            profile: Arc::clone(&profiles.all()[0]),
            extenders: extenders(configs),
        };
        for name in nodes {
            scene.add_node(&node(name).cpu(4_000).memory_gi(8));
        }
        scene
    }

    fn add_node(&mut self, builder: &NodeBuilder) {
        let spec = builder.build();
        let name = spec.name.unwrap();
        self.cluster.apply_node((*spec).clone());
        let text = ObjectText::from_json(&builder.json().to_string()).unwrap();
        self.cluster.keep_node_text(name, Arc::new(text));
    }

    /// Puts a pod on a node.
    fn occupy(&self, name: &str, node: &str, cpu: i64) {
        let pod = pod(name).uid(name).cpu(cpu).build_in(&self.cluster.classes);
        let idx = self.cluster.find_node(Symbol::new(node)).unwrap();
        let incarnation = self.cluster.node(idx).unwrap().incarnation;
        self.cluster
            .ledger
            .reserve(&pod.charge, &Checks::default(), idx, incarnation)
            .unwrap();
    }

    fn pod(&self, builder: &PodBuilder) -> Arc<PodInfo> {
        let mut pod = PodInfo::clone(&builder.build_in(&self.cluster.classes));
        pod.text = ObjectText::from_json(&builder.json().to_string()).map(Arc::new);
        Arc::new(pod)
    }

    fn begin(&self, pod: &Arc<PodInfo>) -> Consultation {
        Consultation::new(self.extenders.interest(pod).unwrap())
    }

    fn step(&mut self, consultation: &mut Consultation, pod: &Arc<PodInfo>) -> Step {
        self.view.replay(&self.cluster);
        let cx = Deciding {
            view: &self.view,
            cluster: &self.cluster,
            profile: &self.profile,
            pod,
            random: 0,
        };
        consultation.decide(&self.extenders, &cx)
    }

    /// Asks until it is decided.
    async fn finish(&mut self, consultation: &mut Consultation, pod: &Arc<PodInfo>) -> Decision {
        loop {
            match self.step(consultation, pod) {
                Step::Decided(decision) => return decision,
                Step::Ask(question) => consultation.answered(self.extenders.decide(&question).await),
            }
        }
    }

    async fn decide(&mut self, builder: &PodBuilder) -> Decision {
        let pod = self.pod(builder);
        let mut consultation = self.begin(&pod);
        self.finish(&mut consultation, &pod).await
    }

    fn name(&self, decision: &Decision) -> &'static str {
        match decision {
            Decision::Node(idx, _) => self.view.nodes().get(*idx).unwrap().name.as_str(),
            other => panic!("{other:?}"),
        }
    }
}

/// The message and the plugins behind it.
fn told(scene: &Scene, decision: &Decision) -> (String, Vec<&'static str>) {
    let Decision::NoFit(evaluation) = decision else {
        panic!("{decision:?}")
    };
    let Outcome::NoFit(diagnosis) = &evaluation.outcome else {
        panic!("{evaluation:?}")
    };
    let error = crate::framework::FitError {
        node_count: scene.view.nodes().len(),
        diagnosis: (**diagnosis).clone(),
        post_filter_message: String::new(),
    };
    let plugins = diagnosis.unschedulable_plugins.iter().map(|plugin| plugin.as_str());
    (error.message(), plugins.collect())
}

#[tokio::test]
async fn the_extenders_score_outweighs_the_plugins() {
    let hook = Webhook::start(|_, _| scores(&[("b", 10)])).await;
    let mut scene = Scene::new(&["a", "b"], &[prioritizing(&hook.url, 100)]);
    scene.occupy("other", "b", 3_000);
    let decision = scene.decide(&pod("p").cpu(100)).await;
    assert_eq!(scene.name(&decision), "b");
}

#[tokio::test]
async fn a_small_weight_does_not_outweigh_them() {
    // One point, times 10 and the weight 1, is less than the empty node is ahead by.
    let hook = Webhook::start(|_, _| scores(&[("b", 1)])).await;
    let mut scene = Scene::new(&["a", "b"], &[prioritizing(&hook.url, 1)]);
    scene.occupy("other", "b", 3_000);
    let decision = scene.decide(&pod("p").cpu(100)).await;
    assert_eq!(scene.name(&decision), "a");
}

#[tokio::test]
async fn rejections_join_those_of_the_filters_and_name_the_extender() {
    let hook = Webhook::start(|_, _| {
        Reply::Json(json!({
            "NodeNames": [],
            "FailedNodes": {"b": "no card left"},
            "FailedAndUnresolvableNodes": {"c": "no card"},
        }))
    })
    .await;
    let mut scene = Scene::new(&["a", "b", "c", "d"], &[filtering(&hook.url)]);
    scene.occupy("other", "a", 4_000);
    let decision = scene.decide(&pod("p").cpu(1_000)).await;
    let (message, plugins) = told(&scene, &decision);
    assert_eq!(
        message,
        "0/4 nodes are available: 1 Insufficient cpu, 1 no card, 1 no card left."
    );
    assert_eq!(plugins, ["NodeResourcesFit", "Extender"]);
    let Decision::NoFit(evaluation) = &decision else {
        panic!()
    };
    let code = |name: &str| {
        evaluation
            .statuses
            .get(scene.cluster.find_node(Symbol::new(name)).unwrap())
            .code
    };
    assert_eq!(code("b"), Code::Unschedulable);
    assert_eq!(code("c"), Code::UnschedulableAndUnresolvable);
    assert_ne!(
        code("d"),
        Code::Unschedulable,
        "dropped without a word: not worth an eviction"
    );
}

#[tokio::test]
async fn nobody_is_asked_about_a_pod_that_fits_nowhere() {
    let hook = Webhook::start(|_, _| names(&[])).await;
    let mut scene = Scene::new(&["a"], &[filtering(&hook.url)]);
    let decision = scene.decide(&pod("p").cpu(9_000)).await;
    assert_eq!(told(&scene, &decision).1, ["NodeResourcesFit"]);
    assert!(hook.calls().is_empty());
}

#[tokio::test]
async fn a_single_node_is_not_prioritised() {
    let hook = Webhook::start(|_, _| scores(&[])).await;
    let mut scene = Scene::new(&["a"], &[prioritizing(&hook.url, 1)]);
    let decision = scene.decide(&pod("p")).await;
    assert_eq!(scene.name(&decision), "a");
    assert!(hook.calls().is_empty());
}

#[tokio::test]
async fn a_failure_of_who_must_be_heard_fails_the_cycle() {
    let hook = Webhook::start(|_, _| Reply::Json(json!({"Error": "database down"}))).await;
    let mut scene = Scene::new(&["a", "b"], &[filtering(&hook.url)]);
    let Decision::Failed(status) = scene.decide(&pod("p")).await else {
        panic!("it failed")
    };
    assert_eq!(status.message(), "database down");
    let mut config = filtering(&hook.url);
    config.ignorable = true;
    let mut scene = Scene::new(&["a", "b"], &[config]);
    let decision = scene.decide(&pod("p")).await;
    assert!(matches!(decision, Decision::Node(..)));
}

#[tokio::test]
async fn a_node_taken_while_extenders_were_asked_is_not_chosen() {
    let hook = Webhook::start(|verb, _| {
        if verb == "filter" {
            names(&["a", "b"])
        } else {
            scores(&[("a", 10)])
        }
    })
    .await;
    let mut config = filtering(&hook.url);
    config.prioritize_verb = "prioritize".to_owned();
    config.weight = 100;
    let mut scene = Scene::new(&["a", "b", "c"], &[config]);
    let pod = scene.pod(&pod("p").cpu(1_000));
    let mut consultation = scene.begin(&pod);
    let Step::Ask(question) = scene.step(&mut consultation, &pod) else {
        panic!("it asks")
    };
    let answer = scene.extenders.decide(&question).await;
    scene.occupy("other", "a", 4_000);
    consultation.answered(answer);
    let Step::Decided(decision) = scene.step(&mut consultation, &pod) else {
        panic!("it is decided")
    };
    assert_eq!(scene.name(&decision), "b");
}

#[tokio::test]
async fn when_all_that_passed_are_taken_new_nodes_are_asked_about() {
    let hook = Webhook::start(|_, question| Reply::Json(json!({"NodeNames": question["NodeNames"]}))).await;
    let mut scene = Scene::new(&["a"], &[filtering(&hook.url)]);
    let pod = scene.pod(&pod("p").cpu(1_000));
    let mut consultation = scene.begin(&pod);
    for round in 0..3 {
        let Step::Ask(question) = scene.step(&mut consultation, &pod) else {
            panic!("it asks in round {round}")
        };
        let answer = scene.extenders.decide(&question).await;
        let taken = if round == 0 {
            "a".to_owned()
        } else {
            format!("new-{}", round - 1)
        };
        scene.occupy(&format!("other-{round}"), &taken, 4_000);
        scene.add_node(&node(&format!("new-{round}")).cpu(4_000).memory_gi(8));
        consultation.answered(answer);
    }
    let Step::Decided(decision) = scene.step(&mut consultation, &pod) else {
        panic!("not for ever")
    };
    let (message, plugins) = told(&scene, &decision);
    assert_eq!(
        message,
        "0/4 nodes are available: 1 node(s) became feasible after extenders were asked, 3 Insufficient cpu."
    );
    assert_eq!(plugins, ["NodeResourcesFit", "Extender"]);
}

#[tokio::test]
async fn a_node_created_anew_meanwhile_was_not_asked_about() {
    let hook = Webhook::start(|_, _| names(&["a"])).await;
    let mut scene = Scene::new(&["a"], &[filtering(&hook.url)]);
    let pod = scene.pod(&pod("p"));
    let mut consultation = scene.begin(&pod);
    let Step::Ask(question) = scene.step(&mut consultation, &pod) else {
        panic!("it asks")
    };
    let answer = scene.extenders.decide(&question).await;
    scene.cluster.remove_node(Symbol::new("a"));
    scene.add_node(&node("a").uid("another").cpu(4_000).memory_gi(8));
    consultation.answered(answer);
    assert!(matches!(scene.step(&mut consultation, &pod), Step::Ask(_)));
}

#[tokio::test]
async fn the_nominated_node_is_asked_about_alone_first() {
    let hook = Webhook::start(|verb, question| {
        let names = question["NodeNames"].clone();
        if verb == "filter" {
            Reply::Json(json!({"NodeNames": names}))
        } else {
            scores(&[])
        }
    })
    .await;
    let mut config = filtering(&hook.url);
    config.prioritize_verb = "prioritize".to_owned();
    let mut scene = Scene::new(&["a", "b"], &[config]);
    scene.occupy("other", "b", 3_000);
    let decision = scene.decide(&pod("p").cpu(100).nominated("b")).await;
    assert_eq!(scene.name(&decision), "b");
    assert_eq!(hook.verbs(), ["filter"]);
    assert_eq!(hook.calls()[0].1["NodeNames"], json!(["b"]));
}

#[tokio::test]
async fn a_refused_nominated_node_leaves_the_others_be_it_by_an_error() {
    for refusal in [
        json!({"NodeNames": [], "FailedNodes": {"b": "no"}}),
        json!({"Error": "no"}),
    ] {
        let hook = Webhook::start(move |_, question| {
            if question["NodeNames"] == json!(["b"]) {
                Reply::Json(refusal.clone())
            } else {
                names(&["a"])
            }
        })
        .await;
        let mut scene = Scene::new(&["a", "b"], &[filtering(&hook.url)]);
        let decision = scene.decide(&pod("p").cpu(100).nominated("b")).await;
        assert_eq!(scene.name(&decision), "a");
        assert_eq!(hook.calls()[1].1["NodeNames"], json!(["a", "b"]));
    }
}

/// Upstream computes scores from the nodes that are sent back, on which there are no pods.
#[tokio::test]
async fn nodes_that_are_sent_back_are_scored_as_if_they_were_empty() {
    let answers = |question: &serde_json::Value| {
        let mut nodes = question["Nodes"].clone();
        // The node with pods on it comes back larger than the empty one.
        nodes["items"][1]["status"]["allocatable"] = json!({"cpu": "64", "memory": "128Gi", "pods": "110"});
        json!({"Nodes": nodes})
    };
    let hook = Webhook::start(move |_, question| Reply::Json(answers(question))).await;
    let mut config = filtering(&hook.url);
    config.node_cache_capable = false;
    let mut scene = Scene::new(&["a", "b"], &[config]);
    scene.occupy("other", "b", 3_000);
    let decision = scene.decide(&pod("p").cpu(500).memory_gi(1)).await;
    assert_eq!(scene.name(&decision), "b");
}

#[tokio::test]
async fn what_is_not_at_hand_of_a_node_is_an_error() {
    let hook = Webhook::start(|_, _| names(&[])).await;
    let mut config = filtering(&hook.url);
    config.node_cache_capable = false;
    let mut scene = Scene::new(&[], &[config]);
    scene.cluster.apply_node((*node("bare").build()).clone());
    let Decision::Failed(status) = scene.decide(&pod("p")).await else {
        panic!("it failed")
    };
    assert!(status.message().contains("the object of node bare is not at hand"));
}

/// PostFilter's message, once all that is to be asked has been asked.
async fn preempt(scene: &mut Scene, builder: &PodBuilder) -> (String, usize) {
    let pod = scene.pod(builder);
    let mut consultation = scene.begin(&pod);
    let Decision::NoFit(mut evaluation) = scene.finish(&mut consultation, &pod).await else {
        panic!("it fits")
    };
    for asked in 0..5 {
        consultation.prepare_post_filter(&mut evaluation.state);
        let view = scene.view.cluster_view(&scene.cluster);
        let filtered = full::post_filter(&scene.profile, &view, &evaluation, &pod);
        let Some(question) = consultation.open_victims(&pod) else {
            return (filtered.error.post_filter_message, asked);
        };
        let answer = scene.extenders.choose_victims(&question, &scene.cluster).await;
        consultation.victims_answered(answer);
    }
    panic!("it asks for ever")
}

#[tokio::test]
async fn extenders_have_a_say_about_victims_before_anybody_is_evicted() {
    let low = |name: &str, node: &str| pod(name).uid(name).cpu(4_000).on(node);
    let agree = |question: &serde_json::Value| json!({"NodeNameToMetaVictims": question["NodeNameToMetaVictims"]});
    let hook = Webhook::start(move |_, question| {
        Reply::Json(match question["Pod"]["metadata"]["name"].as_str() {
            Some("agreed") => agree(question),
            Some("refused") => json!({}),
            _ => json!({"NodeNameToMetaVictims": {"elsewhere": {"Pods": [{"UID": "x"}]}}}),
        })
    })
    .await;
    let mut config = extender(&hook.url);
    config.preempt_verb = "preempt".to_owned();
    let mut scene = Scene::new(&["a", "b"], &[config]);
    for (name, node) in [("low-a", "a"), ("low-b", "b")] {
        let low = scene.pod(&low(name, node));
        scene.cluster.apply_pod(PodInfo::clone(&low));
    }
    let high = |name: &str| pod(name).cpu(1_000).priority(10);
    assert_eq!(preempt(&mut scene, &high("agreed")).await, (String::new(), 1));
    let refused = "no new claims to deallocate, preemption: no candidate node for preemption".to_owned();
    assert_eq!(preempt(&mut scene, &high("refused")).await, (refused, 1));
    let (message, asked) = preempt(&mut scene, &high("lied-to")).await;
    assert!(message.contains("claims victims on node \"elsewhere\""), "{message}");
    assert_eq!(asked, 1);
    let (_, sent) = hook.calls().remove(0);
    assert_eq!(sent["NodeNameToMetaVictims"]["a"]["Pods"], json!([{"UID": "low-a"}]));
}
