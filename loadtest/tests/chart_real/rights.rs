//! What the chart grants, what the scheduler used, and what the API server would allow.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};
use supercargo_loadtest::client::ApiClient;

/// Verbs that are asked for one by one.
const VERBS: [&str; 9] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "*",
];
/// Reviews under way at once.
const REVIEWS: usize = 32;
/// Granted and not seen in a run without faults: an object is read back when the outcome of a write is unknown.
const FOR_FAULTS: [(&str, &str, &str); 3] = [
    ("", "pods", "get"),
    ("", "persistentvolumes", "get"),
    ("", "persistentvolumeclaims", "get"),
];
/// What every authenticated user may do (`system:basic-user`): ask about itself.
const EVERYBODY: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// (group, resource with subresource, verb)
type Right = (String, String, String);

/// A rule of the chart, taken apart.
struct Rule {
    right: Right,
    /// The one namespace that it holds in; `None`: everywhere.
    namespace: Option<String>,
    /// The one object that it holds for.
    name: Option<String>,
}

/// What the chart's roles grant.
pub(crate) struct Granted {
    rules: Vec<Rule>,
}

impl Granted {
    /// Reads the roles among rendered objects. Rules about paths are not the scheduler's but those of readers of metrics.
    pub(crate) fn from_objects(objects: &[Value]) -> Result<Self> {
        let mut rules = Vec::new();
        for role in objects {
            let namespace = match role["kind"].as_str() {
                Some("ClusterRole") => None,
                Some("Role") => Some(text(&role["metadata"]["namespace"])?),
                _ => continue,
            };
            for rule in role["rules"].as_array().context("a role without rules")? {
                if !rule["nonResourceURLs"].is_null() {
                    continue;
                }
                let names = list(&rule["resourceNames"])?;
                ensure!(names.len() <= 1, "a rule for several objects: {rule}");
                for (group, resource, verb) in product(rule)? {
                    let parts = [&group, &resource, &verb];
                    ensure!(
                        parts.iter().all(|part| !part.contains('*')),
                        "a rule with a wildcard: {rule}"
                    );
                    rules.push(Rule {
                        right: (group, resource, verb),
                        namespace: namespace.clone(),
                        name: names.first().cloned(),
                    });
                }
            }
        }
        Ok(Self { rules })
    }

    /// Every right was used, or has its reason here.
    pub(crate) fn check_against(&self, used: &Used) -> Result<()> {
        let for_faults = |right: &Right| {
            let (group, resource, verb) = right;
            FOR_FAULTS.contains(&(group.as_str(), resource.as_str(), verb.as_str()))
        };
        let unused: Vec<&Right> = self
            .rules
            .iter()
            .map(|rule| &rule.right)
            .filter(|right| !used.rights.contains(*right) && !for_faults(right))
            .collect();
        ensure!(
            unused.is_empty(),
            "granted and not used: {unused:?}; used: {:?}",
            used.rights
        );
        Ok(())
    }

    fn allows(&self, question: &Question) -> bool {
        let everybody = EVERYBODY.contains(&(question.right.0.as_str(), question.right.1.as_str()));
        let rule = self.rules.iter().any(|rule| {
            rule.right == question.right
                && rule
                    .namespace
                    .as_ref()
                    .is_none_or(|namespace| *namespace == question.namespace)
                && rule
                    .name
                    .as_ref()
                    .is_none_or(|name| Some(name) == question.name.as_ref())
        });
        rule || (everybody && question.right.2 == "create")
    }
}

fn product(rule: &Value) -> Result<Vec<Right>> {
    let (groups, resources, verbs) = (
        list(&rule["apiGroups"])?,
        list(&rule["resources"])?,
        list(&rule["verbs"])?,
    );
    let mut rights = Vec::new();
    for group in &groups {
        for resource in &resources {
            rights.extend(verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())));
        }
    }
    ensure!(!rights.is_empty(), "a rule that grants nothing: {rule}");
    Ok(rights)
}

fn text(value: &Value) -> Result<String> {
    value
        .as_str()
        .map(str::to_owned)
        .with_context(|| format!("{value} is no text"))
}

fn list(value: &Value) -> Result<Vec<String>> {
    value.as_array().into_iter().flatten().map(text).collect()
}

/// What a user asked of the API server.
pub(crate) struct Used {
    /// Rights behind the requests.
    pub rights: BTreeSet<Right>,
    /// Requests that were refused.
    pub refused: Vec<String>,
}

impl Used {
    /// Reads kube-apiserver's audit log.
    pub(crate) fn from_audit_log(path: &Path, user: &str) -> Result<Self> {
        let log = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut used = Self {
            rights: BTreeSet::new(),
            refused: Vec::new(),
        };
        for line in log.lines().filter(|line| line.contains(user)) {
            let event: Value = serde_json::from_str(line).context("a line of the audit log is not JSON")?;
            if event["user"]["username"] != user {
                continue;
            }
            if matches!(event["responseStatus"]["code"].as_u64(), Some(401 | 403)) {
                used.refused.push(format!("{} {}", event["verb"], event["requestURI"]));
            }
            let object = &event["objectRef"];
            if let Some(resource) = object["resource"].as_str() {
                let resource = match object["subresource"].as_str() {
                    Some(part) => format!("{resource}/{part}"),
                    None => resource.to_owned(),
                };
                let group = object["apiGroup"].as_str().unwrap_or_default().to_owned();
                used.rights.insert((group, resource, text(&event["verb"])?));
            }
        }
        if used.rights.is_empty() {
            bail!("{user} asked for nothing");
        }
        Ok(used)
    }
}

struct Question {
    right: Right,
    /// Empty: in all namespaces, or of an object outside of them.
    namespace: String,
    name: Option<String>,
}

/// Asks the API server about every verb on every resource that it has, in all namespaces and in single ones.
pub(crate) async fn check_nothing_else_is_granted(
    client: &ApiClient,
    granted: &Granted,
    own_namespace: &str,
    user: &str,
) -> Result<()> {
    let mut questions = Vec::new();
    for (group, resource, namespaced) in resources(client).await? {
        let namespaces: &[&str] = if namespaced {
            &["", own_namespace, "default", "kube-system"]
        } else {
            &[""]
        };
        for (namespace, verb) in namespaces.iter().flat_map(|one| VERBS.map(|verb| (*one, verb))) {
            questions.push(Question {
                right: (group.clone(), resource.clone(), verb.to_owned()),
                namespace: namespace.to_owned(),
                name: None,
            });
        }
    }
    for rule in granted.rules.iter().filter(|rule| rule.name.is_some()) {
        for name in [rule.name.clone(), Some("another".to_owned())] {
            questions.push(Question {
                right: rule.right.clone(),
                namespace: rule.namespace.clone().unwrap_or_default(),
                name,
            });
        }
    }
    let groups = json!([
        "system:serviceaccounts",
        format!("system:serviceaccounts:{own_namespace}"),
        "system:authenticated"
    ]);
    let answers = futures::stream::iter(questions).map(|question| {
        let groups = groups.clone();
        async move {
            let allowed = review(client, &question, user, groups).await?;
            Ok::<_, anyhow::Error>((allowed, question))
        }
    });
    let answers: Vec<(bool, Question)> = answers.buffer_unordered(REVIEWS).try_collect().await?;
    let wrong: Vec<String> = answers
        .iter()
        .filter(|(allowed, question)| *allowed != granted.allows(question))
        .map(|(allowed, Question { right, namespace, name })| {
            format!("{right:?} in {namespace:?} on {name:?}: allowed is {allowed}")
        })
        .collect();
    ensure!(answers.len() > 1000, "only {} questions were asked", answers.len());
    ensure!(
        wrong.is_empty(),
        "the API server and the chart differ:\n{}",
        wrong.join("\n")
    );
    Ok(())
}

async fn review(client: &ApiClient, question: &Question, user: &str, groups: Value) -> Result<bool> {
    let (group, resource, verb) = &question.right;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "groups": groups,
            "resourceAttributes": {
                "group": group, "resource": resource, "subresource": subresource, "verb": verb,
                "namespace": question.namespace, "name": question.name,
            },
        },
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let (status, body) = client.post(path, Bytes::from(review.to_string())).await?;
    ensure!(status.is_success(), "{path}: {status}");
    let answer: Value = serde_json::from_slice(&body)?;
    answer["status"]["allowed"]
        .as_bool()
        .context("a review without an answer")
}

/// Every resource and subresource of the server: (group, name, whether it is namespaced).
async fn resources(client: &ApiClient) -> Result<BTreeSet<(String, String, bool)>> {
    let groups: Value = client.get("/apis").await?;
    let mut paths = vec![(String::new(), "/api/v1".to_owned())];
    for group in groups["groups"].as_array().context("no groups")? {
        for version in group["versions"].as_array().context("a group without versions")? {
            paths.push((
                text(&group["name"])?,
                format!("/apis/{}", text(&version["groupVersion"])?),
            ));
        }
    }
    let mut found = BTreeSet::new();
    for (group, path) in paths {
        let list: Value = client.get(&path).await?;
        for resource in list["resources"].as_array().context("no resources")? {
            let namespaced = resource["namespaced"].as_bool().unwrap_or(false);
            found.insert((group.clone(), text(&resource["name"])?, namespaced));
        }
    }
    Ok(found)
}
