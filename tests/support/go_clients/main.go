// Command clients is what a controller in Go is made of, on client-go as it is released: a shared informer with a lister, and an
// elector on a lease. A test drives it: orders come in as lines on standard input, and what it sees goes out as JSON objects, one a
// line, on standard output. It ends when its input ends, so that it cannot outlive the test.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// said is one line of output; what is empty is left out.
type said struct {
	Said   string            `json:"said"`
	Name   string            `json:"name,omitempty"`
	Data   map[string]string `json:"data,omitempty"`
	Names  []string          `json:"names,omitempty"`
	Reason string            `json:"reason,omitempty"`
}

var output sync.Mutex

func say(line said) {
	output.Lock()
	defer output.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		os.Exit(1)
	}
}

// program is one of the two things that this command can be.
type program func(ctx context.Context, clients kubernetes.Interface, namespace string, orders <-chan []string) error

func main() {
	what := flag.String("what", "", "inform or elect")
	namespace := flag.String("namespace", "default", "where")
	identity := flag.String("identity", "", "who stands for election")
	protobuf := flag.Bool("protobuf", false, "speak protobuf, as the controllers of Kubernetes do")
	flag.Parse()

	programs := map[string]program{"inform": inform, "elect": elector(*identity)}
	run, found := programs[*what]
	if !found {
		fail(fmt.Errorf("-what %q is neither inform nor elect", *what))
	}
	clients, err := connect(*protobuf)
	if err != nil {
		fail(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := run(ctx, clients, *namespace, orders(cancel)); err != nil {
		fail(err)
	}
}

func fail(err error) {
	say(said{Said: "failed", Reason: err.Error()})
	os.Exit(1)
}

func connect(protobuf bool) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	if protobuf {
		config.ContentConfig = rest.ContentConfig{
			ContentType:        "application/vnd.kubernetes.protobuf",
			AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
		}
	}
	return kubernetes.NewForConfig(config)
}
