// Package widgets is a test on controller-runtime's envtest. With USE_EXISTING_CLUSTER=true it runs on the cluster of $KUBECONFIG, which
// `konverge apiserver run --kubeconfig PATH` serves; no etcd and no kube-apiserver are needed.
package widgets

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var kind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

func widget(name string, size int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": size}}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace("default")
	object.SetName(name)
	return object
}

func TestWidgets(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	environment := &envtest.Environment{CRDInstallOptions: envtest.CRDInstallOptions{
		Paths: []string{"../crd.yaml"}, ErrorIfPathMissing: true, CleanUpAfterUse: true,
	}}
	config, err := environment.Start()
	check(t, err)
	defer func() { check(t, environment.Stop()) }()
	cluster, err := client.NewWithWatch(config, client.Options{})
	check(t, err)

	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	events, err := cluster.Watch(ctx, list, client.InNamespace("default"))
	check(t, err)
	defer events.Stop()

	// The schema is enforced, as in a cluster.
	if err := cluster.Create(ctx, widget("small", 0)); !apierrors.IsInvalid(err) {
		t.Fatalf("a widget of size 0 was not refused: %v", err)
	}

	check(t, cluster.Create(ctx, widget("ours", 3)))
	expect(t, events, watch.Added)

	status := widget("ours", 3)
	status.Object["status"] = map[string]any{"phase": "Running"}
	delete(status.Object, "spec")
	applied := client.ApplyConfigurationFromUnstructured(status)
	check(t, cluster.Status().Apply(ctx, applied, client.FieldOwner("example")))
	modified := expect(t, events, watch.Modified)
	if phase, _, _ := unstructured.NestedString(modified.Object, "status", "phase"); phase != "Running" {
		t.Fatalf("the phase is %q", phase)
	}

	check(t, cluster.Delete(ctx, widget("ours", 3)))
	expect(t, events, watch.Deleted)
}

func expect(t *testing.T, events watch.Interface, wanted watch.EventType) *unstructured.Unstructured {
	t.Helper()
	event := <-events.ResultChan()
	if event.Type != wanted {
		t.Fatalf("%s was expected, and %s came: %v", wanted, event.Type, event.Object)
	}
	return event.Object.(*unstructured.Unstructured)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
