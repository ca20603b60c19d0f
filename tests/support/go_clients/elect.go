package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	leaseDuration = 2 * time.Second
	renewDeadline = 1500 * time.Millisecond
	retryPeriod   = 200 * time.Millisecond
)

// elector stands for the lease "election" until its input ends, then gives the lease back.
func elector(identity string) program {
	return func(ctx context.Context, clients kubernetes.Interface, namespace string, orders <-chan []string) error {
		go func() { // what is ordered does not matter; the end of the input does
			for range orders {
			}
		}()
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: "election"},
			Client:     clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock:            lock,
			LeaseDuration:   leaseDuration,
			RenewDeadline:   renewDeadline,
			RetryPeriod:     retryPeriod,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { say(said{Said: "leads", Name: identity}) },
				OnStoppedLeading: func() { say(said{Said: "stopped", Name: identity}) },
				OnNewLeader:      func(leader string) { say(said{Said: "follows", Name: leader}) },
			},
		})
		if err != nil {
			return err
		}
		for ctx.Err() == nil { // one that lost the lease stands again
			elector.Run(ctx)
		}
		return nil
	}
}
