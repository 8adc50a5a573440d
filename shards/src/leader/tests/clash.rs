//! Two schedulers that were meant to work side by side and share a Lease by mistake.

use std::io::Write;

use parking_lot::Mutex;
use tracing::subscriber::DefaultGuard;

use super::*;

/// Log lines of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// Lines with these words since the last call.
    fn take(&self, words: &str) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock())).unwrap();
        let lines = text.lines().filter(|line| line.contains(words));
        lines.map(str::to_owned).collect()
    }

    /// What was said about standing by since the last call.
    fn standing_by(&self) -> Vec<String> {
        self.take("standing by")
    }
}

#[tokio::test(start_paused = true)]
async fn who_holds_the_lease_and_since_when_is_said_every_minute() {
    let (log, _in_use) = Log::begin();
    let store = Store::default();
    // Another product's record, of which we know nothing else.
    store.put(|spec| {
        spec.holder_identity = Some("master-1_kube-scheduler".to_owned());
        spec.lease_duration_seconds = Some(15);
        spec.acquire_time = Some("2026-01-01T10:00:00.000000Z".parse().map(micro).unwrap());
    });
    let process = start(&store, "b");
    let renewing = store.clone();
    let renewals = tokio::spawn(async move {
        for number in 0_i32.. {
            sleep(Duration::from_secs(2)).await;
            renewing.edit(|spec| spec.renew_time = Some(micro(jiff::Timestamp::constant(i64::from(number), 0))));
        }
    });
    sleep(Duration::from_secs(30)).await;
    let said = log.standing_by();
    assert_eq!(said.len(), 1, "{said:?}");
    for minutes in [1, 5] {
        sleep(Duration::from_secs(60 * minutes)).await;
        let said = log.standing_by();
        // Looks are up to 1.2 s apart, which adds to each minute.
        let expected = usize::try_from(minutes).unwrap();
        assert!((expected.max(2) - 1..=expected).contains(&said.len()), "{said:?}");
        for line in said {
            for part in [
                "kube-system/kube-scheduler",
                "master-1_kube-scheduler",
                "2026-01-01T10:00:00Z",
            ] {
                assert!(line.contains(part), "{part} is not in {line}");
            }
        }
    }
    assert_eq!(
        *process.state.borrow(),
        LeaderState::Standby {
            holder: Some("master-1_kube-scheduler".to_owned()),
            since: Some("2026-01-01T10:00:00Z".parse().unwrap()),
        }
    );
    assert!(!process.fence.may_act());
    // Another holder is said at once.
    store.edit(|spec| spec.holder_identity = Some("master-2_kube-scheduler".to_owned()));
    sleep(Duration::from_secs(3)).await;
    let said = log.standing_by();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("master-2_kube-scheduler"), "{said:?}");
    renewals.abort();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_may_not_be_read_is_told_of_once_a_minute() {
    let (log, _in_use) = Log::begin();
    let store = Store::default();
    let (client, replica) = store.client();
    replica.set(Fault::Error);
    let elector = LeaderElector::new(client, config("a")).unwrap();
    let (mut state, fence) = (elector.subscribe(), elector.fence());
    let task = tokio::spawn(elector.run(CancellationToken::new()));
    sleep(Duration::from_secs(30)).await;
    assert_eq!(log.take("cannot be read").len(), 1);
    sleep(Duration::from_secs(300)).await;
    let said = log.take("cannot be read").len();
    assert!((4..=5).contains(&said), "{said}");
    assert!(!fence.may_act());
    replica.set(Fault::None);
    let leads = state.wait_for(|state| matches!(state, LeaderState::Leading { .. }));
    leads.await.unwrap();
    task.abort();
}

fn micro(time: jiff::Timestamp) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime {
    k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(time)
}
