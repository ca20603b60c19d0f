// The methods that controller-gen generates for types.go.
package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func (in *PageStatus) DeepCopyInto(out *PageStatus) {
	*out = *in
	if in.Conditions != nil {
		out.Conditions = make([]metav1.Condition, len(in.Conditions))
		for i := range in.Conditions {
			in.Conditions[i].DeepCopyInto(&out.Conditions[i])
		}
	}
}

func (in *Page) DeepCopyInto(out *Page) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	in.Status.DeepCopyInto(&out.Status)
}

func (in *Page) DeepCopy() *Page {
	out := new(Page)
	in.DeepCopyInto(out)
	return out
}

func (in *Page) DeepCopyObject() runtime.Object { return in.DeepCopy() }

func (in *PageList) DeepCopyObject() runtime.Object {
	out := new(PageList)
	*out = *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Page, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}
