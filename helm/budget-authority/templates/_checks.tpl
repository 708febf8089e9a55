{{/* Values that contradict each other, each with a sentence that says what to change. */}}
{{- define "budget-authority.checks" -}}
{{- $values := .Values -}}
{{- $fullname := include "budget-authority.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $fullname) -}}
  {{- fail (printf "Objects would be called %s, but names of Services begin with a small letter and hold small letters, digits and -: choose another name of the release, or fullnameOverride." $fullname) -}}
{{- end -}}
{{- with .Values.redis -}}
  {{- $ways := list -}}
  {{- if .url }}{{ $ways = append $ways "redis.url" }}{{ end -}}
  {{- if .existingSecret }}{{ $ways = append $ways "redis.existingSecret" }}{{ end -}}
  {{- if .trial.enabled }}{{ $ways = append $ways "redis.trial.enabled" }}{{ end -}}
  {{- if not $ways -}}
    {{- fail "There is no Redis: set redis.url, or redis.existingSecret to the name of a Secret that holds the URL, or redis.trial.enabled=true for a trial." -}}
  {{- else if gt (len $ways) 1 -}}
    {{- fail (printf "%s are set, but there is one Redis: keep one of them." (join " and " $ways)) -}}
  {{- end -}}
  {{- if and .url (not (regexMatch "^(redis|valkey)s?([+](sentinel|cluster))?://." .url)) -}}
    {{- fail "redis.url must begin with redis://, redis+sentinel:// or redis+cluster://, with rediss for TLS." -}}
  {{- end -}}
  {{- if and .tls.clientCertificate (not .tls.existingSecret) -}}
    {{- fail "redis.tls.clientCertificate is set, but redis.tls.existingSecret does not name the Secret that holds the certificate." -}}
  {{- end -}}
  {{- if and .tls.existingSecret .trial.enabled -}}
    {{- fail "redis.tls.existingSecret is set, but the Redis of redis.trial does not use TLS: leave one of them out." -}}
  {{- end -}}
  {{- if and .tls.existingSecret .url (not (regexMatch "^(rediss|valkeys)[+:]" .url)) -}}
    {{- fail "redis.tls.existingSecret is set, but redis.url does not use TLS: let it begin with rediss." -}}
  {{- end -}}
{{- end -}}

{{- range $name := list "adminKeys" "secretKeys" "evidenceSeeds" -}}
  {{- $secret := get $values $name -}}
  {{- if and $secret.value $secret.existingSecret -}}
    {{- fail (printf "%s.value and %s.existingSecret are both set: keep one of them." $name $name) -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.admin.separate (not .Values.adminKeys.value) (not .Values.adminKeys.existingSecret) -}}
  {{- fail "The admin plane has a port of its own but no key: set adminKeys.value or adminKeys.existingSecret, or admin.separate=false to run without admin keys." -}}
{{- end -}}
{{- $plaintext := has (get .Values.config "BUDGET_ALLOW_PLAINTEXT_SECRETS" | toString | lower) (list "true" "t" "yes" "y" "on" "1") -}}
{{- if not (or .Values.secretKeys.value .Values.secretKeys.existingSecret $plaintext) -}}
  {{- fail "There are no keys for the secrets of webhooks: set secretKeys.value or secretKeys.existingSecret; `budget-authority keys generate --kind secret` prints a key." -}}
{{- end -}}

{{- $homes := include "budget-authority.owned" . | fromYaml -}}
{{- range $name, $_ := .Values.config -}}
  {{- with get $homes $name -}}
    {{- fail (printf "config.%s is set by the chart: use %s." $name .) -}}
  {{- end -}}
{{- end -}}
{{- range $component := list "api" "dispatcher" -}}
  {{- $part := get $values $component -}}
  {{- $variables := list -}}
  {{- range $variable := $part.extraEnv -}}
    {{- if has $variable.name $variables -}}
      {{- fail (printf "%s.extraEnv sets %s twice: keep one of them." $component $variable.name) -}}
    {{- end -}}
    {{- $variables = append $variables $variable.name -}}
    {{- with get $homes $variable.name -}}
      {{- fail (printf "%s.extraEnv sets %s, which is set by the chart: use %s." $component $variable.name .) -}}
    {{- end -}}
    {{- if hasKey $values.config $variable.name -}}
      {{- fail (printf "%s.extraEnv and config both set %s: keep one of them." $component $variable.name) -}}
    {{- end -}}
  {{- end -}}
  {{- $needed := int64 (include "budget-authority.neededSeconds" (list $ $component)) -}}
  {{- with $part.terminationGracePeriodSeconds -}}
    {{- if lt (int64 .) $needed -}}
      {{- fail (printf "%s.terminationGracePeriodSeconds is %d, but the settings under shutdown need %d: raise it, or leave it out." $component (int64 .) $needed) -}}
    {{- end -}}
  {{- end -}}
  {{- with $part.podDisruptionBudget -}}
    {{- if and .enabled (not (kindIs "invalid" .minAvailable)) (not (kindIs "invalid" .maxUnavailable)) -}}
      {{- fail (printf "%s.podDisruptionBudget has minAvailable and maxUnavailable: keep one of them." $component) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}

{{- $ports := list -}}
{{- range $port := list .Values.api.port .Values.metrics.port (ternary .Values.admin.port 0 .Values.admin.separate) -}}
  {{- if has (int64 $port) $ports -}}
    {{- fail (printf "api.port, admin.port and metrics.port must differ: %d is there twice." (int64 $port)) -}}
  {{- end -}}
  {{- $ports = append $ports (int64 $port) -}}
{{- end -}}

{{- with .Values.api.autoscaling -}}
  {{- if .enabled -}}
    {{- if gt (int64 .minReplicas) (int64 .maxReplicas) -}}
      {{- fail (printf "api.autoscaling.minReplicas is %d, above maxReplicas, which is %d." (int64 .minReplicas) (int64 .maxReplicas)) -}}
    {{- end -}}
    {{- if and (not .metrics) (not (dig "requests" "cpu" "" $values.api.resources)) -}}
      {{- fail "api.autoscaling aims at a share of the CPU that api.resources.requests.cpu names, but that is not set." -}}
    {{- end -}}
  {{- end -}}
{{- end -}}

{{- with .Values.metrics -}}
  {{- if and .serviceMonitor.enabled .podMonitor.enabled -}}
    {{- fail "metrics.serviceMonitor and metrics.podMonitor are both enabled, so every pod would be scraped twice: keep one of them." -}}
  {{- end -}}
  {{- $known := list -}}
  {{- range (($.Files.Get "files/alerts.yaml") | fromYaml).groups -}}
    {{- range .rules }}{{ $known = append $known .alert }}{{ end -}}
  {{- end -}}
  {{- range .prometheusRule.disabled -}}
    {{- if not (has . $known) -}}
      {{- fail (printf "metrics.prometheusRule.disabled names %s, but there is no such alert." .) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
  {{- fail "ingress.enabled is set, but ingress.hosts names no host." -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
  {{- fail "httpRoute.enabled is set, but httpRoute.parentRefs names no Gateway." -}}
{{- end -}}
{{- end -}}

{{/* Settings that the chart sets itself, and the values that say how. */}}
{{- define "budget-authority.owned" -}}
BUDGET_REDIS_URL: redis.url or redis.existingSecret
BUDGET_REDIS_URL_FILE: redis.url or redis.existingSecret
BUDGET_REDIS_TLS_CA_FILE: redis.tls
BUDGET_REDIS_TLS_CERT_FILE: redis.tls
BUDGET_REDIS_TLS_KEY_FILE: redis.tls
BUDGET_ADMIN_KEYS: adminKeys
BUDGET_ADMIN_KEYS_FILE: adminKeys
BUDGET_SECRET_KEYS: secretKeys
BUDGET_SECRET_KEYS_FILE: secretKeys
BUDGET_EVIDENCE_SEEDS: evidenceSeeds
BUDGET_EVIDENCE_SEEDS_FILE: evidenceSeeds
BUDGET_LISTEN: api.port and listenAddress
BUDGET_ADMIN_LISTEN: admin.separate and admin.port
BUDGET_METRICS_LISTEN: metrics.port (the probes are there, so it cannot be off)
BUDGET_SHUTDOWN_DELAY_MS: shutdown.delayMs
BUDGET_SHUTDOWN_GRACE_MS: shutdown.graceMs
{{- end -}}
