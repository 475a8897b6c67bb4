{{/* Names.  A release called hami-hub has the short ones: hami-scheduler, hami-device-plugin. */}}
{{- define "hami.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "hami.prefix" -}}
{{- $full := include "hami.fullname" . -}}
{{- eq $full "hami-hub" | ternary "hami" $full -}}
{{- end }}

{{- define "hami.scheduler" -}}{{ include "hami.prefix" . }}-scheduler{{- end }}
{{- define "hami.devicePlugin" -}}{{ include "hami.prefix" . }}-device-plugin{{- end }}
{{- define "hami.config" -}}{{ include "hami.fullname" . }}-config{{- end }}
{{- define "hami.certs" -}}{{ include "hami.fullname" . }}-certs{{- end }}
{{- define "hami.inventoryReader" -}}{{ include "hami.fullname" . }}-inventory-reader{{- end }}
{{- define "hami.schedulerUser" -}}system:serviceaccount:{{ .Release.Namespace }}:{{ include "hami.scheduler" . }}{{- end }}
{{- define "hami.devicePluginUser" -}}system:serviceaccount:{{ .Release.Namespace }}:{{ include "hami.devicePlugin" . }}{{- end }}

{{/* Where the certificates come from: a Secret that the scheduler fills by itself, or one of cert-manager. */}}
{{- define "hami.certificateSecret" -}}
{{- .Values.scheduler.certManager.enabled | ternary (printf "%s-tls" (include "hami.scheduler" .)) (include "hami.certs" .) -}}
{{- end }}

{{/* selector, labels: called with (list . "component") */}}
{{- define "hami.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "hami.labels" -}}
{{- $root := index . 0 -}}
{{ include "hami.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.global.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* metadata of an object: called with (list . "component" "name"), and its namespace as a fourth unless
     cluster-wide.  Labels come last, so that more may follow. */}}
{{- define "hami.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 2 }}
{{- if gt (len .) 3 }}
namespace: {{ index . 3 }}
{{- end }}
{{- with $root.Values.global.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- include "hami.labels" . | nindent 2 }}
{{- end }}

{{/* image of a daemon: called with (list . image) */}}
{{- define "hami.image" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}
{{- $registry := default $root.Values.global.imageRegistry $image.registry -}}
{{- $tag := coalesce $image.tag $root.Values.global.imageTag $root.Chart.AppVersion -}}
{{- empty $registry | ternary "" (printf "%s/" $registry) }}{{ $image.repository }}:{{ $tag }}
{{- end }}

{{/* kube-scheduler has the version of the cluster unless a value says another; a provider's suffix is cut off */}}
{{- define "hami.kubeSchedulerImage" -}}
{{- $values := .Values.scheduler.kubeScheduler -}}
{{- $tag := default (regexFind "^v[0-9]+[.][0-9]+[.][0-9]+" .Capabilities.KubeVersion.Version) $values.imageTag -}}
{{- $registry := default $values.image.registry .Values.global.imageRegistry -}}
{{- empty $registry | ternary "" (printf "%s/" $registry) }}{{ $values.image.repository }}:{{ $tag }}
{{- end }}

{{/* the five resources, as a JSON list */}}
{{- define "hami.resourceNames" -}}
{{- $v := .Values -}}
{{- list $v.resourceName $v.resourceMem $v.resourceMemPercentage $v.resourceCores $v.resourcePriority | toJson -}}
{{- end }}

{{/* a selector as text: a=b,c=d */}}
{{- define "hami.selectorText" -}}
{{- $parts := list -}}
{{- range $key, $value := . -}}{{- $parts = append $parts (printf "%s=%s" $key (toString $value)) -}}{{- end -}}
{{- join "," $parts -}}
{{- end }}

{{/* every container: nothing that it doesn't need */}}
{{- define "hami.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* the extender's flags */}}
{{- define "hami.extenderArgs" -}}
- --config=/etc/hami/config.yaml
- --service={{ include "hami.scheduler" . }}
- --webhook={{ include "hami.fullname" . }}
- --config-map={{ include "hami.fullname" . }}
{{- if .Values.scheduler.certManager.enabled }}
- --tls-folder=/etc/hami-tls
{{- else }}
- --secret={{ include "hami.certs" . }}
{{- end }}
{{- end }}
