{{- /*
Names are fixed, as in deploy/, since roles, Lease, policies and docs refer to them. The name of a cluster-wide object ends in a dot
and the release's namespace, so that two releases do not share one.
*/ -}}

{{- define "operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- /* The metadata of an object of the release's namespace. */ -}}
{{- define "operator.metadata" -}}
name: {{ .name | quote }}
namespace: {{ .namespace | default .root.Release.Namespace | quote }}
labels:
  app.kubernetes.io/name: cloud-server-operator
  {{- include "operator.labels" .root | nindent 2 }}
{{- end }}

{{- /* The metadata of an object that belongs to no namespace. */ -}}
{{- define "operator.clusterMetadata" -}}
name: {{ .name | quote }}
labels:
  app.kubernetes.io/name: cloud-server-operator
  {{- include "operator.labels" .root | nindent 2 }}
{{- end }}

{{- define "operator.subjects" -}}
subjects:
- kind: ServiceAccount
  name: cloud-server-operator
  namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{- /*
A file of files/, a copy of one outside of the chart, with the labels of the release added to its labels or at the start of its
metadata. It is processed as text, since parsing and printing would change numbers.
*/ -}}
{{- define "operator.copy" -}}
{{- $text := .root.Files.Get .file | required (printf "the chart lacks %s" .file) }}
{{- $labels := include "operator.labels" .root }}
{{- if .keep }}
{{- $kept := printf "annotations:\n  helm.sh/resource-policy: keep\n  argocd.argoproj.io/sync-options: Prune=false,Delete=false\n  kustomize.toolkit.fluxcd.io/prune: disabled\nlabels:\n%s" (indent 2 $labels) }}
{{- $text | replace "\nmetadata:\n" (printf "\nmetadata:\n%s\n" (indent 2 $kept)) }}
{{- else }}
{{- $text | replace "\n  labels:\n" (printf "\n  labels:\n%s\n" (indent 4 $labels)) }}
{{- end }}
{{- end }}

{{- /* What the operator may do where it watches. Why each line is there: docs/security.md. */ -}}
{{- define "operator.rules" -}}
rules:
- apiGroups: [cloudserver.dev]
  resources: [instances]
  verbs: [get, list, watch, patch]
- apiGroups: [cloudserver.dev]
  resources: [instances/status]
  verbs: [patch]
- apiGroups: [cloudserver.dev]
  resources: [accounts]
  verbs: [get, list, watch]
- apiGroups: [cloudserver.dev]
  resources: [accounts/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch]
# CA bundles: an Account names the ConfigMap.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}

{{- define "operator.secretWriterRules" -}}
rules:
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, patch]
{{- end }}

{{- /*
A role and its binding: in the whole cluster, or in each watched namespace and in no other.
*/ -}}
{{- define "operator.grant" -}}
{{- $root := .root }}
{{- $name := .name }}
{{- $rules := include .rules $root }}
{{- range $namespace := $root.Values.watchNamespaces }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "operator.metadata" (dict "root" $root "name" $name "namespace" $namespace) | nindent 2 }}
{{ $rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "operator.metadata" (dict "root" $root "name" $name "namespace" $namespace) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
{{ include "operator.subjects" $root }}
{{- else }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "operator.clusterMetadata" (dict "root" $root "name" $name) | nindent 2 }}
{{ $rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "operator.clusterMetadata" (dict "root" $root "name" $name) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
{{ include "operator.subjects" $root }}
{{- end }}
{{- end }}

{{- /* The Lease where there are no shards, which Pods without may still hold, and one for each shard, also of the former number. */ -}}
{{- define "operator.leases" -}}
{{- $names := list "cloud-server-operator" -}}
{{- range $count := list (int .Values.formerShards) (int .Values.shards) | uniq -}}
{{- range $index := ternary (until $count) list (gt $count 1) -}}
{{- $names = append $names (printf "cloud-server-operator-%d-of-%d" $index $count) -}}
{{- end -}}
{{- end -}}
[{{ join ", " $names }}]
{{- end -}}
