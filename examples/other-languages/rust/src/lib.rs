//! The kind of the example: a CustomResourceDefinition is derived from it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
pub struct WidgetSpec {
    #[schemars(range(min = 1))]
    pub size: i32,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct WidgetStatus {
    pub phase: String,
}
