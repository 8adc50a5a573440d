//! What a pod asks for and what it is charged.

use super::*;

fn cpu(builder: &PodBuilder) -> i64 {
    builder.build().spec.request.milli_cpu
}

fn figures(builder: &PodBuilder) -> [i64; 8] {
    let spec = &builder.build().spec;
    [
        spec.request.milli_cpu,
        spec.request.memory,
        spec.fit_score_request.milli_cpu,
        spec.fit_score_request.memory,
        spec.charged_request.milli_cpu,
        spec.charged_request.memory,
        spec.charged_non_zero.milli_cpu,
        spec.charged_non_zero.memory,
    ]
}

const MI: i64 = 1 << 20;

#[test]
fn init_containers_count_by_their_peak_and_sidecars_by_their_place() {
    let c = |n: &'static str| [("cpu", n)];
    assert_eq!(cpu(&pod("a").request("cpu", "1").init_container(&c("4"))), 4000);
    let spread = pod("a").request("cpu", "2").container(&c("3")).init_container(&c("2"));
    let spec = spread.overhead("cpu", "1").overhead("memory", "1Gi").build();
    assert_eq!((spec.spec.request.milli_cpu, spec.spec.request.memory), (6000, 1 << 30));
    assert_eq!(cpu(&pod("a").request("cpu", "1").sidecar(&c("1"))), 2000);
    let one = || pod("a").request("cpu", "1");
    let in_order = one()
        .init_container(&c("5"))
        .sidecar(&c("1"))
        .sidecar(&c("2"))
        .sidecar(&c("3"));
    assert_eq!(cpu(&in_order), 7000);
    let late = one()
        .init_container(&c("5"))
        .sidecar(&c("1"))
        .sidecar(&c("2"))
        .init_container(&c("5"))
        .sidecar(&c("3"));
    assert_eq!(cpu(&late), 8000);
    let big = pod("a")
        .request("cpu", "100")
        .sidecar(&c("10"))
        .init_container(&c("200"));
    assert_eq!(cpu(&big), 210_000);
    let reported = pod("a")
        .request("cpu", "2")
        .init_container(&c("3"))
        .sidecar(&c("1"))
        .init_container(&c("4"))
        .sidecar(&c("1"))
        .overhead("cpu", "250m");
    assert_eq!(figures(&reported).map(|_| cpu(&reported)), [5250; 8]);
    let swapped = pod("a")
        .request("cpu", "2")
        .init_container(&c("3"))
        .init_container(&c("4"))
        .sidecar(&c("1"))
        .sidecar(&c("1"))
        .overhead("cpu", "250m");
    assert_eq!(cpu(&swapped), 4250);
}

#[test]
fn pod_level_requests_replace_by_name_and_scoring_of_fit_ignores_them() {
    let per_name = pod("a").request("cpu", "2m").pod_level("memory", "2Mi");
    assert_eq!(
        figures(&per_name),
        [2, 2 * MI, 2, 200 * MI, 2, 2 * MI, 2, 2 * MI],
        "memory comes from the pod, so that no default applies on the node"
    );
    let all = pod("a")
        .request("cpu", "2m")
        .request("memory", "3Mi")
        .sidecar(&[("cpu", "4m"), ("memory", "5Mi")])
        .init_container(&[("cpu", "8m"), ("memory", "6Mi")]);
    assert_eq!(figures(&all)[..2], [12, 11 * MI]);
    let all = all.pod_level("cpu", "18m").pod_level("memory", "15Mi");
    assert_eq!(figures(&all)[..4], [18, 15 * MI, 12, 11 * MI]);
    let ignored = pod("a")
        .request("example.com/x", "3")
        .pod_level("example.com/x", "2")
        .build();
    let x = Resource::parse("example.com/x").unwrap();
    assert_eq!(ignored.spec.request.get(x), 3);
    let huge = pod("a").pod_level("hugepages-2Mi", "4Mi").build();
    assert_eq!(huge.spec.request.get(Resource::parse("hugepages-2Mi").unwrap()), 4 * MI);
    assert_eq!(
        huge.spec.charged_non_zero.milli_cpu, 100,
        "no cpu anywhere: the default applies"
    );
}

#[test]
fn containers_that_do_not_say_count_with_defaults_for_scoring() {
    let none = pod("a").container(&[]);
    assert_eq!(figures(&none), [0, 0, 200, 400 * MI, 0, 0, 200, 400 * MI]);
    let zero = pod("a").request("cpu", "0").request("memory", "0");
    assert_eq!(figures(&zero), [0; 8]);
    let only_cpu = pod("a").cpu(50);
    assert_eq!(figures(&only_cpu), [50, 0, 50, 200 * MI, 50, 0, 50, 200 * MI]);
}

#[test]
fn a_resize_counts_the_greatest_of_what_is_wanted_set_aside_and_in_force() {
    let table = [
        (resized("4", None, Some("2"), false), 4000),
        (resized("4", None, Some("2"), true), 2000),
        (resized("6", Some("4"), Some("2"), true), 4000),
        (resized("1", Some("2"), Some("2"), false), 2000),
        (resized("3", Some("2"), Some("2"), false), 3000),
        (resized("8", Some("2"), Some("2"), true), 2000),
        (resized("1", Some("2"), Some("1"), false), 2000),
        (resized("1", Some("2"), None, false), 1000),
    ];
    for (builder, charged) in table {
        let built = builder.build();
        assert_eq!(built.charge.request.milli_cpu, charged, "{}", builder.json());
        assert_eq!(built.charge.non_zero.milli_cpu, charged);
        assert_eq!(built.spec.balanced_request.milli_cpu, charged);
    }
    assert_eq!(cpu(&resized("4", None, Some("2"), true)), 4000, "the spec alone");
}

#[test]
fn the_resize_status_counts_for_sidecars_and_not_for_init_containers() {
    let status = |list: &str| json!([{"name": format!("{list}-0"), "resources": {"requests": {"cpu": "2"}}}]);
    let builder = pod("a").on("n").condition("PodResizePending", "True", "Infeasible", "");
    let sidecar = builder
        .clone()
        .sidecar(&[("cpu", "4")])
        .field(&["status", "initContainerStatuses"], status("initContainers"));
    assert_eq!(sidecar.build().charge.request.milli_cpu, 2000);
    let init = builder
        .init_container(&[("cpu", "4")])
        .field(&["status", "initContainerStatuses"], status("initContainers"));
    assert_eq!(init.build().charge.request.milli_cpu, 4000);
}

#[test]
fn pod_level_resize_counts_names_that_the_spec_names() {
    let builder = pod("a")
        .on("n")
        .pod_level("cpu", "3")
        .field(
            &["status", "resources"],
            json!({"requests": {"cpu": "2", "memory": "1Gi"}}),
        )
        .field(&["status", "allocatedResources"], json!({"cpu": "4"}));
    let built = builder.build();
    assert_eq!((built.charge.request.milli_cpu, built.charge.request.memory), (4000, 0));
    let infeasible = builder
        .pod_level("cpu", "9")
        .condition("PodResizePending", "True", "Infeasible", "");
    assert_eq!(infeasible.build().charge.request.milli_cpu, 4000);
}

#[test]
fn amounts_are_rounded_once_at_the_end() {
    assert_eq!(cpu(&pod("a").request("cpu", "0.5m")), 1);
    assert_eq!(cpu(&pod("a").request("cpu", "0.5m").container(&[("cpu", "0.5m")])), 1);
}

#[test]
fn quantities_may_be_numbers_and_bad_ones_name_their_field() {
    let number = pod("a").field(
        &["spec", "containers"],
        json!([{"resources": {"requests": {"cpu": 2}}}]),
    );
    assert_eq!(cpu(&number), 2000);
    let path = |builder: PodBuilder| builder.decode().unwrap_err();
    for bad in ["", "1K", "1ki", "1e", "1kI", "1 Ki", "1_000", "0x10", "--1", "-1"] {
        let error = path(pod("p").namespace("x").request("memory", bad));
        assert_eq!((&*error.namespace, &*error.name), ("x", "p"));
        assert_eq!(&*error.path, "spec.containers[0].resources.requests[memory]", "{bad}");
    }
    let error = path(pod("p").init_container(&[]).init_container(&[("storage", "x")]));
    assert_eq!(&*error.path, "spec.initContainers[1].resources.requests[storage]");
    let error = path(pod("p").overhead("cpu", "x"));
    assert_eq!(&*error.path, "spec.overhead[cpu]");
    assert_eq!(
        error.to_string(),
        "pod default/p: spec.overhead[cpu]: \"x\" is no quantity: a number with an optional suffix such as m, k, Ki, \
         Mi, G or e3 is"
    );
    let error = decode_node(&node("n").allocatable("cpu", "1K").json().to_string()).unwrap_err();
    assert_eq!((&*error.name, &*error.path), ("n", "status.allocatable[cpu]"));
}
