{{/* The tenant: its type as the file has it, its name and place. As JSON. Context: the chart's. */}}
{{- define "tenant.tenant" -}}
{{- $source := ternary "values.types" "files/tenant-types.yaml" (ne .Values.types "") -}}
{{- $text := .Values.types | default (.Files.Get "files/tenant-types.yaml") -}}
{{- $read := fromYaml $text -}}
{{- if hasKey $read "Error" -}}
{{- fail (printf "%s: %s" $source $read.Error) -}}
{{- end -}}
{{- if or (ne ($read.apiVersion | default "") "fairlead.dev/v1alpha1") (ne ($read.kind | default "") "TenantTypes") -}}
{{- fail (printf "%s: is not apiVersion fairlead.dev/v1alpha1, kind TenantTypes" $source) -}}
{{- end -}}
{{- range $field, $_ := $read -}}
{{- if not (has $field (list "apiVersion" "kind" "types")) -}}
{{- fail (printf "%s: %s: there is no such field" $source $field) -}}
{{- end -}}
{{- end -}}
{{- $known := list -}}
{{- $type := dict -}}
{{- $wanted := .Values.type -}}
{{- range $index, $_ := $read.types -}}
{{- if not (kindIs "string" .name) -}}
{{- fail (printf "%s: types[%d].name: is missing" $source $index) -}}
{{- end -}}
{{- include "tenant.checkName" (dict "of" .name "called" (printf "%s: tenant type" $source)) -}}
{{- if has .name $known -}}
{{- fail (printf "%s: there are two tenant types %q" $source .name) -}}
{{- end -}}
{{- include "tenant.checkType" (dict "type" . "called" (printf "%s: tenant type %s" $source .name)) -}}
{{- $known = append $known .name -}}
{{- if eq .name $wanted -}}{{- $type = . -}}{{- end -}}
{{- end -}}
{{- if not $type -}}
{{- fail (printf "there is no tenant type %q; there are: %s" $wanted (join ", " $known)) -}}
{{- end -}}
{{- $name := .Values.name | default .Release.Name -}}
{{- include "tenant.checkName" (dict "of" $name "called" "tenant") -}}
{{- $own := or .Values.namespacePerTenant (get $type "namespace") -}}
{{- $namespace := .Release.Namespace -}}
{{- if and $own (kindIs "string" $own) -}}
{{- $values := dict "name" $name "type" $wanted -}}
{{- $namespace = include "tenant.written" (dict "of" $own "values" $values "called" $source "at" "namespace") -}}
{{- else if $own -}}
{{- $namespace = $name -}}
{{- end -}}
{{- if $own -}}
{{- include "tenant.checkName" (dict "of" $namespace "called" (printf "tenant %s: namespace" $name)) -}}
{{- end -}}
{{- $labels := dict "app.kubernetes.io/managed-by" "fairlead" "fairlead.dev/tenant" $name -}}
{{- $_ := set $labels "fairlead.dev/tenant-type" $wanted -}}
{{- dict "name" $name "namespace" $namespace "own" (not (not $own)) "type" $type "labels" $labels | toJson -}}
{{- end -}}

{{/* Fields and parameters of a type, whichever is used. Context: type, called. */}}
{{- define "tenant.checkType" -}}
{{- $known := list "image" "replicas" "nodeLabels" "tolerations" "exclusive" "schedulerName" "resources" "ports" "config" "secret" "quota" "network" "disruption" "strategy" "pod" "container" "objects" "dependsOn" -}}
{{- $called := .called -}}
{{- range $field, $_ := omit .type "name" "parameters" "namespace" -}}
{{- if not (has $field $known) -}}
{{- fail (printf "%s: %s: there is no such field; there are: %s" $called $field (join ", " (sortAlpha $known))) -}}
{{- end -}}
{{- end -}}
{{- $namespace := get .type "namespace" -}}
{{- if not (or (not $namespace) (kindIs "bool" $namespace) (kindIs "string" $namespace)) -}}
{{- fail (printf "%s: namespace: is neither true, false nor a name" $called) -}}
{{- end -}}
{{- range $name, $_ := .type.parameters -}}
{{- if not (regexMatch "^[A-Za-z_][A-Za-z0-9_-]*$" $name) -}}
{{- fail (printf "%s: parameters.%s: is not a parameter's name: letters, digits, _ and -" $called $name) -}}
{{- end -}}
{{- if has $name (list "name" "namespace" "type") -}}
{{- fail (printf "%s: parameters.%s: every tenant has this parameter by itself" $called $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "tenant.checkName" -}}
{{- if or (gt (len .of) 63) (not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" .of)) -}}
{{- fail (printf "%s %q: names are of lower case letters, digits and -, begin with a letter, end with a letter or digit and have at most 63 characters" .called .of) -}}
{{- end -}}
{{- end -}}

{{/* The value of every parameter, as JSON. Context: tenant, given. */}}
{{- define "tenant.parameters" -}}
{{- $tenant := .tenant -}}
{{- $given := .given -}}
{{- $defaults := deepCopy ($tenant.type.parameters | default dict) -}}
{{- $template := omit $tenant.type "name" "parameters" "namespace" -}}
{{- $builtIn := dict "name" $tenant.name "namespace" $tenant.namespace "type" $tenant.type.name -}}
{{- range regexFindAll "\\$\\$\\{|\\$\\{[A-Za-z_][A-Za-z0-9_-]*\\}" (toJson $template) -1 -}}
{{- $name := trimSuffix "}" (trimPrefix "${" .) -}}
{{- if and (ne . "$${") (not (hasKey $builtIn $name)) (not (hasKey $defaults $name)) -}}
{{- $_ := set $defaults $name nil -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := $given -}}
{{- if hasKey $builtIn $name -}}
{{- fail (printf "tenant %s: parameter %q comes from the tenant itself" $tenant.name $name) -}}
{{- end -}}
{{- if not (hasKey $defaults $name) -}}
{{- fail (printf "tenant %s: type %s has no parameter %q; there are: %s" $tenant.name $tenant.type.name $name (join ", " (keys $defaults | sortAlpha))) -}}
{{- end -}}
{{- end -}}
{{- $values := deepCopy $builtIn -}}
{{- range $name, $default := $defaults -}}
{{- $said := index $given $name -}}
{{- if and (kindIs "invalid" $said) (kindIs "invalid" $default) -}}
{{- fail (printf "tenant %s: type %s needs the parameter %q: --set parameters.%s=VALUE" $tenant.name $tenant.type.name $name $name) -}}
{{- end -}}
{{- $at := printf "parameters.%s" $name -}}
{{- $filling := dict "of" $default "values" $builtIn "called" (printf "tenant type %s" $tenant.type.name) "at" $at -}}
{{- $value := get (include "tenant.fill" $filling | fromJson) "v" -}}
{{- if not (kindIs "invalid" $said) -}}
{{- $called := printf "tenant %s: parameter %q of type %s" $tenant.name $name $tenant.type.name -}}
{{- $value = get (include "tenant.like" (dict "of" $said "default" $value "called" $called) | fromJson) "v" -}}
{{- end -}}
{{- $_ := set $values $name $value -}}
{{- end -}}
{{- toJson $values -}}
{{- end -}}

{{/* A given value, of the kind that the default is of; as JSON under "v". Context: of, default, called. */}}
{{- define "tenant.like" -}}
{{- if kindIs "bool" .default -}}
{{- if not (has (toString .of) (list "true" "false")) -}}
{{- fail (printf "%s: %v is neither true nor false" .called .of) -}}
{{- end -}}
{{- dict "v" (eq (toString .of) "true") | toJson -}}
{{- else if or (kindIs "float64" .default) (kindIs "int64" .default) (kindIs "int" .default) -}}
{{- $text := ternary .of (toJson .of) (kindIs "string" .of) -}}
{{- $whole := eq (floor .default) (float64 .default) -}}
{{- if not (regexMatch (ternary "^-?[0-9]+$" "^-?[0-9]+(\\.[0-9]+)?$" $whole) $text) -}}
{{- fail (printf "%s: %s is not %s" .called $text (ternary "a whole number" "a number" $whole)) -}}
{{- end -}}
{{- dict "v" (ternary (int64 $text) (float64 $text) $whole) | toJson -}}
{{- else if kindIs "map" .default -}}
{{- if not (kindIs "map" .of) -}}
{{- fail (printf "%s: is an object" .called) -}}
{{- end -}}
{{- include "tenant.merged" (dict "first" .default "second" .of) -}}
{{- else if kindIs "slice" .default -}}
{{- if not (kindIs "slice" .of) -}}
{{- fail (printf "%s: is a list; give it in a values file" .called) -}}
{{- end -}}
{{- dict "v" .of | toJson -}}
{{- else -}}
{{- dict "v" (include "tenant.text" (dict "of" .of "called" .called "at" "value")) | toJson -}}
{{- end -}}
{{- end -}}

{{/* What the tenant's objects are made from: its type, filled. As JSON. Context: tenant, given. */}}
{{- define "tenant.shape" -}}
{{- $type := .tenant.type -}}
{{- $called := printf "tenant type %s, tenant %s" $type.name .tenant.name -}}
{{- $values := include "tenant.parameters" . | fromJson -}}
{{- $template := omit $type "name" "parameters" "namespace" -}}
{{- $shape := get (include "tenant.fill" (dict "of" $template "values" $values "called" $called "at" "") | fromJson) "v" -}}
{{- if not $shape.image -}}
{{- fail (printf "%s: image: is missing" $called) -}}
{{- end -}}
{{- if not (kindIs "string" $shape.image) -}}
{{- fail (printf "%s: image: is not a text" $called) -}}
{{- end -}}
{{- if not (or (kindIs "invalid" (index $shape "replicas")) (regexMatch "^-?[0-9]+$" (ternary $shape.replicas (toJson $shape.replicas) (kindIs "string" $shape.replicas)))) -}}
{{- fail (printf "%s: replicas: %v is not a whole number" $called $shape.replicas) -}}
{{- end -}}
{{- if and (hasKey $shape "exclusive") (not (has (lower (toString $shape.exclusive)) (list "true" "false" "1" "0"))) -}}
{{- fail (printf "%s: exclusive: %v is neither true nor false" $called $shape.exclusive) -}}
{{- end -}}
{{- if kindIs "invalid" (index $shape "disruption") -}}
{{- $_ := set $shape "disruption" (dict "maxUnavailable" 1) -}}
{{- end -}}
{{- if not (hasKey $shape "replicas") -}}
{{- $_ := set $shape "replicas" 1 -}}
{{- end -}}
{{- $_ := set $shape "exclusive" (has (lower (toString $shape.exclusive)) (list "true" "1")) -}}
{{- $ports := list -}}
{{- range $shape.ports -}}
{{- $port := int64 .port -}}
{{- $name := .name | default (printf "port-%d" $port) -}}
{{- $target := int64 (.targetPort | default $port) -}}
{{- $ports = append $ports (dict "name" $name "port" $port "targetPort" $target "protocol" (.protocol | default "TCP")) -}}
{{- end -}}
{{- $_ := set $shape "ports" $ports -}}
{{- range $field := list "config" "secret" "quota" "nodeLabels" -}}
{{- $texts := dict "of" (get $shape $field | default dict) "called" $called "at" $field -}}
{{- $_ := set $shape $field (get (include "tenant.texts" $texts | fromJson) "v") -}}
{{- end -}}
{{- toJson $shape -}}
{{- end -}}
