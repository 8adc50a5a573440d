//! Extenders that hang, break off, ramble, or are not there.

use std::time::Duration;

use super::kit::*;
use crate::extender::Extenders;
use crate::testing::pod;

/// What the failure of the one filter says.
async fn failure(extenders: &Extenders) -> String {
    let question = question(extenders, &with_text(&pod("p")), &["a", "b"]);
    extenders.decide(&question).await.failure.unwrap().message()
}

#[tokio::test]
async fn a_status_other_than_200_fails_with_upstreams_words() {
    for code in [204, 404, 500] {
        let hook = Webhook::start(move |_, _| Reply::Text(code, "{}".to_owned())).await;
        let extenders = extenders(&[filtering(&format!("{}//", hook.url))]);
        let expected = format!("failed filter with extender at URL {}/filter, code {code}", hook.url);
        assert_eq!(failure(&extenders).await, expected);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = Webhook::start(|_, _| names(&["a"])).await;
    let to = format!("{}/filter", target.url);
    let hook = Webhook::start(move |_, _| Reply::Redirect(to.clone())).await;
    assert!(failure(&extenders(&[filtering(&hook.url)])).await.ends_with("code 307"));
    assert!(target.calls().is_empty());
}

#[tokio::test]
async fn an_extender_that_hangs_is_given_up_after_its_timeout() {
    let hook = Webhook::start(|_, _| Reply::Hang).await;
    let mut config = filtering(&hook.url);
    config.http_timeout = Duration::from_millis(50);
    let text = failure(&extenders(&[config])).await;
    assert_eq!(text, format!("Post \"{}/filter\": no answer within 50ms", hook.url));
}

#[tokio::test]
async fn nobody_at_the_address_is_a_failure_at_once() {
    let url = nobody().await;
    let text = failure(&extenders(&[filtering(&url)])).await;
    assert!(text.starts_with(&format!("Post \"{url}/filter\": ")), "{text}");
}

#[tokio::test]
async fn an_answer_of_10_mb_about_two_nodes_is_not_read_to_its_end() {
    let hook = Webhook::start(|_, _| Reply::Long(10 << 20)).await;
    let text = failure(&extenders(&[filtering(&hook.url)])).await;
    assert!(text.contains("the answer is longer than 105"), "{text}");
}

#[tokio::test]
async fn a_long_answer_about_many_nodes_is_read() {
    let all: Vec<String> = (0..2_000).map(|number| format!("n{number}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let hook = Webhook::start(|_, question| {
        let names = question["NodeNames"].as_array().unwrap().iter();
        let said = names.map(|name| (name.as_str().unwrap().to_owned(), "x".repeat(3_000).into()));
        Reply::Json(serde_json::json!({"FailedNodes": serde_json::Map::from_iter(said)}))
    })
    .await;
    let extenders = extenders(&[filtering(&hook.url)]);
    let question = question(&extenders, &with_text(&pod("p")), &all);
    let answer = extenders.decide(&question).await;
    assert!(answer.failure.is_none());
    assert_eq!(answer.rejections.len(), 2_000);
}

#[tokio::test]
async fn answers_that_make_no_sense_are_failures() {
    for text in [
        "",
        "not json",
        "{\"NodeNames\":",
        "[]",
        "{\"NodeNames\":{}}",
        "{\"NodeNames\":[1]}",
        "\u{0}",
    ] {
        let hook = Webhook::start(move |_, _| Reply::Text(200, text.to_owned())).await;
        let said = failure(&extenders(&[filtering(&hook.url)])).await;
        assert!(said.contains("the answer cannot be read"), "{text:?}: {said}");
    }
    let deep = format!("{{\"x\":{}", "[".repeat(100_000));
    let hook = Webhook::start(move |_, _| Reply::Text(200, deep.clone())).await;
    let said = failure(&extenders(&[filtering(&hook.url)])).await;
    assert!(said.contains("the answer cannot be read"), "{said}");
}

#[test]
fn an_address_that_is_none_is_an_error_at_the_start() {
    let error = Extenders::new(&[filtering("http://[bad")], &metrics())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("extender \"http://[bad/filter\" is not a URL"),
        "{error}"
    );
}
