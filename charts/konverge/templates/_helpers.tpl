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
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* What the generator wrote about the operator: the name of its manager, and which of its parts are cluster-wide. */}}
{{- define "konverge.operator" -}}
{{- .Files.Get "files/operator.yaml" -}}
{{- end -}}

{{/* The parts that run, as a JSON list: the families that are switched on, or all there is of an operator without families. */}}
{{- define "konverge.parts" -}}
{{- $parts := list -}}
{{- range $name, $family := .Values.families -}}
{{- if $family.enabled -}}{{- $parts = append $parts $name -}}{{- end -}}
{{- end -}}
{{- if not (hasKey .Values "families") -}}{{- $parts = list "operator" -}}{{- end -}}
{{- toJson $parts -}}
{{- end -}}

{{/* A generated file of a part, that of the semantics that its settings choose if they have their own: (dict "root" $ "part" "quota" "file" "rules.yaml"). */}}
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

{{/* The generated data of a family, as YAML: (dict "root" $ "part" "pools"). */}}
{{- define "konverge.family" -}}
{{- $operator := include "konverge.operator" .root | fromYaml -}}
{{- dig "families" .part dict $operator | toYaml -}}
{{- end -}}

{{/* The namespaces of the rules-namespaces.yaml of a part, as a JSON list: first that of a setting, then those that a value lists. `*` stands for all namespaces. */}}
{{- define "konverge.namespacesOf" -}}
{{- $found := list -}}
{{- $values := dig .part dict (.root.Values.families | default dict) -}}
{{- with (include "konverge.family" . | fromYaml).namespaces -}}
{{- $first := dig $.part .setting .default $.root.Values.settings -}}
{{- if hasKey $values .setting -}}{{- $first = get $values .setting -}}{{- end -}}
{{- $found = prepend ($values.namespaces | default list) ($first | default $.root.Release.Namespace) -}}
{{- end -}}
{{- $found | uniq | toJson -}}
{{- end -}}

{{/* Whether the setting of an option has its value: (dict "root" $ "part" "pools" "option" {path: [], value: ""}). */}}
{{- define "konverge.chosen" -}}
{{- $value := dig .part dict .root.Values.settings -}}
{{- range .option.path -}}
{{- $value = kindIs "map" $value | ternary (dig . "" (kindIs "map" $value | ternary $value dict)) "" -}}
{{- end -}}
{{- if eq (toString $value) (toString .option.value) -}}true{{- end -}}
{{- end -}}

{{/* Whether the family of apps watches Secrets: in the whole cluster only if a value says so. */}}
{{- define "konverge.watchesSecrets" -}}
{{- $given := dig "apps" "watch_secrets" "" .Values.settings | toString -}}
{{- if or (eq $given "true") (and (eq $given "") (or .Values.watchNamespace (dig "apps" "secret_namespaces" list .Values.settings))) -}}true{{- end -}}
{{- end -}}

{{/* The operator's own namespace for a family: a value of the family, or the namespace of the release: (dict "root" $ "part" "workspaces" "setting" "namespace"). */}}
{{- define "konverge.home" -}}
{{- dig .part .setting "" (.root.Values.families | default dict) | default .root.Release.Namespace -}}
{{- end -}}

{{/* The namespace of the kubeconfigs of workspaces. */}}
{{- define "konverge.workspacesNamespace" -}}
{{- include "konverge.home" (dict "root" . "part" "workspaces" "setting" "namespace") -}}
{{- end -}}

{{/* What has Secrets in the release's namespace beside the kubeconfigs of workspaces, as a JSON list. */}}
{{- define "konverge.secretsOfOthers" -}}
{{- $found := list -}}
{{- range $part := include "konverge.parts" . | fromJsonArray -}}
{{- with include "konverge.file" (dict "root" $ "part" $part "file" "rules-home.yaml") -}}
{{- $resources := list -}}
{{- range (fromYaml .).rules -}}{{- $resources = concat $resources .resources -}}{{- end -}}
{{- if has "secrets" $resources -}}{{- $found = append $found (printf "families.%s" $part) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if include "konverge.webhooks" . -}}{{- $found = append $found "webhooks" -}}{{- end -}}
{{- if and .Values.metrics.secure.enabled (eq .Values.metrics.secure.certificates "certManager") -}}
{{- $found = append $found "metrics.secure" -}}
{{- end -}}
{{- toJson $found -}}
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

{{/* Stop with a clear line if values that are each right do not go together. */}}
{{- define "konverge.check" -}}
{{- $parts := include "konverge.parts" . | fromJsonArray -}}
{{- if not $parts -}}
{{- fail "families: switch on at least one of them, for instance families.apps.enabled=true" -}}
{{- end -}}
{{- range (include "konverge.operator" . | fromYaml).clusterWide -}}
{{- if and $.Values.watchNamespace (has . $parts) -}}
{{- fail (printf "watchNamespace: %s reconciles cluster-wide objects; set families.%s.enabled=false, or leave watchNamespace empty" . .) -}}
{{- end -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not (include "konverge.elects" .)) -}}
{{- fail (printf "replicas: %d processes would write at once; set election.enabled=true or sharding.mode=hash, or replicas=1" (int .Values.replicas)) -}}
{{- end -}}
{{- if le (float64 .Values.terminationGracePeriodSeconds) (float64 (dig "drain" 25 .Values.settings)) -}}
{{- fail "terminationGracePeriodSeconds: the kubelet would kill the process while it drains; set it above settings.drain" -}}
{{- end -}}
{{- $others := include "konverge.secretsOfOthers" . | fromJsonArray -}}
{{- if and (has "workspaces" $parts) $others (eq (include "konverge.workspacesNamespace" .) .Release.Namespace) -}}
{{- fail (printf "families.workspaces.namespace: name a namespace for the kubeconfigs of workspaces, since the right on them in %s would show the Secrets of %s" .Release.Namespace (join " and " $others)) -}}
{{- end -}}
{{- if $others -}}
{{- $read := dig "apps" "secret_namespaces" list .Values.settings -}}
{{- if has "pools" $parts -}}
{{- $read = concat $read (include "konverge.namespacesOf" (dict "root" . "part" "pools") | fromJsonArray) -}}
{{- end -}}
{{- if and (has "apps" $parts) (include "konverge.watchesSecrets" .) -}}
{{- $read = append $read .Values.watchNamespace -}}
{{- end -}}
{{- if has .Release.Namespace $read -}}
{{- fail (printf "families.pools.namespaces, settings.apps.secret_namespaces, watchNamespace: leave out %s, since the right on Secrets there would show those of %s" .Release.Namespace (join " and " $others)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service.enabled) -}}
{{- fail "metrics.serviceMonitor: it finds pods through the Service; set metrics.service.enabled=true, or use metrics.podMonitor" -}}
{{- end -}}
{{- if and .Values.metrics.secure.enabled .Values.metrics.podMonitor.enabled -}}
{{- fail "metrics.podMonitor: it cannot send the token of Prometheus, which metrics.secure takes; use metrics.serviceMonitor" -}}
{{- end -}}
{{- end -}}
