//! Pages as an operator on kube-rs, for comparison with page_operator.py (docs/guide/side-by-side.md).

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Error, Event, finalizer};
use kube::runtime::watcher;
use kube::{Client, CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Page", namespaced, status = "PageStatus")]
struct PageSpec {
    text: String,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct PageStatus {
    characters: Option<usize>,
    observed_generation: Option<i64>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

struct Services {
    client: Client,
    /// The search engine that lists the published pages; a service outside Kubernetes.
    search: Mutex<HashSet<String>>,
}

async fn reconcile(page: Arc<Page>, services: Arc<Services>) -> Result<Action, Error<kube::Error>> {
    let pages = Api::<Page>::namespaced(services.client.clone(), &page.namespace().unwrap_or_default());
    finalizer(&pages, "example.com/search", page, |event| async {
        match event {
            Event::Apply(page) => publish(&page, &pages, &services).await,
            Event::Cleanup(page) => {
                services.search.lock().unwrap().remove(&page.name_any());
                Ok(Action::await_change())
            }
        }
    })
    .await
}

async fn publish(page: &Page, pages: &Api<Page>, services: &Services) -> Result<Action, kube::Error> {
    let name = page.name_any();
    let apply = PatchParams::apply("pages").force();
    let content = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: page.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("index.html".to_owned(), page.spec.text.clone())])),
        ..ConfigMap::default()
    };
    let maps = Api::<ConfigMap>::namespaced(services.client.clone(), &page.namespace().unwrap_or_default());
    maps.patch(&name, &apply, &Patch::Apply(&content)).await?;
    services.search.lock().unwrap().insert(name.clone());

    let conditions = page.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let before = conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True");
    let status = PageStatus {
        characters: Some(page.spec.text.chars().count()),
        observed_generation: page.metadata.generation,
        conditions: vec![Condition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            reason: "Published".to_owned(),
            message: String::new(),
            observed_generation: page.metadata.generation,
            last_transition_time: before
                .map_or_else(|| Time(Timestamp::now()), |condition| condition.last_transition_time.clone()),
        }],
    };
    let intent = json!({"apiVersion": Page::api_version(&()), "kind": Page::kind(&()), "status": status});
    pages.patch_status(&name, &apply, &Patch::Apply(&intent)).await?;
    Ok(Action::requeue(Duration::from_secs(60)))
}

fn retry(_: Arc<Page>, _: &Error<kube::Error>, _: Arc<Services>) -> Action {
    Action::requeue(Duration::from_secs(5))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let namespace = std::env::var("WATCH_NAMESPACE")?;
    let pages = Api::<Page>::namespaced(client.clone(), &namespace);
    let maps = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    let services = Arc::new(Services { client, search: Mutex::default() });
    Controller::new(pages, watcher::Config::default())
        .owns(maps, watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, retry, services)
        .for_each(|result| async move {
            if let Err(error) = result {
                eprintln!("{error}");
            }
        })
        .await;
    Ok(())
}
