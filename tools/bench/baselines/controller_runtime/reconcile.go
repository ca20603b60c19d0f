package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const children = 20

type reconciler struct {
	client.Client
	typed, owners bool
}

// seen is what a pass needs to know of the primary object, whichever form it was cached in.
type seen struct {
	generation, observed, revision int64
	uid                            types.UID
	condition                      *metav1.Condition
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	err := r.pass(ctx, request.NamespacedName)
	if err != nil {
		failures.Add(1)
	}
	return ctrl.Result{}, err
}

func (r *reconciler) pass(ctx context.Context, name types.NamespacedName) error {
	item, err := r.read(ctx, name)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if r.owners {
		for number := range children {
			if err := r.child(ctx, name, item.uid, fmt.Sprintf("%s-%02d", name.Name, number)); err != nil {
				return err
			}
		}
	}
	message := fmt.Sprintf("revision %d is in place", item.revision)
	last := item.condition
	if item.observed == item.generation && last != nil && last.ObservedGeneration == item.generation &&
		last.Status == metav1.ConditionFalse && last.Message == message {
		return nil
	}
	since := time.Now().UTC().Format(time.RFC3339)
	if last != nil && last.Status == metav1.ConditionFalse {
		since = last.LastTransitionTime.UTC().Format(time.RFC3339)
	}
	intent := named("Item", groupVersion.String(), name)
	intent["status"] = map[string]any{
		"observedGeneration": item.generation,
		"conditions": []any{map[string]any{
			"type": "Stalled", "status": "False", "reason": "InStep", "message": message,
			"observedGeneration": item.generation, "lastTransitionTime": since,
		}},
	}
	apply := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: intent})
	return r.Status().Apply(ctx, apply, client.FieldOwner(manager), client.ForceOwnership)
}

func (r *reconciler) read(ctx context.Context, name types.NamespacedName) (*seen, error) {
	item := &Item{}
	if r.typed {
		if err := r.Get(ctx, name, item); err != nil {
			return nil, err
		}
		return look(item.Generation, item.UID, item.Spec.Revision, item.Status), nil
	}
	bare := &unstructured.Unstructured{}
	bare.SetGroupVersionKind(itemKind)
	if err := r.Get(ctx, name, bare); err != nil {
		return nil, err
	}
	revision, _, _ := unstructured.NestedInt64(bare.Object, "spec", "revision")
	if status, found := bare.Object["status"].(map[string]any); found {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &item.Status); err != nil {
			return nil, err
		}
	}
	return look(bare.GetGeneration(), bare.GetUID(), revision, item.Status), nil
}

func look(generation int64, uid types.UID, revision int64, status ItemStatus) *seen {
	found := &seen{generation: generation, observed: status.ObservedGeneration, revision: revision, uid: uid}
	for index := range status.Conditions {
		if status.Conditions[index].Type == "Stalled" {
			found.condition = &status.Conditions[index]
		}
	}
	return found
}

// child makes sure that one child is as it should be; it is applied only where it is not.
func (r *reconciler) child(ctx context.Context, owner types.NamespacedName, uid types.UID, name string) error {
	cached := &corev1.ConfigMap{}
	err := r.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: name}, cached)
	if err != nil && !errors.IsNotFound(err) {
		return err
	}
	if err == nil && len(cached.Data) == 1 && cached.Data["value"] == name {
		return nil
	}
	intent := named("ConfigMap", "v1", types.NamespacedName{Namespace: owner.Namespace, Name: name})
	intent["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{
		"apiVersion": groupVersion.String(), "kind": "Item", "name": owner.Name, "uid": string(uid),
		"controller": true, "blockOwnerDeletion": true,
	}}
	intent["data"] = map[string]any{"value": name}
	apply := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: intent})
	return r.Apply(ctx, apply, client.FieldOwner(manager), client.ForceOwnership)
}

func named(kind, version string, name types.NamespacedName) map[string]any {
	return map[string]any{
		"apiVersion": version,
		"kind":       kind,
		"metadata":   map[string]any{"name": name.Name, "namespace": name.Namespace},
	}
}
