{{- define "vstream-serve.name" -}}
{{- printf "%s" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "vstream-serve.selector" -}}
app.kubernetes.io/name: vstream-serve
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "vstream-serve.labels" -}}
{{ include "vstream-serve.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
