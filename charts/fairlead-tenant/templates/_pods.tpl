{{/* The pod template: where pods may go, said so that every scheduler and autoscaler understands. As JSON. Context: tenant, shape. */}}
{{- define "tenant.pods" -}}
{{- $tenant := .tenant -}}
{{- $shape := .shape -}}
{{- $called := printf "tenant type %s, tenant %s" $tenant.type.name $tenant.name -}}
{{- include "tenant.reserved" (dict "of" ($shape.pod | default dict) "fields" (list "containers" "nodeSelector" "tolerations" "schedulerName" "serviceAccountName") "called" $called "at" "pod") -}}
{{- include "tenant.reserved" (dict "of" ($shape.container | default dict) "fields" (list "name" "image" "resources" "ports" "envFrom") "called" $called "at" "container") -}}
{{- $container := dict "name" "main" "image" $shape.image -}}
{{- if $shape.resources -}}{{- $_ := set $container "resources" $shape.resources -}}{{- end -}}
{{- if $shape.ports -}}
{{- $ports := list -}}
{{- range $shape.ports -}}
{{- $ports = append $ports (dict "name" .name "containerPort" .targetPort "protocol" .protocol) -}}
{{- end -}}
{{- $_ := set $container "ports" $ports -}}
{{- end -}}
{{- $_ := set $container "envFrom" (list (dict "configMapRef" (dict "name" $tenant.name)) (dict "secretRef" (dict "name" $tenant.name))) -}}
{{- $container = get (include "tenant.merged" (dict "first" $container "second" ($shape.container | default dict)) | fromJson) "v" -}}
{{- $spec := dict "serviceAccountName" $tenant.name "containers" (list $container) -}}
{{- if $shape.schedulerName -}}{{- $_ := set $spec "schedulerName" $shape.schedulerName -}}{{- end -}}
{{- if $shape.nodeLabels -}}{{- $_ := set $spec "nodeSelector" $shape.nodeLabels -}}{{- end -}}
{{- if $shape.tolerations -}}
{{- $tolerations := list -}}
{{- range $index, $said := $shape.tolerations -}}
{{- $one := include "tenant.toleration" (dict "of" $said "called" $called "at" (printf "tolerations[%d]" $index)) | fromJson -}}
{{- $tolerations = append $tolerations $one -}}
{{- end -}}
{{- $_ := set $spec "tolerations" $tolerations -}}
{{- end -}}
{{- $spec = get (include "tenant.merged" (dict "first" $spec "second" ($shape.pod | default dict)) | fromJson) "v" -}}
{{- $lines := "" -}}
{{- range $key := keys $shape.config | sortAlpha -}}
{{- $lines = printf "%s%s=%s\n" $lines $key (get $shape.config $key) -}}
{{- end -}}
{{- $metadata := dict "labels" (deepCopy $tenant.labels) "annotations" (dict "fairlead.dev/config-checksum" (sha256sum $lines)) -}}
{{- if $shape.exclusive -}}
{{- $_ := set $metadata.annotations "fairlead.dev/capacity" "exclusive" -}}
{{- $_ := set $metadata.labels "fairlead.dev/exclusive" "true" -}}
{{- $term := dict "labelSelector" (dict "matchExpressions" (list (dict "key" "fairlead.dev/exclusive" "operator" "Exists"))) "namespaceSelector" dict "topologyKey" "kubernetes.io/hostname" -}}
{{- $affinity := $spec.affinity | default dict -}}
{{- $others := get $affinity "podAntiAffinity" | default dict -}}
{{- $have := get $others "requiredDuringSchedulingIgnoredDuringExecution" | default list -}}
{{- if not (has $term $have) -}}
{{- $_ := set $others "requiredDuringSchedulingIgnoredDuringExecution" (append $have $term) -}}
{{- end -}}
{{- $_ := set $affinity "podAntiAffinity" $others -}}
{{- $_ := set $spec "affinity" $affinity -}}
{{- end -}}
{{- dict "metadata" $metadata "spec" $spec | toJson -}}
{{- end -}}

{{- define "tenant.reserved" -}}
{{- $context := . -}}
{{- range .fields -}}
{{- if hasKey $context.of . -}}
{{- fail (printf "%s: %s.%s: may not be said here: it is the tenant's, or has a field of its own" $context.called $context.at .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A toleration, given as an object or as the taint that is tolerated. As JSON. Context: of, called, at. */}}
{{- define "tenant.toleration" -}}
{{- if kindIs "map" .of -}}
{{- $kept := dict -}}
{{- range $field, $_ := .of -}}
{{- if not (has $field (list "key" "operator" "value" "effect" "tolerationSeconds")) -}}
{{- fail (printf "%s: %s.%s: there is no such field" $.called $.at $field) -}}
{{- end -}}
{{- end -}}
{{- if not (has (.of.effect | default "") (list "" "NoSchedule" "PreferNoSchedule" "NoExecute")) -}}
{{- fail (printf "%s: %s.effect: %q is none of NoSchedule, PreferNoSchedule, NoExecute" .called .at .of.effect) -}}
{{- end -}}
{{- if not (has (.of.operator | default "") (list "" "Equal" "Exists")) -}}
{{- fail (printf "%s: %s.operator: %q is neither Equal nor Exists" .called .at .of.operator) -}}
{{- end -}}
{{- range $field := list "key" "operator" "value" "effect" "tolerationSeconds" -}}
{{- $value := get $.of $field -}}
{{- if and (hasKey $.of $field) (not (kindIs "invalid" $value)) (ne (toString $value) "") -}}
{{- $_ := set $kept $field $value -}}
{{- end -}}
{{- end -}}
{{- toJson $kept -}}
{{- else if regexMatch "^[^=]+=.*:(NoSchedule|PreferNoSchedule|NoExecute)$" .of -}}
{{- $effect := regexFind "[A-Za-z]+$" .of -}}
{{- $taint := trimSuffix (printf ":%s" $effect) .of -}}
{{- $key := regexFind "^[^=]+" $taint -}}
{{- dict "key" $key "operator" "Equal" "value" (trimPrefix (printf "%s=" $key) $taint) "effect" $effect | toJson -}}
{{- else if regexMatch "^[^=]+:(NoSchedule|PreferNoSchedule|NoExecute)$" .of -}}
{{- $effect := regexFind "[A-Za-z]+$" .of -}}
{{- dict "key" (trimSuffix (printf ":%s" $effect) .of) "operator" "Exists" "effect" $effect | toJson -}}
{{- else -}}
{{- fail (printf "%s: %s: %q is not a taint like key=value:Effect, with one of NoSchedule, PreferNoSchedule, NoExecute" .called .at .of) -}}
{{- end -}}
{{- end -}}
