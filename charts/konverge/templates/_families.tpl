{{- /* families */}}
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

{{/* Stop with a clear line if the families that are switched on do not go together, or not with other values. */}}
{{- define "konverge.checkFamilies" -}}
{{- $parts := include "konverge.parts" . | fromJsonArray -}}
{{- if not $parts -}}
{{- fail "families: switch on at least one of them, for instance families.apps.enabled=true" -}}
{{- end -}}
{{- range (include "konverge.operator" . | fromYaml).clusterWide -}}
{{- if and $.Values.watchNamespace (has . $parts) -}}
{{- fail (printf "watchNamespace: %s reconciles cluster-wide objects; set families.%s.enabled=false, or leave watchNamespace empty" . .) -}}
{{- end -}}
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
{{- end -}}
{{- /* end of families */}}
