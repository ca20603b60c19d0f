package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	groupVersion = schema.GroupVersion{Group: "bench.konverge.dev", Version: "v1"}
	itemKind     = groupVersion.WithKind("Item")
)

// Item is the primary object; controller-gen would write the copies below.
type Item struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ItemSpec   `json:"spec"`
	Status            ItemStatus `json:"status,omitempty"`
}

type ItemSpec struct {
	Revision int64             `json:"revision"`
	Title    string            `json:"title,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Env      []Variable        `json:"env,omitempty"`
}

type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type ItemStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

type ItemList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Item `json:"items"`
}

func addToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(groupVersion, &Item{}, &ItemList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	return nil
}

func (in *Item) DeepCopyInto(out *Item) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.Labels != nil {
		out.Spec.Labels = make(map[string]string, len(in.Spec.Labels))
		for key, value := range in.Spec.Labels {
			out.Spec.Labels[key] = value
		}
	}
	if in.Spec.Env != nil {
		out.Spec.Env = make([]Variable, len(in.Spec.Env))
		copy(out.Spec.Env, in.Spec.Env)
	}
	if in.Status.Conditions != nil {
		out.Status.Conditions = make([]metav1.Condition, len(in.Status.Conditions))
		for index := range in.Status.Conditions {
			in.Status.Conditions[index].DeepCopyInto(&out.Status.Conditions[index])
		}
	}
}

func (in *Item) DeepCopyObject() runtime.Object {
	out := &Item{}
	in.DeepCopyInto(out)
	return out
}

func (in *ItemList) DeepCopyObject() runtime.Object {
	out := &ItemList{TypeMeta: in.TypeMeta}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Item, len(in.Items))
	for index := range in.Items {
		in.Items[index].DeepCopyInto(&out.Items[index])
	}
	return out
}
