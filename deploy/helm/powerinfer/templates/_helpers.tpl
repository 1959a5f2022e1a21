{{- define "powerinfer.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "powerinfer.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "powerinfer.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "powerinfer.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "powerinfer.selector" -}}
app.kubernetes.io/name: {{ include "powerinfer.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "powerinfer.labels" -}}
{{ include "powerinfer.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{- define "powerinfer.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "powerinfer.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "powerinfer.image" -}}
{{- $tag := .Values.image.tag | default (printf "%s%s" .Chart.AppVersion (ternary "-vulkan" "" .Values.gpu.enabled)) -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}

{{/* Values that contradict each other are refused when the chart is rendered. */}}
{{- define "powerinfer.check" -}}
{{- with .Values.model -}}
{{- if and .file .pull.repository -}}{{- fail "model.file and model.pull.repository both name a model; give one" -}}{{- end -}}
{{- if and .folder (or .file .pull.repository) -}}{{- fail "model.folder holds the models to serve; leave model.file and model.pull.repository out" -}}{{- end -}}
{{- if and .folder $.Values.batch.enabled -}}{{- fail "a batch runs one model: give model.file or model.pull.repository, not model.folder" -}}{{- end -}}
{{- if and .folder (not .volume) (not .claim.create) -}}{{- fail "model.folder needs the volume it is on: model.volume or model.claim.create" -}}{{- end -}}
{{- if and .volume .claim.create -}}{{- fail "model.volume and model.claim.create both give a volume; choose one" -}}{{- end -}}
{{- if and .file (not .volume) (not .claim.create) -}}{{- fail "model.file needs the volume it is on: model.volume or model.claim.create" -}}{{- end -}}
{{- end -}}
{{- if and .Values.batch.enabled (not .Values.batch.volume) -}}{{- fail "batch.volume is missing: where the prompts are, and the answers go" -}}{{- end -}}
{{- with .Values.inferenceExtension.pool -}}
{{- if and .create (not .endpointPicker.name) -}}{{- fail "inferenceExtension.pool.endpointPicker.name is missing: the endpoint picker's service" -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of a pod: who it runs as and where. */}}
{{- define "powerinfer.podSettings" -}}
serviceAccountName: {{ include "powerinfer.serviceAccountName" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- if and .Values.gpu.enabled .Values.gpu.runtimeClassName }}
runtimeClassName: {{ .Values.gpu.runtimeClassName }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "powerinfer.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "powerinfer.resources" -}}
{{- $limits := .Values.resources.limits | default dict | deepCopy -}}
{{- if .Values.gpu.enabled -}}{{- $_ := set $limits .Values.gpu.resource .Values.gpu.count -}}{{- end -}}
{{- with .Values.resources.requests }}
requests:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $limits }}
limits:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "powerinfer.hubEnv" -}}
- name: HF_HUB_CACHE
  value: /models
{{- with .Values.model.pull.endpoint }}
- name: HF_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Variables that say which model is opened, and how. */}}
{{- define "powerinfer.modelEnv" -}}
{{- with .Values.model.file }}
- name: LLAMA_ARG_MODEL
  value: {{ printf "/models/%s" (trimPrefix "/" .) | quote }}
{{- end }}
{{- with .Values.model.folder }}
- name: LLAMA_ARG_MODELS_DIR
  value: {{ clean (printf "/models/%s" .) | quote }}
{{- end }}
{{- with .Values.model.pull.repository }}
- name: LLAMA_ARG_HF_REPO
  value: {{ . | quote }}
# The init container has pulled it.
- name: HF_HUB_OFFLINE
  value: "1"
{{ include "powerinfer.hubEnv" $ }}
{{- end }}
{{- if .Values.gpu.enabled }}
{{- with .Values.gpu.vramBudget }}
- name: LLAMA_ARG_VRAM_BUDGET
  value: {{ . | quote }}
{{- end }}
{{- else }}
- name: LLAMA_ARG_DEVICE
  value: none
{{- end }}
{{- with .Values.server.contextSize }}
- name: LLAMA_ARG_CTX_SIZE
  value: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "powerinfer.mounts" -}}
- name: state
  mountPath: /state
- name: models
  mountPath: /models
  readOnly: true
{{- end -}}

{{- define "powerinfer.volumes" -}}
# What was measured of the node, for the pod's lifetime.
- name: state
  emptyDir: {}
- name: models
{{- if .Values.model.claim.create }}
  persistentVolumeClaim:
    claimName: {{ include "powerinfer.fullname" . }}-models
{{- else if .Values.model.volume }}
  {{- toYaml .Values.model.volume | nindent 2 }}
{{- else }}
  emptyDir: {}
{{- end }}
{{- end -}}

{{/* Pods of a shared volume wait for each other here: pull locks what it downloads. */}}
{{- define "powerinfer.initContainers" -}}
{{- if .Values.model.pull.repository }}
initContainers:
  - name: pull
    image: {{ include "powerinfer.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args: [pull, {{ .Values.model.pull.repository | quote }}]
    env:
      {{- include "powerinfer.hubEnv" . | nindent 6 }}
      {{- with .Values.model.pull.tokenSecret }}
      {{- if .name }}
      - name: HF_TOKEN
        valueFrom:
          secretKeyRef: {name: {{ .name }}, key: {{ .key }}}
      {{- end }}
      {{- end }}
    resources:
      requests: {cpu: 100m, memory: 128Mi}
      limits: {memory: 512Mi}
    securityContext:
      {{- include "powerinfer.containerSecurity" . | nindent 6 }}
    volumeMounts:
      - name: state
        mountPath: /state
      - name: models
        mountPath: /models
{{- end }}
{{- end -}}
