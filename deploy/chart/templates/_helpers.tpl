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

{{- define "supercargo.leaseName" -}}
{{- $name := default (include "supercargo.fullname" .) .Values.leaderElection.leaseName -}}
{{- if and (eq $name "kube-scheduler") (eq .Release.Namespace "kube-system") -}}
{{- fail "leaderElection.leaseName: kube-system/kube-scheduler is kube-scheduler's own Lease; a second scheduler needs another" -}}
{{- end -}}
{{- $name -}}
{{- end -}}
