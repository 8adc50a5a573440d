{{- define "supercargo.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "supercargo.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "supercargo.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "supercargo.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "supercargo.selectorLabels" -}}
app.kubernetes.io/name: {{ include "supercargo.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "supercargo.labels" -}}
{{ include "supercargo.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "supercargo.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "supercargo.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "supercargo.image" -}}
{{- $image := printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- if .Values.image.registry -}}{{ printf "%s/%s" .Values.image.registry $image }}{{- else -}}{{ $image }}{{- end -}}
{{- end -}}

{{/* Whether replicas elect one that schedules: "true" or "false". */}}
{{- define "supercargo.leaderElect" -}}
{{- if .Values.config -}}
{{- $election := default dict .Values.config.leaderElection -}}
{{- if hasKey $election "leaderElect" }}{{ $election.leaderElect }}{{ else }}true{{ end -}}
{{- else -}}
{{- .Values.leaderElection.enabled -}}
{{- end -}}
{{- end -}}

{{/* The Lease's namespace; left out of a whole configuration it is kube-scheduler's default. */}}
{{- define "supercargo.leaseNamespace" -}}
{{- if .Values.config -}}
{{- default "kube-system" (default dict .Values.config.leaderElection).resourceNamespace -}}
{{- else -}}
{{- .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{- define "supercargo.leaseName" -}}
{{- $name := default (include "supercargo.fullname" .) .Values.leaderElection.leaseName -}}
{{- $value := "leaderElection.leaseName" -}}
{{- if .Values.config -}}
{{- $name = default "kube-scheduler" (default dict .Values.config.leaderElection).resourceName -}}
{{- $value = "config.leaderElection.resourceName" -}}
{{- end -}}
{{- if and (eq $name "kube-scheduler") (eq (include "supercargo.leaseNamespace" .) "kube-system") -}}
{{- fail (printf "%s: kube-system/kube-scheduler is kube-scheduler's own Lease; a second scheduler needs another" $value) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* The profiles' names, separated by commas. A profile without one is kube-scheduler's default. */}}
{{- define "supercargo.schedulerNames" -}}
{{- $names := list -}}
{{- $profiles := .Values.profiles -}}
{{- if .Values.config }}{{ $profiles = default (list dict) .Values.config.profiles }}{{ end -}}
{{- range $profiles }}{{ $names = append $names (default "default-scheduler" .schedulerName) }}{{ end -}}
{{- if not $profiles }}{{ $names = list .Values.schedulerName }}{{ end -}}
{{- join "," $names -}}
{{- end -}}

{{/* Fails on values that contradict each other or would do harm. */}}
{{- define "supercargo.check" -}}
{{- if and .Values.profiles .Values.pluginConfig -}}
{{- fail "pluginConfig: belongs to the one profile that the chart makes; with profiles, give each its own pluginConfig" -}}
{{- end -}}
{{- if .Values.config -}}
{{- range $key := list "profiles" "pluginConfig" "extenders" "clientConnection" -}}
{{- if index $.Values $key }}{{ fail (printf "%s: cannot be set together with config, which replaces it" $key) }}{{ end -}}
{{- end -}}
{{- range $key := list "podInitialBackoffSeconds" "podMaxBackoffSeconds" "percentageOfNodesToScore" -}}
{{- if not (kindIs "invalid" (get $.Values $key)) }}{{ fail (printf "%s: cannot be set together with config, which replaces it" $key) }}{{ end -}}
{{- end -}}
{{- if ne .Values.schedulerName "supercargo" -}}
{{- fail "schedulerName: cannot be set together with config, which replaces it" -}}
{{- end -}}
{{- $election := dict "enabled" true "leaseName" "" "leaseDuration" "15s" "renewDeadline" "10s" "retryPeriod" "2s" -}}
{{- if ne (toJson .Values.leaderElection) (toJson $election) -}}
{{- fail "leaderElection: cannot be set together with config, which replaces it" -}}
{{- end -}}
{{- if or (ne (toString .Values.config.kind) "KubeSchedulerConfiguration") (ne (toString .Values.config.apiVersion) "kubescheduler.config.k8s.io/v1") -}}
{{- fail "config: needs apiVersion kubescheduler.config.k8s.io/v1 and kind KubeSchedulerConfiguration" -}}
{{- end -}}
{{- end -}}
{{- if and (has "default-scheduler" (splitList "," (include "supercargo.schedulerNames" .))) (not .Values.replaceDefaultScheduler) -}}
{{- fail "schedulerName: kube-scheduler has the name default-scheduler already, and both would bind the same pods; take another name, or set replaceDefaultScheduler where no other scheduler has it (a profile without schedulerName has that name too)" -}}
{{- end -}}
{{- if and (gt (int .Values.replicaCount) 1) (ne (include "supercargo.leaderElect" .) "true") -}}
{{- fail "replicaCount: without leader election every replica would schedule; set leaderElection.enabled or replicaCount 1" -}}
{{- end -}}
{{- end -}}
