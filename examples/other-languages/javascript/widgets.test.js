// Runs on the cluster of $KUBECONFIG: `konverge apiserver run --kubeconfig PATH` serves one.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import * as k8s from "@kubernetes/client-node";

const GROUP = { group: "example.com", version: "v1", plural: "widgets", namespace: "default" };

function widget(name, size) {
  return { apiVersion: "example.com/v1", kind: "Widget", metadata: { name }, spec: { size } };
}

// A definition is served a moment after it was created.
async function served(list) {
  for (;;) {
    try {
      return await list();
    } catch (error) {
      if (error.code !== 404 && error.code !== 429) throw error;
      await sleep(50);
    }
  }
}

test("a widget is created, watched, applied and deleted", { timeout: 30_000 }, async () => {
  const config = new k8s.KubeConfig();
  config.loadFromDefault();
  const definitions = config.makeApiClient(k8s.ApiextensionsV1Api);
  const widgets = config.makeApiClient(k8s.CustomObjectsApi);

  const body = k8s.loadYaml(await readFile(new URL("../crd.yaml", import.meta.url), "utf8"));
  await definitions.createCustomResourceDefinition({ body });
  const none = await served(() => widgets.listNamespacedCustomObject(GROUP));

  const seen = [];
  let end;
  const ended = new Promise((resolve) => (end = resolve));
  const watch = await new k8s.Watch(config).watch(
    "/apis/example.com/v1/namespaces/default/widgets",
    { resourceVersion: none.metadata.resourceVersion },
    (type, object) => {
      seen.push([type, object.spec.size, object.status?.phase]);
      if (type === "DELETED") end();
    },
    end,
  );

  // The schema is enforced, as in a cluster.
  await assert.rejects(widgets.createNamespacedCustomObject({ ...GROUP, body: widget("small", 0) }), { code: 422 });

  await widgets.createNamespacedCustomObject({ ...GROUP, body: widget("ours", 3) });
  const status = { apiVersion: "example.com/v1", kind: "Widget", status: { phase: "Running" } };
  const applied = await widgets.patchNamespacedCustomObjectStatus(
    { ...GROUP, name: "ours", body: status, fieldManager: "example" },
    k8s.setHeaderOptions("Content-Type", k8s.PatchStrategy.ServerSideApply),
  );
  assert.equal(applied.status.phase, "Running");
  await widgets.deleteNamespacedCustomObject({ ...GROUP, name: "ours" });

  await ended;
  watch.abort();
  assert.deepEqual(seen, [
    ["ADDED", 3, undefined],
    ["MODIFIED", 3, "Running"],
    ["DELETED", 3, "Running"],
  ]);
  await definitions.deleteCustomResourceDefinition({ name: body.metadata.name });
});
