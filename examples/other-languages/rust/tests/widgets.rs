//! Runs on the cluster of $KUBECONFIG: `konverge apiserver run --kubeconfig PATH` serves one.

use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, CustomResourceExt, Error};
use serde_json::json;
use widgets::{Widget, WidgetSpec};

#[tokio::test]
async fn a_widget_is_created_watched_applied_and_deleted() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &Widget::crd()).await?;

    // A definition is served a moment after it was created.
    let widgets: Api<Widget> = Api::default_namespaced(client);
    let none = loop {
        match widgets.list(&Default::default()).await {
            Err(Error::Api(status)) if matches!(status.code, 404 | 429) => tokio::time::sleep(Duration::from_millis(50)).await,
            found => break found?,
        }
    };
    let events =
        widgets.watch(&WatchParams::default().timeout(30), &none.metadata.resource_version.unwrap_or_default()).await?;

    // The schema is enforced, as in a cluster.
    let refused = widgets.create(&PostParams::default(), &Widget::new("small", WidgetSpec { size: 0 })).await;
    assert!(matches!(refused, Err(Error::Api(status)) if status.code == 422));

    widgets.create(&PostParams::default(), &Widget::new("ours", WidgetSpec { size: 3 })).await?;
    let status = json!({"apiVersion": "example.com/v1", "kind": "Widget", "status": {"phase": "Running"}});
    let applied = widgets.patch_status("ours", &PatchParams::apply("example"), &Patch::Apply(status)).await?;
    assert_eq!(applied.status.unwrap().phase, "Running");
    widgets.delete("ours", &DeleteParams::default()).await?;

    let mut seen = Vec::new();
    pin_mut!(events);
    while let Some(event) = events.next().await {
        match event? {
            WatchEvent::Added(widget) => seen.push(format!("added {}", widget.spec.size)),
            WatchEvent::Modified(widget) => seen.push(format!("modified {}", widget.status.unwrap().phase)),
            WatchEvent::Deleted(_) => break,
            _ => {}
        }
    }
    assert_eq!(seen, ["added 3", "modified Running"]);

    definitions.delete("widgets.example.com", &DeleteParams::default()).await?;
    Ok(())
}
