{{/*
One rule: a setting that is given takes the place of what the manifest says, as a whole; one that is not leaves it.
`fairlead install` does the same (src/fairlead/install/rendering.py); a test compares the two.
*/}}

{{/* All objects, as a JSON list. Context: the chart's. */}}
{{- define "fairlead.objects" -}}
{{- $root := . -}}
{{- $values := .Values -}}
{{- $catalog := .Files.Get "components.yaml" | fromYaml -}}
{{- $on := include "fairlead.on" . | fromJsonArray -}}
{{- $state := dict "objects" list "seen" dict -}}
{{- range $on -}}
{{- range get $catalog.components . -}}
{{- include "fairlead.load" (dict "root" $root "state" $state "path" .) -}}
{{- end -}}
{{- end -}}
{{- range $catalog.additions -}}
{{- $component := .component -}}
{{- $wanted := has $component $on -}}
{{- range .with -}}
{{- $wanted = and $wanted (eq "true" (include "fairlead.isOn" (dict "values" $values "component" $component "name" .))) -}}
{{- end -}}
{{- range .without -}}
{{- $wanted = and $wanted (ne "true" (include "fairlead.isOn" (dict "values" $values "component" $component "name" .))) -}}
{{- end -}}
{{- if $wanted -}}
{{- include "fairlead.load" (dict "root" $root "state" $state "path" .add) -}}
{{- end -}}
{{- end -}}
{{- $found := list -}}
{{- range $state.objects -}}
{{- if eq "true" (include "fairlead.isWanted" (dict "values" $values "item" .)) -}}
{{- include "fairlead.overlay" (dict "values" $values "item" .) -}}
{{- $found = append $found . -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* "true" when an object is to be installed. Context: values, item. */}}
{{- define "fairlead.isWanted" -}}
{{- if eq .item.kind "CustomResourceDefinition" -}}
{{- .values.crds.install -}}
{{- else if eq .item.kind "NetworkPolicy" -}}
{{- .values.networkPolicy.enabled -}}
{{- else if eq .item.kind "Issuer" -}}
{{- not .values.certManager.issuerRef -}}
{{- else if eq .item.kind "PodDisruptionBudget" -}}
{{- $component := include "fairlead.componentOf" .item -}}
{{- $budget := include "fairlead.setting" (dict "values" .values "component" $component "name" "podDisruptionBudget") | fromJson -}}
{{- $replicas := include "fairlead.setting" (dict "values" .values "component" $component "name" "replicas") | fromJson -}}
{{- if hasKey $budget "v" -}}
{{- ternary $budget.v.enabled true (hasKey $budget.v "enabled") -}}
{{- else -}}
{{- /* One that keeps the only replica would keep its node from being drained. */ -}}
{{- or (not (hasKey $replicas "v")) (gt (int ($replicas.v | default 0)) 1) -}}
{{- end -}}
{{- else -}}
true
{{- end -}}
{{- end -}}

{{/* Lays the values over an object, in place. Prints nothing. Context: values, item. */}}
{{- define "fairlead.overlay" -}}
{{- $item := .item -}}
{{- $values := .values -}}
{{- include "fairlead.more" (dict "item" $item.metadata "field" "labels" "more" $values.labels) -}}
{{- include "fairlead.more" (dict "item" $item.metadata "field" "annotations" "more" $values.annotations) -}}
{{- if eq $item.kind "Deployment" -}}
{{- include "fairlead.overlayDeployment" . -}}
{{- else if eq $item.kind "PodDisruptionBudget" -}}
{{- $component := include "fairlead.componentOf" $item -}}
{{- $budget := (include "fairlead.setting" (dict "values" $values "component" $component "name" "podDisruptionBudget") | fromJson).v | default dict -}}
{{- $given := pick $budget "minAvailable" "maxUnavailable" -}}
{{- if $given -}}
{{- $_ := set $item "spec" (pick $item.spec "selector") -}}
{{- include "fairlead.more" (dict "item" $item "field" "spec" "more" $given) -}}
{{- end -}}
{{- else if and (eq $item.kind "NetworkPolicy") $values.networkPolicy.from -}}
{{- range $item.spec.ingress -}}
{{- $_ := set . "from" $values.networkPolicy.from -}}
{{- end -}}
{{- else if and (eq $item.kind "ConfigMap") $values.config $item.data -}}
{{- range $file, $text := $item.data -}}
{{- $fields := fromYaml $text -}}
{{- range $field, $value := $values.config -}}
{{- $_ := set $fields $field $value -}}
{{- end -}}
{{- $_ := set $item "data" (dict $file (printf "%s\n" (toRawJson $fields))) -}}
{{- end -}}
{{- else if and (eq $item.kind "Certificate") $values.certManager.issuerRef -}}
{{- $_ := set $item.spec "issuerRef" $values.certManager.issuerRef -}}
{{- else if eq $item.kind "ServiceMonitor" -}}
{{- include "fairlead.more" (dict "item" $item.metadata "field" "labels" "more" $values.serviceMonitor.labels) -}}
{{- if $values.serviceMonitor.interval -}}
{{- range $item.spec.endpoints -}}
{{- $_ := set . "interval" $values.serviceMonitor.interval -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "fairlead.overlayDeployment" -}}
{{- $values := .values -}}
{{- $component := include "fairlead.componentOf" .item -}}
{{- $template := .item.spec.template -}}
{{- $container := first $template.spec.containers -}}
{{- $given := dict -}}
{{- range list "replicas" "resources" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" "podLabels" "podAnnotations" -}}
{{- $setting := include "fairlead.setting" (dict "values" $values "component" $component "name" .) | fromJson -}}
{{- if hasKey $setting "v" -}}
{{- $_ := set $given . $setting.v -}}
{{- end -}}
{{- end -}}
{{- if hasKey $given "replicas" -}}
{{- $_ := set .item.spec "replicas" $given.replicas -}}
{{- end -}}
{{- range list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" -}}
{{- if hasKey $given . -}}
{{- $_ := set $template.spec . (get $given .) -}}
{{- end -}}
{{- end -}}
{{- include "fairlead.more" (dict "item" $template.metadata "field" "labels" "more" $given.podLabels) -}}
{{- include "fairlead.more" (dict "item" $template.metadata "field" "annotations" "more" $given.podAnnotations) -}}
{{- $_ := set $container "image" (include "fairlead.image" $values.image) -}}
{{- $_ := set $container "imagePullPolicy" $values.image.pullPolicy -}}
{{- if $values.image.pullSecrets -}}
{{- $_ := set $template.spec "imagePullSecrets" $values.image.pullSecrets -}}
{{- end -}}
{{- if hasKey $given "resources" -}}
{{- $_ := set $container "resources" $given.resources -}}
{{- end -}}
{{- $_ := set $container "args" (concat $container.args ((get $values.components $component).args | default list)) -}}
{{- end -}}

{{/* Context: the image's values. */}}
{{- define "fairlead.image" -}}
{{- .repository -}}
{{- if .digest }}@{{ .digest }}{{ else if .tag }}:{{ .tag }}{{ end -}}
{{- end -}}

{{/* Adds to a mapping in a field, in place. Prints nothing. Context: item, field, more. */}}
{{- define "fairlead.more" -}}
{{- if .more -}}
{{- $have := get .item .field | default dict -}}
{{- range $key, $value := .more -}}
{{- $_ := set $have $key $value -}}
{{- end -}}
{{- $_ := set .item .field $have -}}
{{- end -}}
{{- end -}}
