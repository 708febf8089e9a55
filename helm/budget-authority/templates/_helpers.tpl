{{/* Names of objects, without what makes them longer than a label may be. */}}
{{- define "budget-authority.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "budget-authority.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "budget-authority.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "budget-authority.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "budget-authority.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "budget-authority.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels of an object: list of the root, a component, which may be empty, and perhaps further labels. */}}
{{- define "budget-authority.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service | quote }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | replace "+" "_" | quote }}
{{ include "budget-authority.selector" . }}
{{- range $name, $value := merge (dict) (index (append . dict) 2) $root.Values.commonLabels }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* Labels that select the pods of a component, or of both. The trial's Redis and the test have another name. */}}
{{- define "budget-authority.selector" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
app.kubernetes.io/name: {{ include "budget-authority.name" $root | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
{{- with $component }}
app.kubernetes.io/component: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Labels of the pods of an own kind beside the service, such as the trial's Redis. */}}
{{- define "budget-authority.besides" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ printf "%s-%s" (include "budget-authority.name" $root) (index . 1) | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
{{- end -}}

{{/* A scalar as the text of an environment variable: a large number without an exponent. */}}
{{- define "budget-authority.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}{{ int64 . }}{{- else -}}{{ toString . }}{{- end -}}
{{- end -}}

{{/* Seconds that a component needs to end: delay, grace and one more. Dispatchers have no delay. */}}
{{- define "budget-authority.neededSeconds" -}}
{{- $root := index . 0 -}}
{{- $shutdown := $root.Values.shutdown -}}
{{- $ms := int64 $shutdown.graceMs -}}
{{- if eq (index . 1) "api" -}}{{- $ms = add $ms (int64 $shutdown.delayMs) -}}{{- end -}}
{{- add 1 (div (add $ms 999) 1000) -}}
{{- end -}}

{{/* Secrets as `name of the file: {secret, key}`; `secret` is the chart's own where the value is given. */}}
{{- define "budget-authority.secrets" -}}
{{- $own := include "budget-authority.fullname" . -}}
{{- with .Values.redis }}
redis-url:
  secret: {{ default $own .existingSecret | quote }}
  key: {{ ternary .existingSecretKey "redis-url" (not (empty .existingSecret)) | quote }}
{{- end }}
{{- range $file, $secret := dict "admin-keys" .Values.adminKeys "secret-keys" .Values.secretKeys "evidence-seeds" .Values.evidenceSeeds }}
{{- if or $secret.value $secret.existingSecret }}
{{ $file }}:
  secret: {{ default $own $secret.existingSecret | quote }}
  key: {{ ternary $secret.existingSecretKey $file (not (empty $secret.existingSecret)) | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What the chart's own Secret holds; empty where every secret is in an existing one. */}}
{{- define "budget-authority.secretData" -}}
{{- if .Values.redis.trial.enabled }}
redis-url: {{ printf "redis://%s-redis:6379" (include "budget-authority.fullname" .) | b64enc | quote }}
{{- else if .Values.redis.url }}
redis-url: {{ .Values.redis.url | b64enc | quote }}
{{- end }}
{{- with .Values.adminKeys.value }}
admin-keys: {{ . | b64enc | quote }}
{{- end }}
{{- with .Values.secretKeys.value }}
secret-keys: {{ . | b64enc | quote }}
{{- end }}
{{- with .Values.evidenceSeeds.value }}
evidence-seeds: {{ . | b64enc | quote }}
{{- end }}
{{- end -}}

{{/* What selects the series of this release in a query. */}}
{{- define "budget-authority.series" -}}
{{- $own := printf "namespace=%q,job=%q" .Release.Namespace (include "budget-authority.fullname" .) -}}
{{- default $own .Values.metrics.prometheusRule.selector -}}
{{- end -}}
