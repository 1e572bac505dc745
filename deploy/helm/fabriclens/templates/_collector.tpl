{{/* Objects of one kind of collector: ServiceAccount, ConfigMap, headless Service and StatefulSet.
  (list $ COMPONENT REPLICAS TOML); COMPONENT is "collector" (does everything, or judges), "standby" (of a judge) or "ingest". */}}
{{- define "fabriclens.collector.objects" -}}
{{- $component := index . 1 -}}
{{- $replicas := index . 2 -}}
{{- $toml := index . 3 | trim -}}
{{- with index . 0 -}}
{{- $main := include "fabriclens.name" . -}}
{{- $ingest := eq $component "ingest" -}}
{{- $values := ternary .Values.ingest .Values.collector $ingest -}}
{{- $claim := ternary "" .Values.collector.persistence.claim $ingest -}}
{{- $name := include "fabriclens.collector.name" (list . $component) -}}
{{- $headless := include "fabriclens.collector.headless" (list . $component) -}}
{{- $secrets := dict -}}
{{- with .Values.tls.secret }}{{ $_ := set $secrets "tls" . }}{{ end -}}
{{- with .Values.tokens.secret }}{{ $_ := set $secrets "tokens" . }}{{ end -}}
{{- with and (include "fabriclens.roles" .) .Values.engine.tokenSecret }}{{ $_ := set $secrets "engine" . }}{{ end -}}
{{- with and $ingest .Values.tokens.judgeSecret }}{{ $_ := set $secrets "judge" . }}{{ end -}}
{{- if ne $component "standby" }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ .Release.Namespace }}
  labels: {{- include "fabriclens.labels" (list . $component) | nindent 4 }}
automountServiceAccountToken: false
---
{{- end }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  namespace: {{ .Release.Namespace }}
  labels: {{- include "fabriclens.labels" (list . $component) | nindent 4 }}
data:
  collector.toml: |
    {{- $toml | nindent 4 }}
---
# Headless service for the DNS names of pods. A standby has one, too, though it is not ready: others look whether it took over.
apiVersion: v1
kind: Service
metadata:
  name: {{ $headless }}
  namespace: {{ .Release.Namespace }}
  labels: {{- include "fabriclens.labels" (list . (ternary "collector-headless" $component (eq $component "collector"))) | nindent 4 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{- include "fabriclens.selector" (list . $component) | nindent 4 }}
  ports: {{- include "fabriclens.collector.ports" . | nindent 4 }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}
  namespace: {{ .Release.Namespace }}
  labels: {{- include "fabriclens.labels" (list . $component) | nindent 4 }}
spec:
  replicas: {{ $replicas | int }}
  serviceName: {{ $headless }}
  selector:
    matchLabels: {{- include "fabriclens.selector" (list . $component) | nindent 6 }}
  {{- if and (not $claim) (semverCompare ">=1.27-0" .Capabilities.KubeVersion.Version) }}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: {{ $values.persistence.whenDeleted }}, whenScaled: Retain}
  {{- end }}
  template:
    metadata:
      labels:
        {{- include "fabriclens.labels" (list . $component) | nindent 8 }}
        {{- if $claim }}
        # Of a judge and its standby, which one Service stands for.
        fabriclens-judge: "true"
        {{- end }}
        {{- with $values.podLabels }}{{ toYaml . | nindent 8 }}{{ end }}
      annotations:
        checksum/config: {{ $toml | sha256sum }}
        {{- with $values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec:
      serviceAccountName: {{ ternary $name $main $ingest }}
      # For listing pods as jobs.
      automountServiceAccountToken: {{ and (not $ingest) .Values.collector.jobs.kubernetes.enabled }}
      enableServiceLinks: false
      # Draining takes up to ten seconds; acknowledged samples are safe even if this time runs out.
      terminationGracePeriodSeconds: 30
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .Values.image.pullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if or $ingest $claim }}
      # Not on one node, where there are several.
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include (ternary "fabriclens.selector" "fabriclens.judges" $ingest) (list . $component) | nindent 14 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        # Sets the volume's group without changing every block at each start.
        fsGroup: 65532
        fsGroupChangePolicy: OnRootMismatch
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: collector
          image: {{ include "fabriclens.image" (list . .Values.collector.image) }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args: [serve, --config, /etc/fabriclens/collector.toml]
          env:
            {{- include "fabriclens.collector.env" (list . $ingest $claim) | nindent 12 }}
            {{- with $values.env }}{{ toYaml . | nindent 12 }}{{ end }}
          ports:
            - {name: http, containerPort: 7470}
            - {name: otlp-grpc, containerPort: 4317}
            - {name: otlp-http, containerPort: 4318}
          # Recovery replays the log, which takes minutes on a slow volume.
          startupProbe:
            {{- include "fabriclens.collector.probe" (list . "/healthz") | nindent 12 }}
            periodSeconds: 2
            failureThreshold: 300
          livenessProbe:
            {{- include "fabriclens.collector.probe" (list . "/healthz") | nindent 12 }}
            periodSeconds: 20
            timeoutSeconds: 10
            failureThreshold: 6
          readinessProbe:
            {{- include "fabriclens.collector.probe" (list . "/readyz") | nindent 12 }}
            # A standby that took over is to serve at once.
            periodSeconds: {{ ternary 2 10 (ne $claim "") }}
            timeoutSeconds: 5
          resources: {{- toYaml $values.resources | nindent 12 }}
          securityContext: {{- include "fabriclens.restricted" . | nindent 12 }}
          volumeMounts:
            - {name: data, mountPath: /var/lib/fabriclens}
            - {name: config, mountPath: /etc/fabriclens/collector.toml, subPath: collector.toml, readOnly: true}
            {{- range $use, $_ := $secrets }}
            - {name: {{ $use }}, mountPath: /etc/fabriclens/{{ $use }}, readOnly: true}
            {{- end }}
            {{- with $values.extraVolumeMounts }}{{ toYaml . | nindent 12 }}{{ end }}
      volumes:
        - name: config
          configMap: {name: {{ $name }}}
        {{- if $claim }}
        - name: data
          persistentVolumeClaim: {claimName: {{ $claim }}}
        {{- end }}
        {{- range $use, $secret := $secrets }}
        - name: {{ $use }}
          secret: {secretName: {{ $secret }}, defaultMode: 0440}
        {{- end }}
        {{- with $values.extraVolumes }}{{ toYaml . | nindent 8 }}{{ end }}
  {{- if not $claim }}
  volumeClaimTemplates:
    - apiVersion: v1
      kind: PersistentVolumeClaim
      metadata:
        name: data
      spec:
        accessModes: [ReadWriteOnce]
        {{- with $values.persistence.storageClass }}
        storageClassName: {{ ternary "" . (eq . "-") | quote }}
        {{- end }}
        resources:
          requests: {storage: {{ $values.persistence.size }}}
  {{- end }}
{{- end }}
{{- end }}

{{/* Name of the objects of a component; (list $ COMPONENT) */}}
{{- define "fabriclens.collector.name" -}}
{{ include "fabriclens.name" (index . 0) }}{{ if ne (index . 1) "collector" }}-{{ index . 1 }}{{ end }}
{{- end }}

{{/* Name of its headless Service; (list $ COMPONENT). The collector's own name is that of the Service of the API. */}}
{{- define "fabriclens.collector.headless" -}}
{{ include "fabriclens.collector.name" . }}{{ if eq (index . 1) "collector" }}-headless{{ end }}
{{- end }}

{{/* URL of one of its pods; (list $ COMPONENT ORDINAL PORT) */}}
{{- define "fabriclens.collector.pod" -}}
{{- $top := index . 0 -}}
{{ include "fabriclens.scheme" $top }}://{{ include "fabriclens.collector.name" . }}-{{ index . 2 }}.{{ include "fabriclens.collector.headless" . }}.{{ $top.Release.Namespace }}.svc:{{ index . 3 }}
{{- end }}

{{- define "fabriclens.collector.ports" -}}
- {name: http, port: 7470, targetPort: http, appProtocol: {{ include "fabriclens.scheme" . }}}
- {name: otlp-grpc, port: 4317, targetPort: otlp-grpc{{ if not .Values.tls.secret }}, appProtocol: kubernetes.io/h2c{{ end }}}
- {name: otlp-http, port: 4318, targetPort: otlp-http, appProtocol: {{ include "fabriclens.scheme" . }}}
{{- end }}

{{/* The kubelet's probes have no client certificate. */}}
{{- define "fabriclens.collector.probe" -}}
{{- $top := index . 0 -}}
{{- if $top.Values.tls.agentSecret -}}
tcpSocket: {port: http}
{{- else -}}
httpGet: {path: {{ index . 1 }}, port: http, scheme: {{ include "fabriclens.scheme" $top | upper }}}
{{- end -}}
{{- end }}

{{/* Variables of a collector; (list $ INGEST CLAIM): whether it only receives, and the claim that judges share. */}}
{{- define "fabriclens.collector.env" -}}
{{- $ingest := index . 1 -}}
{{- $claim := index . 2 -}}
{{- with index . 0 -}}
- {name: FABRICLENS_DATA, value: /var/lib/fabriclens{{ if $claim }}/data{{ end }}}
{{- if include "fabriclens.roles" . }}
- {name: FABRICLENS_ROLE, value: {{ ternary "ingest" "judge" $ingest }}}
{{- else }}
- {name: FABRICLENS_RETENTION_SIZE, value: {{ .Values.collector.persistence.retentionSize | quote }}}
{{- end }}
- {name: FABRICLENS_LISTEN_HTTP, value: "{{ .Values.collector.listen }}:7470"}
- {name: FABRICLENS_LISTEN_OTLP_GRPC, value: "{{ .Values.collector.listen }}:4317"}
- {name: FABRICLENS_LISTEN_OTLP_HTTP, value: "{{ .Values.collector.listen }}:4318"}
{{- if .Values.tls.secret }}
- {name: FABRICLENS_TLS_CERT, value: /etc/fabriclens/tls/tls.crt}
- {name: FABRICLENS_TLS_KEY, value: /etc/fabriclens/tls/tls.key}
{{- if .Values.tls.agentSecret }}
- {name: FABRICLENS_TLS_CLIENT_CA, value: /etc/fabriclens/tls/ca.crt}
{{- end }}
{{- else }}
# Plain text within the cluster; logged at every start. See tls and networkPolicy in the chart's values.
- {name: FABRICLENS_INSECURE, value: "true"}
{{- end }}
{{- if .Values.tokens.secret }}
- {name: FABRICLENS_AUTH_TOKENS, value: /etc/fabriclens/tokens/tokens}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels of a judge and its standby. */}}
{{- define "fabriclens.judges" -}}
app.kubernetes.io/name: fabriclens
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
fabriclens-judge: "true"
{{- end }}

{{/* Where several collectors share an engine: its table. */}}
{{- define "fabriclens.collector.store" }}

[store]
remote = {{ .Values.engine.url | toJson }}
{{- if .Values.engine.tokenSecret }}
bearer_token_file = "/etc/fabriclens/engine/token"
{{- end }}
{{- with .Values.engine.config }}
{{ . | trim }}
{{- end }}
{{- end }}
