{{/*
Placeholders of tenant types, filled as `fairlead tenant` fills them: a text that is nothing but one becomes
the parameter's value as it is; inside a longer text, and in keys, the value is written out; "$${" stands for
"${"; values are never looked into. Templates give back texts, so values travel as JSON, under "v".
*/}}

{{/* How a value is written inside a text. Context: of, called, at. */}}
{{- define "tenant.text" -}}
{{- if kindIs "string" .of -}}
{{- .of -}}
{{- else if or (kindIs "map" .of) (kindIs "slice" .of) (kindIs "invalid" .of) -}}
{{- fail (printf "%s: %s: is not a text" .called .at) -}}
{{- else -}}
{{- toJson .of -}}
{{- end -}}
{{- end -}}

{{/* The value of one placeholder. Context: of (the placeholder), values, called, at. */}}
{{- define "tenant.value" -}}
{{- if not (regexMatch "^\\$\\{[A-Za-z_][A-Za-z0-9_-]*\\}$" .of) -}}
{{- fail (printf "%s: %s: %q is not a placeholder like ${name}; for a plain ${ write $${" .called .at .of) -}}
{{- end -}}
{{- $name := trimSuffix "}" (trimPrefix "${" .of) -}}
{{- if not (hasKey .values $name) -}}
{{- fail (printf "%s: %s: the parameter %q is not given" .called .at $name) -}}
{{- end -}}
{{- dict "v" (get .values $name) | toJson -}}
{{- end -}}

{{/* A text with its placeholders written out. Context: of, values, called, at. */}}
{{- define "tenant.written" -}}
{{- $context := . -}}
{{- $pattern := "\\$\\$\\{|\\$\\{[^{}]*\\}?" -}}
{{- $found := regexFindAll $pattern .of -1 -}}
{{- range $index, $piece := regexSplit $pattern .of -1 -}}
{{- $piece -}}
{{- if lt $index (len $found) -}}
{{- $one := index $found $index -}}
{{- if eq $one "$${" -}}
{{- "${" -}}
{{- else -}}
{{- $value := get (include "tenant.value" (merge (dict "of" $one) $context) | fromJson) "v" -}}
{{- include "tenant.text" (dict "of" $value "called" $context.called "at" $context.at) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Anything with its placeholders filled, as JSON under "v". Context: of, values, called, at. */}}
{{- define "tenant.fill" -}}
{{- $context := . -}}
{{- if kindIs "string" .of -}}
{{- if regexMatch "^\\$\\{[^{}]*\\}$" .of -}}
{{- include "tenant.value" . -}}
{{- else -}}
{{- dict "v" (include "tenant.written" .) | toJson -}}
{{- end -}}
{{- else if kindIs "map" .of -}}
{{- $filled := dict -}}
{{- range $key, $value := .of -}}
{{- $at := ternary (printf "%s.%s" $context.at $key) $key (ne $context.at "") -}}
{{- $below := dict "values" $context.values "called" $context.called "at" $at -}}
{{- $known := include "tenant.written" (merge (dict "of" $key) $below) -}}
{{- if hasKey $filled $known -}}
{{- fail (printf "%s: %s: there are two members %q once placeholders are filled" $context.called $at $known) -}}
{{- end -}}
{{- $_ := set $filled $known (get (include "tenant.fill" (merge (dict "of" $value) $below) | fromJson) "v") -}}
{{- end -}}
{{- dict "v" $filled | toJson -}}
{{- else if kindIs "slice" .of -}}
{{- $filled := list -}}
{{- range $index, $value := .of -}}
{{- $below := dict "values" $context.values "called" $context.called "at" (printf "%s[%d]" $context.at $index) -}}
{{- $one := get (include "tenant.fill" (dict "of" $value | merge $below) | fromJson) "v" -}}
{{- $filled = append $filled $one -}}
{{- end -}}
{{- dict "v" $filled | toJson -}}
{{- else -}}
{{- dict "v" .of | toJson -}}
{{- end -}}
{{- end -}}

{{/* Numbers and booleans of a map written out, as JSON under "v". Context: of, called, at. */}}
{{- define "tenant.texts" -}}
{{- $context := . -}}
{{- $texts := dict -}}
{{- range $key, $value := .of -}}
{{- $at := printf "%s.%s" $context.at $key -}}
{{- $_ := set $texts $key (include "tenant.text" (dict "of" $value "called" $context.called "at" $at)) -}}
{{- end -}}
{{- dict "v" $texts | toJson -}}
{{- end -}}

{{/* Two maps, object by object; where they disagree, the second. As JSON under "v". Context: first, second. */}}
{{- define "tenant.merged" -}}
{{- $merged := deepCopy .first -}}
{{- range $key, $value := .second -}}
{{- if and (hasKey $merged $key) (kindIs "map" (get $merged $key)) (kindIs "map" $value) -}}
{{- $both := dict "first" (get $merged $key) "second" $value -}}
{{- $_ := set $merged $key (get (include "tenant.merged" $both | fromJson) "v") -}}
{{- else -}}
{{- $_ := set $merged $key $value -}}
{{- end -}}
{{- end -}}
{{- dict "v" $merged | toJson -}}
{{- end -}}
