use std::io::Write as _;

use super::*;
use crate::store::HistoryLimits;

fn plan(workload: Workload, nodes: Option<usize>, pods: Option<usize>) -> Plan {
    generate(WorkloadParams {
        workload,
        nodes,
        pods,
        ..WorkloadParams::default()
    })
    .unwrap()
}

#[test]
fn plans_repeat_and_load() {
    for workload in [Workload::Basic, Workload::Mixed] {
        let first = plan(workload, Some(20), Some(200));
        let second = plan(workload, Some(20), Some(200));
        assert!(first.nodes().eq(second.nodes()));
        assert!(first.pods().eq(second.pods()));
        let store = Store::new(HistoryLimits::default()).unwrap();
        first.load(&store).unwrap();
        assert_eq!(store.resource("", "nodes").unwrap().len(), 20);
        assert_eq!(store.pods().unwrap().len(), 200);
    }
}

#[test]
fn a_full_cluster_has_room_only_where_three_pods_go() {
    let plan = plan(Workload::Preemption, Some(2), Some(3));
    let store = Store::new(HistoryLimits::default()).unwrap();
    plan.load(&store).unwrap();
    let nodes: Vec<Value> = plan.nodes().collect();
    let placed: Vec<Value> = plan.placed().collect();
    assert_eq!((placed.len(), store.pods().unwrap().len()), (8, 11));
    let pod = plan.pod(0);
    let with = |fillers: usize| {
        let mut pods: Vec<Value> = placed.iter().take(fillers).cloned().collect();
        let mut pod = pod.clone();
        pod["spec"]["nodeName"] = "node-000000".into();
        pods.push(pod);
        crate::check::check(&nodes, &pods, &crate::check::CheckOptions::default()).is_sound()
    };
    assert_eq!(placed[3]["spec"]["nodeName"], "node-000000");
    assert!(with(FILLERS_PER_NODE - VICTIMS_PER_POD) && !with(FILLERS_PER_NODE - VICTIMS_PER_POD + 1));
}

#[test]
fn another_seed_gives_other_mixed_pods() {
    let first = plan(Workload::Mixed, Some(1), Some(100));
    let params = WorkloadParams {
        seed: 2,
        ..first.params().clone()
    };
    assert!(!first.pods().eq(generate(params).unwrap().pods()));
}

#[test]
fn the_trace_has_the_sums_that_its_description_gives() {
    let plan = plan(Workload::Openb, None, None);
    assert_eq!((plan.node_count(), plan.pod_count()), (1_523, 8_152));
    let number = |value: &Value| value.as_str().map_or(0, |text| text.parse::<u64>().unwrap());
    let (mut whole, mut milli, mut gpu_nodes) = (0, 0, 0);
    for node in plan.nodes() {
        let allocatable = &node["status"]["allocatable"];
        whole += number(&allocatable["nvidia.com/gpu"]);
        milli += number(&allocatable["example.com/gpu-milli"]);
        gpu_nodes += u64::from(node["metadata"]["labels"]["gpu.model"].is_string());
    }
    assert_eq!((whole + milli / 1_000, gpu_nodes), (6_212, 1_213));
    let (mut with_whole, mut with_share, mut whole_wanted) = (0, 0, 0);
    for pod in plan.pods() {
        let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
        let count = number(&requests["nvidia.com/gpu"]);
        whole_wanted += count;
        with_whole += u64::from(count > 0);
        with_share += u64::from(requests["example.com/gpu-milli"].is_string());
    }
    assert_eq!((with_whole, whole_wanted, with_share), (3_986, 4_355, 3_078));
}

#[test]
fn bad_traces_name_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::File::create(&path)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        path
    };
    let nodes = write("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\na,1000,1,0,\n");
    let pods = write(
        "pods.csv",
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time\np,x,1,0,0,,0\n",
    );
    let params = WorkloadParams {
        workload: Workload::Openb,
        trace: Some((nodes, pods)),
        ..WorkloadParams::default()
    };
    let message = generate(params).unwrap_err().to_string();
    assert!(
        message.ends_with("pods.csv, line 2: cpu_milli: \"x\" is not a number"),
        "{message}"
    );
    assert!("other".parse::<Workload>().is_err());
    let none = WorkloadParams {
        zones: 0,
        ..WorkloadParams::default()
    };
    assert!(generate(none).is_err());
}
