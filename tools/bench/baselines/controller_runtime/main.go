// The benchmark's contestant on controller-runtime. tools/bench/peers/protocol.py says what a contestant is told and what it answers.
// PEER_VARIANT chooses the form of the primary object: "unstructured", or "typed" with managedFields stripped by the cache's transform.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-logr/logr/funcr"
)

const manager = "peer"

var failures atomic.Int64

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	workers, err := strconv.Atoi(os.Getenv("PEER_WORKERS"))
	if err != nil {
		return err
	}
	log.SetLogger(funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) }, funcr.Options{}))
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1 // no limiter in the client
	namespace, typed := os.Getenv("PEER_NAMESPACE"), os.Getenv("PEER_VARIANT") == "typed"
	scheme := apiruntime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(addToScheme(scheme))
	caches := cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}}
	if typed {
		caches.DefaultTransform = cache.TransformStripManagedFields()
	}
	operator, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Cache:   caches,
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	primary, err := build(operator, workers, typed, os.Getenv("PEER_MODE") == "owners")
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// Asked for before the start, so that waiting for the caches waits for this one too.
	if _, err := operator.GetCache().GetInformer(ctx, primary); err != nil {
		return err
	}
	go announce(ctx, operator, workers, typed)
	return operator.Start(ctx)
}

func build(operator ctrl.Manager, workers int, typed, owners bool) (client.Object, error) {
	var primary client.Object = &Item{}
	if !typed {
		bare := &unstructured.Unstructured{}
		bare.SetGroupVersionKind(itemKind)
		primary = bare
	}
	sentence := ctrl.NewControllerManagedBy(operator).Named("peer").For(primary).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	if owners {
		sentence = sentence.Owns(&corev1.ConfigMap{})
	}
	return primary, sentence.Complete(&reconciler{Client: operator.GetClient(), typed: typed, owners: owners})
}

// announce says that the caches are synced, then answers each SIGUSR1 with what was counted so far.
func announce(ctx context.Context, operator ctrl.Manager, workers int, typed bool) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	if !operator.GetCache().WaitForCacheSync(ctx) {
		return
	}
	say(map[string]any{"peer": "ready", "synced": true, "versions": versions(), "settings": map[string]any{
		"MaxConcurrentReconciles": workers, "QPS": -1, "typed": typed, "managedFields": map[bool]string{true: "stripped", false: "cached"}[typed],
		"GOMAXPROCS": runtime.GOMAXPROCS(0), "GOGC": "100 (default)", "metrics": "counted, not served", "leader election": "off",
		"transport": "HTTP/2 (default)", "priority queue": "on (default)", "RecoverPanic": "on (default)",
	}})
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
			say(map[string]any{"peer": "stats", "errors": failures.Load()})
		}
	}
}

func versions() map[string]string {
	found := map[string]string{"go": runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			switch module.Path {
			case "sigs.k8s.io/controller-runtime", "k8s.io/client-go":
				found[module.Path] = module.Version
			}
		}
	}
	return found
}

func say(what map[string]any) {
	line, err := json.Marshal(what)
	utilruntime.Must(err)
	fmt.Println(string(line))
}
