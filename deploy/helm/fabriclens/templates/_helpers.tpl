{{- define "fabriclens.name" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 46 | trimSuffix "-" }}
{{- else if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 46 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 46 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* What pods are found by; (list . "agent") */}}
{{- define "fabriclens.selector" -}}
{{- $top := index . 0 -}}
app.kubernetes.io/name: fabriclens
app.kubernetes.io/instance: {{ $top.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Labels of everything; (list . "agent") */}}
{{- define "fabriclens.labels" -}}
{{- $top := index . 0 -}}
{{ include "fabriclens.selector" . }}
app.kubernetes.io/part-of: fabriclens
app.kubernetes.io/version: {{ $top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $top.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $top.Chart.Name $top.Chart.Version | replace "+" "_" }}
{{- with $top.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* (list . "fabriclens-agent") */}}
{{- define "fabriclens.image" -}}
{{- $top := index . 0 -}}
{{ $top.Values.image.registry }}/{{ index . 1 }}:{{ $top.Values.image.tag | default $top.Chart.AppVersion }}
{{- end }}

{{/* http or https of the collector's listeners. */}}
{{- define "fabriclens.scheme" -}}
{{ ternary "https" "http" (ne .Values.tls.secret "") }}
{{- end }}

{{/* True where the collector asks who it is that asks. */}}
{{- define "fabriclens.asks" -}}
{{- if or .Values.tokens.secret (and .Values.tls.secret .Values.tls.agentSecret) }}true{{ end }}
{{- end }}

{{/* Name of the collector within the cluster. */}}
{{- define "fabriclens.host" -}}
{{ include "fabriclens.name" . }}.{{ .Release.Namespace }}.svc
{{- end }}

{{/* Pod Security "restricted" of a container without any privilege. */}}
{{- define "fabriclens.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
