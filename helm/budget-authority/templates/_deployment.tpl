{{/* The Deployment of a component: list of the root, `api` or `dispatcher`, and its command. */}}
{{- define "budget-authority.deployment" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $command := index . 2 -}}
{{- $values := $root.Values -}}
{{- $part := get $values $component -}}
{{- $isApi := eq $component "api" -}}
{{- $selector := include "budget-authority.selector" (list $root $component) -}}
{{- $secrets := include "budget-authority.secrets" $root | fromYaml -}}
{{- $secrets = omit $secrets (ternary "evidence-seeds" "admin-keys" $isApi) -}}
{{- $tls := $values.redis.tls -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ printf "%s-%s" (include "budget-authority.fullname" $root) $component | quote }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- include "budget-authority.labels" (list $root $component) | nindent 4 }}
  {{- with $part.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if not (and $isApi $values.api.autoscaling.enabled) }}
  replicas: {{ $part.replicas }}
  {{- end }}
  selector:
    matchLabels:
      {{- $selector | nindent 6 }}
  strategy:
    {{- with $part.strategy }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
    {{- end }}
  template:
    metadata:
      labels:
        {{- $selector | nindent 8 }}
        {{- range $name, $value := merge (dict) $part.podLabels $values.commonLabels }}
        {{ $name }}: {{ $value | quote }}
        {{- end }}
      {{- $annotations := $part.podAnnotations }}
      {{- with include "budget-authority.secretData" $root | trim }}
      {{- $annotations = merge (dict "checksum/secret" (sha256sum .)) $annotations }}
      {{- end }}
      {{- with $annotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "budget-authority.serviceAccountName" $root | quote }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ default (include "budget-authority.neededSeconds" (list $root $component)) $part.terminationGracePeriodSeconds }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ $component | quote }}
          image: {{ include "budget-authority.image" $root | quote }}
          imagePullPolicy: {{ $values.image.pullPolicy | quote }}
          command: {{ $command | toJson }}
          env:
            {{- if $isApi }}
            - name: BUDGET_LISTEN
              value: {{ printf "%s:%d" $values.listenAddress (int64 $values.api.port) | quote }}
            {{- if $values.admin.separate }}
            - name: BUDGET_ADMIN_LISTEN
              value: {{ printf "%s:%d" $values.listenAddress (int64 $values.admin.port) | quote }}
            {{- end }}
            {{- end }}
            - name: BUDGET_METRICS_LISTEN
              value: {{ printf "%s:%d" $values.listenAddress (int64 $values.metrics.port) | quote }}
            {{- if $isApi }}
            - name: BUDGET_SHUTDOWN_DELAY_MS
              value: {{ include "budget-authority.text" $values.shutdown.delayMs | quote }}
            {{- end }}
            - name: BUDGET_SHUTDOWN_GRACE_MS
              value: {{ include "budget-authority.text" $values.shutdown.graceMs | quote }}
            {{- range $file, $_ := $secrets }}
            - name: {{ printf "BUDGET_%s_FILE" ($file | upper | replace "-" "_") }}
              value: {{ printf "/etc/budget-authority/secrets/%s" $file | quote }}
            {{- end }}
            {{- if $tls.existingSecret }}
            - name: BUDGET_REDIS_TLS_CA_FILE
              value: /etc/budget-authority/redis-tls/ca.pem
            {{- if $tls.clientCertificate }}
            - name: BUDGET_REDIS_TLS_CERT_FILE
              value: /etc/budget-authority/redis-tls/cert.pem
            - name: BUDGET_REDIS_TLS_KEY_FILE
              value: /etc/budget-authority/redis-tls/key.pem
            {{- end }}
            {{- end }}
            {{- range $name, $value := $values.config }}
            - name: {{ $name }}
              value: {{ include "budget-authority.text" $value | quote }}
            {{- end }}
            {{- with $part.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            {{- if $isApi }}
            - name: api
              containerPort: {{ $values.api.port }}
            {{- if $values.admin.separate }}
            - name: admin
              containerPort: {{ $values.admin.port }}
            {{- end }}
            {{- end }}
            - name: metrics
              containerPort: {{ $values.metrics.port }}
          livenessProbe:
            {{- with $part.livenessProbe }}
            {{- toYaml . | nindent 12 }}
            {{- else }}
            httpGet: {path: /live, port: metrics}
            periodSeconds: 10
            timeoutSeconds: 2
            {{- end }}
          readinessProbe:
            {{- with $part.readinessProbe }}
            {{- toYaml . | nindent 12 }}
            {{- else }}
            httpGet: {path: /ready, port: metrics}
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: 2
            {{- end }}
          {{- with $part.startupProbe }}
          startupProbe:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $part.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $values.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          volumeMounts:
            - name: secrets
              mountPath: /etc/budget-authority/secrets
              readOnly: true
            {{- if $tls.existingSecret }}
            - name: redis-tls
              mountPath: /etc/budget-authority/redis-tls
              readOnly: true
            {{- end }}
            {{- with $part.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: secrets
          projected:
            defaultMode: 0440
            sources:
              {{- range $file, $secret := $secrets }}
              - secret:
                  name: {{ $secret.secret | quote }}
                  items: [{key: {{ $secret.key | quote }}, path: {{ $file | quote }}}]
              {{- end }}
        {{- if $tls.existingSecret }}
        - name: redis-tls
          secret:
            secretName: {{ $tls.existingSecret | quote }}
            defaultMode: 0440
            items:
              - {key: {{ $tls.caKey | quote }}, path: ca.pem}
              {{- if $tls.clientCertificate }}
              - {key: {{ $tls.certKey | quote }}, path: cert.pem}
              - {key: {{ $tls.keyKey | quote }}, path: key.pem}
              {{- end }}
        {{- end }}
        {{- with $part.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $part.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range . }}
        - {{- toYaml . | nindent 10 }}
          {{- if not (hasKey . "labelSelector") }}
          labelSelector:
            matchLabels:
              {{- $selector | nindent 14 }}
          {{- end }}
        {{- end }}
      {{- end }}
      {{- with $part.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $part.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $part.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $part.priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
{{- end -}}
