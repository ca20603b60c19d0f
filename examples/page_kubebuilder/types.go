// +groupName=example.com
package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

type PageSpec struct {
	Text string `json:"text"`
}

type PageStatus struct {
	// +optional
	Characters int `json:"characters,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Page is a page that is published.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Page struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PageSpec   `json:"spec"`
	Status PageStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true
type PageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Page `json:"items"`
}

var pages = (&scheme.Builder{GroupVersion: schema.GroupVersion{Group: "example.com", Version: "v1"}}).
	Register(&Page{}, &PageList{})
