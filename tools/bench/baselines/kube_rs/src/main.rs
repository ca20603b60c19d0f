//! The benchmark's contestant on kube-rs. tools/bench/peers/protocol.py says what a contestant is told and what it answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::channel::mpsc;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

const MANAGER: &str = "peer";
const CHILDREN: usize = 20;

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "bench.konverge.dev", version = "v1", kind = "Item", namespaced, status = "ItemStatus")]
#[serde(rename_all = "camelCase")]
struct ItemSpec {
    revision: i64,
    #[serde(default)]
    title: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    env: Vec<Variable>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Variable {
    name: String,
    value: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct ItemStatus {
    observed_generation: i64,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
    observed_generation: i64,
    last_transition_time: String,
}

struct World {
    items: Api<Item>,
    maps: Api<ConfigMap>,
    children: Option<Store<ConfigMap>>,
    failures: Arc<AtomicU64>,
}

type Failure = kube::Error;

async fn reconcile(item: Arc<Item>, world: Arc<World>) -> Result<Action, Failure> {
    if let Some(children) = &world.children {
        restore(&item, &world, children).await?;
    }
    let generation = item.metadata.generation.unwrap_or_default();
    let message = format!("revision {} is in place", item.spec.revision);
    let status = item.status.as_ref();
    let last = status.and_then(|status| status.conditions.iter().find(|one| one.type_ == "Stalled"));
    let observed = status.map_or(0, |status| status.observed_generation);
    let in_step = last
        .is_some_and(|one| one.observed_generation == generation && one.status == "False" && one.message == message);
    if observed == generation && in_step {
        return Ok(Action::await_change());
    }
    let since = match last {
        Some(one) if one.status == "False" => one.last_transition_time.clone(),
        _ => chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ").to_string(),
    };
    let intent = json!({
        "apiVersion": "bench.konverge.dev/v1",
        "kind": "Item",
        "metadata": {"name": item.name_any()},
        "status": {
            "observedGeneration": generation,
            "conditions": [{
                "type": "Stalled", "status": "False", "reason": "InStep", "message": message,
                "observedGeneration": generation, "lastTransitionTime": since,
            }],
        },
    });
    let how = PatchParams::apply(MANAGER).force();
    world.items.patch_status(&item.name_any(), &how, &Patch::Apply(intent)).await?;
    Ok(Action::await_change())
}

/// Makes sure that each child is as it should be; one that is gets no request.
async fn restore(item: &Item, world: &World, children: &Store<ConfigMap>) -> Result<(), Failure> {
    let namespace = item.namespace().unwrap_or_default();
    for number in 0..CHILDREN {
        let name = format!("{}-{number:02}", item.name_any());
        let wanted = BTreeMap::from([("value".to_owned(), name.clone())]);
        let cached = children.get(&ObjectRef::new(&name).within(&namespace));
        if cached.is_some_and(|map| map.data.as_ref() == Some(&wanted)) {
            continue;
        }
        let intent = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "ownerReferences": [{
                    "apiVersion": "bench.konverge.dev/v1", "kind": "Item", "name": item.name_any(), "uid": item.uid(),
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "data": wanted,
        });
        let how = PatchParams::apply(MANAGER).force();
        world.maps.patch(&name, &how, &Patch::Apply(intent)).await?;
    }
    Ok(())
}

/// Doubles from 5 ms with each failure would need state per object; one short wait is what kube-rs' own examples do.
fn again(_: Arc<Item>, error: &Failure, world: Arc<World>) -> Action {
    world.failures.fetch_add(1, Ordering::Relaxed);
    eprintln!("{error}");
    Action::requeue(Duration::from_millis(50))
}

fn notice_end<K>(event: &watcher::Event<K>, notice: &mpsc::UnboundedSender<()>) {
    if matches!(event, watcher::Event::InitDone) {
        let _ = notice.unbounded_send(());
    }
}

fn say(line: &Value) {
    println!("{line}");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let namespace = std::env::var("PEER_NAMESPACE")?;
    let workers: u16 = std::env::var("PEER_WORKERS")?.parse()?;
    let owners = std::env::var("PEER_MODE").is_ok_and(|mode| mode == "owners");
    let client = Client::try_default().await?;
    let items = Api::<Item>::namespaced(client.clone(), &namespace);
    let maps = Api::<ConfigMap>::namespaced(client, &namespace);
    let failures = Arc::new(AtomicU64::new(0));

    // A store wakes only one of those who wait for it to be ready, and the controller is one; so the end of each initial list is noticed here.
    let (synced, mut listed) = mpsc::unbounded::<()>();
    let (reader, writer) = reflector::store();
    let notice = synced.clone();
    let stream = watcher(items.clone(), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .inspect_ok(move |event| notice_end(event, &notice))
        .applied_objects();
    let mut controller = Controller::for_stream(stream, reader).with_config(Config::default().concurrency(workers));
    let mut children = None;
    if owners {
        let (store, writer) = reflector::store();
        let stream = watcher(maps.clone(), watcher::Config::default())
            .default_backoff()
            .reflect(writer)
            .inspect_ok(move |event| notice_end(event, &synced))
            .touched_objects();
        controller = controller.owns_stream(stream);
        children = Some(store);
    }
    let world = Arc::new(World { items, maps, children, failures: failures.clone() });
    let mut terminated = signal(SignalKind::terminate())?;
    let mut asked = signal(SignalKind::user_defined1())?;
    tokio::spawn(async move {
        for _ in 0..if owners { 2 } else { 1 } {
            listed.next().await;
        }
        say(&json!({
            "peer": "ready", "synced": true,
            "versions": {"kube": env!("PEER_KUBE"), "rust": env!("PEER_RUSTC")},
            "settings": {
                "concurrency": workers, "debounce": "0 (default)", "initial list": "ListWatch (default)",
                "worker threads": "one per core (default)", "objects": "typed, managedFields cached", "retry": "after 50 ms",
                "transport": "rustls with ring, default features otherwise", "limiter": "none",
            },
        }));
        while asked.recv().await.is_some() {
            say(&json!({"peer": "stats", "errors": failures.load(Ordering::Relaxed)}));
        }
    });
    controller
        .graceful_shutdown_on(async move {
            terminated.recv().await;
        })
        .run(reconcile, again, world)
        .for_each(|outcome| async move {
            if let Err(error) = outcome {
                eprintln!("{error:?}");
            }
        })
        .await;
    Ok(())
}
