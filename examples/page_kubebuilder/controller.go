package main

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const finalizer = "example.com/search"

// search is the search engine that lists the published pages; a service outside Kubernetes.
var search sync.Map

type PageReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=example.com,resources=pages,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=example.com,resources=pages/status,verbs=update
// +kubebuilder:rbac:groups=example.com,resources=pages/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;update

func (r *PageReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	page := &Page{}
	if err := r.Get(ctx, req.NamespacedName, page); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !page.DeletionTimestamp.IsZero() {
		search.Delete(page.Name)
		if controllerutil.RemoveFinalizer(page, finalizer) {
			return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, page))
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(page, finalizer) {
		if err := r.Update(ctx, page); err != nil {
			return ctrl.Result{}, err
		}
	}

	content := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: page.Name, Namespace: page.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, content, func() error {
		content.Data = map[string]string{"index.html": page.Spec.Text}
		return controllerutil.SetControllerReference(page, content, r.Scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	search.Store(page.Name, true)

	before := page.DeepCopy()
	page.Status.Characters = utf8.RuneCountInString(page.Spec.Text)
	page.Status.ObservedGeneration = page.Generation
	meta.SetStatusCondition(&page.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Published", ObservedGeneration: page.Generation,
	})
	if !equality.Semantic.DeepEqual(before.Status, page.Status) {
		if err := r.Status().Update(ctx, page); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: time.Minute}, nil
}

func (r *PageReconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&Page{}).Owns(&corev1.ConfigMap{}).Complete(r)
}
