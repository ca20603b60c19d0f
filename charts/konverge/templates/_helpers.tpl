{{- define "konverge.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* Release and chart name, once if the one is in the other. */}}
{{- define "konverge.fullname" -}}
{{- $name := include "konverge.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "konverge.selectorLabels" -}}
app.kubernetes.io/name: {{ include "konverge.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "konverge.labels" -}}
{{ include "konverge.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels, and annotations if there are any: (dict "root" $ "labels" {} "annotations" {}). */}}
{{- define "konverge.metadata" -}}
labels:
  {{- include "konverge.labels" .root | nindent 2 }}
  {{- $common := .root.Values.commonLabels | default dict }}
  {{- range $name, $value := .labels }}
  {{- if not (hasKey $common $name) }}
  {{- toYaml (dict $name $value) | nindent 2 }}
  {{- end }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "konverge.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "konverge.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "konverge.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry -}}
{{- $repository := empty $registry | ternary .Values.image.repository (printf "%s/%s" (trimSuffix "/" $registry) .Values.image.repository) -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* What the generator wrote about the operator: the name of its manager, facts about its parts, and names of other charts. */}}
{{- define "konverge.operator" -}}
{{- .Files.Get "files/operator.yaml" -}}
{{- end -}}

{{/* The parts that run, as a JSON list. */}}
{{- define "konverge.parts" -}}
{{- $parts := list "operator" -}}
{{- /* families */}}
{{- $parts = list -}}
{{- range $name, $family := .Values.families -}}
{{- if $family.enabled -}}{{- $parts = append $parts $name -}}{{- end -}}
{{- end -}}
{{- /* end of families */}}
{{- toJson $parts -}}
{{- end -}}

{{/* A generated file of a part, that of the semantics that its settings choose if they have their own: (dict "root" $ "part" "operator" "file" "rules.yaml"). */}}
{{- define "konverge.file" -}}
{{- $chosen := printf "%s-%s" .part (dig .part "semantics" "" .root.Values.settings) -}}
{{- .root.Files.Get (printf "files/%s/%s" $chosen .file) | default (.root.Files.Get (printf "files/%s/%s" .part .file)) -}}
{{- end -}}

{{/* The rules of one kind of every part that runs, each once, as a JSON list: (dict "root" $ "file" "rules.yaml"). */}}
{{- define "konverge.rules" -}}
{{- $rules := list -}}
{{- range $part := include "konverge.parts" .root | fromJsonArray -}}
{{- with include "konverge.file" (dict "root" $.root "part" $part "file" $.file) -}}
{{- $rules = concat $rules (fromYaml .).rules -}}
{{- end -}}
{{- end -}}
{{- $rules | uniq | toJson -}}
{{- end -}}

{{/* Whether a part that runs has webhooks. */}}
{{- define "konverge.hasWebhooks" -}}
{{- range $part := include "konverge.parts" . | fromJsonArray -}}
{{- with include "konverge.file" (dict "root" $ "part" $part "file" "webhooks.yaml") -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether webhooks are served. */}}
{{- define "konverge.webhooks" -}}
{{- if .Values.webhooks.enabled -}}{{- include "konverge.hasWebhooks" . -}}{{- end -}}
{{- end -}}

{{/* Environment variables of settings: (dict "prefix" "KONVERGE_" "values" {}). Lists and numbers are written as JSON. */}}
{{- define "konverge.variables" -}}
{{- range $key, $value := .values }}
{{- if kindIs "map" $value }}
{{- include "konverge.variables" (dict "prefix" (printf "%s%s__" $.prefix (upper $key)) "values" $value) }}
{{- else if not (kindIs "invalid" $value) }}
- name: {{ printf "%s%s" $.prefix (upper $key) }}
  value: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Whether replicas share the objects. YAML reads a bare `off` as false. */}}
{{- define "konverge.shares" -}}
{{- if has (toString .Values.sharding.mode) (list "hash" "ordinal" "coordinator") -}}true{{- end -}}
{{- end -}}

{{/* Whether the pods are those of a StatefulSet, whose ordinals say which objects they have. */}}
{{- define "konverge.ordinals" -}}
{{- if eq (toString .Values.sharding.mode) "ordinal" -}}true{{- end -}}
{{- end -}}

{{/* Whether replicas elect a writer, if only for the objects that they do not share. */}}
{{- define "konverge.elects" -}}
{{- if or .Values.election.enabled (include "konverge.shares" .) (eq (toString .Values.sharding.mode) "leader") -}}true{{- end -}}
{{- end -}}

{{/* Stop if a value has the name that it has in other charts. */}}
{{- define "konverge.checkNames" -}}
{{- $given := list -}}
{{- range $name, $ours := (include "konverge.operator" . | fromYaml).otherNames -}}
{{- $at := $.Values -}}
{{- $found := true -}}
{{- range splitList "." $name -}}
{{- $found = and $found (kindIs "map" $at) (hasKey $at .) -}}
{{- if $found -}}{{- $at = get $at . -}}{{- end -}}
{{- end -}}
{{- if $found -}}{{- $given = append $given (printf "%s (write %s)" $name $ours) -}}{{- end -}}
{{- end -}}
{{- with $given -}}{{- fail (printf "values that have another name here: %s" (join ", " .)) -}}{{- end -}}
{{- end -}}

{{/* Stop with a clear line if values that are each right do not go together. */}}
{{- define "konverge.check" -}}
{{- include "konverge.checkNames" . -}}
{{- /* families */}}
{{- include "konverge.checkFamilies" . -}}
{{- /* end of families */}}
{{- if and (gt (int .Values.replicas) 1) (not (include "konverge.elects" .)) -}}
{{- fail (printf "replicas: %d processes would write at once; set election.enabled=true or sharding.mode=hash, or replicas=1" (int .Values.replicas)) -}}
{{- end -}}
{{- if and .Values.strategy (not (include "konverge.elects" .)) (ne (dig "type" "" .Values.strategy) "Recreate") -}}
{{- fail "strategy: the old and the new process would write at once; leave it empty, or set election.enabled=true" -}}
{{- end -}}
{{- if le (float64 .Values.terminationGracePeriodSeconds) (float64 (dig "drain" 25 .Values.settings)) -}}
{{- fail "terminationGracePeriodSeconds: the kubelet would kill the process while it drains; set it above settings.drain" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service.enabled) -}}
{{- fail "metrics.serviceMonitor: it finds pods through the Service; set metrics.service.enabled=true, or use metrics.podMonitor" -}}
{{- end -}}
{{- if and .Values.metrics.secure.enabled .Values.metrics.podMonitor.enabled -}}
{{- fail "metrics.podMonitor: it cannot send the token of Prometheus, which metrics.secure takes; use metrics.serviceMonitor" -}}
{{- end -}}
{{- end -}}
