{{/*
Loads a manifest, or a folder with its kustomization, once: appends to .state.objects what it holds, with the
namespace in every place that names it, and applies its patches. Prints nothing.
Context: root (the chart's), state (objects, seen), path.
*/}}
{{- define "fairlead.load" -}}
{{- $context := . -}}
{{- $path := clean .path -}}
{{- if not (hasKey .state.seen $path) -}}
{{- $_ := set .state.seen $path true -}}
{{- if hasSuffix ".yaml" $path -}}
{{- range include "fairlead.documents" (dict "root" .root "path" $path) | fromJsonArray -}}
{{- $_ := set $context.state "objects" (append $context.state.objects .) -}}
{{- end -}}
{{- else -}}
{{- $kustomization := include "fairlead.documents" (dict "root" .root "path" (printf "%s/kustomization.yaml" $path)) | fromJsonArray | first -}}
{{- range $kustomization.resources -}}
{{- include "fairlead.load" (dict "root" $context.root "state" $context.state "path" (printf "%s/%s" $path .)) -}}
{{- end -}}
{{- range $kustomization.patches -}}
{{- $patch := . -}}
{{- range $context.state.objects -}}
{{- if and (eq .kind $patch.target.kind) (eq .metadata.name $patch.target.name) -}}
{{- $item := . -}}
{{- range fromYamlArray $patch.patch -}}
{{- include "fairlead.add" (dict "item" $item "path" .path "value" .value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The documents of a shipped file, as a JSON list. Context: root, path. */}}
{{- define "fairlead.documents" -}}
{{- $text := .root.Files.Get (printf "files/%s" .path) -}}
{{- if not $text -}}
{{- fail (printf "the chart lacks files/%s" .path) -}}
{{- end -}}
{{- $found := list -}}
{{- range regexSplit "(?m)^---$" ($text | replace "fairlead-system" .root.Release.Namespace) -1 -}}
{{- with fromYaml . -}}
{{- $found = append $found . -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* A JSON patch's "add", in place. Prints nothing. Context: item, path, value. */}}
{{- define "fairlead.add" -}}
{{- $parts := list -}}
{{- range rest (splitList "/" .path) -}}
{{- $parts = append $parts (. | replace "~1" "/" | replace "~0" "~") -}}
{{- end -}}
{{- $holder := .item -}}
{{- $above := dict -}}
{{- $key := "" -}}
{{- range initial $parts -}}
{{- if kindIs "slice" $holder -}}
{{- $holder = index $holder (int .) -}}
{{- else -}}
{{- $above = $holder -}}
{{- $key = . -}}
{{- $holder = get $holder . -}}
{{- end -}}
{{- end -}}
{{- if eq (last $parts) "-" -}}
{{- $_ := set $above $key (append $holder .value) -}}
{{- else -}}
{{- $_ := set $holder (last $parts) .value -}}
{{- end -}}
{{- end -}}
