{{/* The components that are on, as a JSON list; fails for those that exclude each other. Context: the chart's. */}}
{{- define "fairlead.on" -}}
{{- $catalog := .Files.Get "components.yaml" | fromYaml -}}
{{- $on := list -}}
{{- $all := list -}}
{{- range list "scheduler" "webhook" "extender" "rebalance" "burst" "serve" -}}
{{- $all = append $all . -}}
{{- if (get ($.Values.components | default dict) . | default dict).enabled -}}
{{- $on = append $on . -}}
{{- end -}}
{{- end -}}
{{- if not $on -}}
{{- fail (printf "components: none is on; there are: %s" (join ", " $all)) -}}
{{- end -}}
{{- range $name, $others := $catalog.instead -}}
{{- range $others -}}
{{- if and (has $name $on) (has . $on) -}}
{{- fail (printf "components: %s already does what %s does: turn one of them off" $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $on -}}
{{- end -}}

{{/* "true" when a component's setting, or that of all components, is on. Context: values, component, name. */}}
{{- define "fairlead.isOn" -}}
{{- $own := get (get .values.components .component) .name -}}
{{- if and (hasKey (get .values.components .component) .name) (not (kindIs "invalid" $own)) -}}
{{- if $own }}true{{ end -}}
{{- else if (get .values .name | default dict).enabled -}}
true
{{- end -}}
{{- end -}}

{{/* A component's own setting, else that of all, as JSON under "v"; without "v" when neither is given.
Context: values, component, name. */}}
{{- define "fairlead.setting" -}}
{{- $own := get (get .values.components .component) .name -}}
{{- if or (not (hasKey (get .values.components .component) .name)) (kindIs "invalid" $own) -}}
{{- $own = index .values .name -}}
{{- end -}}
{{- if kindIs "invalid" $own }}{}{{ else }}{{ dict "v" $own | toJson }}{{ end -}}
{{- end -}}

{{/* The component that an object is of: its Deployment or its budget. Context: the object. */}}
{{- define "fairlead.componentOf" -}}
{{- ternary "scheduler" (trimPrefix "fairlead-" .metadata.name) (eq .metadata.name "fairlead") -}}
{{- end -}}
