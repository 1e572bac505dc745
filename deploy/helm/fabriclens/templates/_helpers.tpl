{{- define "fabriclens.name" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 46 | trimSuffix "-" }}
{{- else if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 46 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 46 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Selector labels; (list . "agent") */}}
{{- define "fabriclens.selector" -}}
{{- $top := index . 0 -}}
app.kubernetes.io/name: fabriclens
app.kubernetes.io/instance: {{ $top.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Common labels; (list . "agent") */}}
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

{{/* Scheme of the collector's listeners: http or https. */}}
{{- define "fabriclens.scheme" -}}
{{ ternary "https" "http" (ne .Values.tls.secret "") }}
{{- end }}

{{/* True if the collector requires authentication. */}}
{{- define "fabriclens.asks" -}}
{{- if or .Values.tokens.secret (and .Values.tls.secret .Values.tls.agentSecret) }}true{{ end }}
{{- end }}

{{/* DNS name of the collector in the cluster. */}}
{{- define "fabriclens.host" -}}
{{ include "fabriclens.name" . }}.{{ .Release.Namespace }}.svc
{{- end }}

{{/* Security context for Pod Security "restricted". */}}
{{- define "fabriclens.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* True if several collectors receive and this release's collector only judges. */}}
{{- define "fabriclens.roles" -}}
{{ if gt (int .Values.ingest.replicas) 0 }}true{{ end }}
{{- end }}

{{/* URLs of the ingest collectors for agents, with commas. */}}
{{- define "fabriclens.ingest.urls" -}}
{{- range $i := until (int .Values.ingest.replicas) -}}
{{ if $i }},{{ end }}{{ include "fabriclens.collector.pod" (list $ "ingest" $i 4317) }}
{{- end -}}
{{- end }}
