package main

import (
	"context"
	"fmt"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// inform runs a shared informer of config maps, says what its handlers hear, and obeys: create, update and delete write with the
// typed client, get and list read from the lister alone.
func inform(ctx context.Context, clients kubernetes.Interface, namespace string, orders <-chan []string) error {
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace))
	configs := factory.Core().V1().ConfigMaps()
	handlers, err := configs.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { hear("added", object) },
		UpdateFunc: func(_, object any) { hear("updated", object) },
		DeleteFunc: func(object any) { hear("deleted", object) },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), handlers.HasSynced) {
		return fmt.Errorf("the informer did not come in step")
	}
	say(said{Said: "synced"})
	lister := configs.Lister().ConfigMaps(namespace)
	for order := range orders {
		if err := obey(ctx, clients, namespace, lister, order); err != nil {
			say(said{Said: "refused", Reason: string(errors.ReasonForError(err)) + ": " + err.Error()})
		}
	}
	return nil
}

func hear(what string, object any) {
	if gone, isGone := object.(cache.DeletedFinalStateUnknown); isGone {
		object = gone.Obj
	}
	config := object.(*corev1.ConfigMap)
	say(said{Said: what, Name: config.Name, Data: config.Data})
}

func obey(
	ctx context.Context, clients kubernetes.Interface, namespace string, lister listers.ConfigMapNamespaceLister, order []string,
) error {
	writer := clients.CoreV1().ConfigMaps(namespace)
	switch verb, arguments := order[0], order[1:]; verb {
	case "create":
		config := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: arguments[0], Labels: map[string]string{"made": "here"}},
			Data:       map[string]string{"value": arguments[1]},
		}
		_, err := writer.Create(ctx, config, metav1.CreateOptions{})
		return err
	case "update":
		config, err := lister.Get(arguments[0])
		if err != nil {
			return err
		}
		config = config.DeepCopy()
		config.Data = map[string]string{"value": arguments[1]}
		_, err = writer.Update(ctx, config, metav1.UpdateOptions{})
		return err
	case "delete":
		return writer.Delete(ctx, arguments[0], metav1.DeleteOptions{})
	case "get":
		config, err := lister.Get(arguments[0])
		if err == nil {
			say(said{Said: "read", Name: config.Name, Data: config.Data})
		}
		return err
	case "list":
		configs, err := lister.List(labels.SelectorFromSet(labels.Set{"made": "here"}))
		names := []string{}
		for _, config := range configs {
			names = append(names, config.Name)
		}
		sort.Strings(names)
		say(said{Said: "listed", Names: names})
		return err
	}
	return fmt.Errorf("no order: %v", order)
}
