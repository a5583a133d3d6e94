{{/* All objects of the tenant, as a JSON list. Context: tenant, shape. */}}
{{- define "tenant.objects" -}}
{{- $tenant := .tenant -}}
{{- $shape := .shape -}}
{{- $called := printf "tenant type %s, tenant %s" $tenant.type.name $tenant.name -}}
{{- $selected := dict "matchLabels" (dict "fairlead.dev/tenant" $tenant.name) -}}
{{- $objects := list -}}
{{- if $tenant.own -}}
{{- $metadata := dict "name" $tenant.namespace "labels" $tenant.labels -}}
{{- $objects = append $objects (dict "apiVersion" "v1" "kind" "Namespace" "metadata" $metadata) -}}
{{- end -}}
{{- $metadata := dict "name" $tenant.name "namespace" $tenant.namespace "labels" $tenant.labels -}}
{{- $made := list -}}
{{- $made = append $made (dict "apiVersion" "v1" "kind" "ServiceAccount" "automountServiceAccountToken" false) -}}
{{- $made = append $made (dict "apiVersion" "v1" "kind" "ConfigMap" "data" $shape.config) -}}
{{- $data := dict -}}
{{- range $key, $value := $shape.secret -}}
{{- $_ := set $data $key (b64enc $value) -}}
{{- end -}}
{{- $made = append $made (dict "apiVersion" "v1" "kind" "Secret" "type" "Opaque" "data" $data) -}}
{{- if and $shape.quota $tenant.own -}}
{{- $made = append $made (dict "apiVersion" "v1" "kind" "ResourceQuota" "spec" (dict "hard" $shape.quota)) -}}
{{- end -}}
{{- if $shape.network -}}
{{- $spec := dict "podSelector" $selected -}}
{{- range $key, $value := $shape.network -}}{{- $_ := set $spec $key $value -}}{{- end -}}
{{- $made = append $made (dict "apiVersion" "networking.k8s.io/v1" "kind" "NetworkPolicy" "spec" $spec) -}}
{{- end -}}
{{- if $shape.disruption -}}
{{- $spec := dict "selector" $selected -}}
{{- range $key, $value := $shape.disruption -}}{{- $_ := set $spec $key $value -}}{{- end -}}
{{- $made = append $made (dict "apiVersion" "policy/v1" "kind" "PodDisruptionBudget" "spec" $spec) -}}
{{- end -}}
{{- if $shape.ports -}}
{{- $ports := list -}}
{{- range $shape.ports -}}
{{- $ports = append $ports (dict "name" .name "port" .port "targetPort" .name "protocol" .protocol) -}}
{{- end -}}
{{- $spec := dict "selector" $selected.matchLabels "ports" $ports -}}
{{- $made = append $made (dict "apiVersion" "v1" "kind" "Service" "spec" $spec) -}}
{{- end -}}
{{- $spec := dict "selector" $selected "template" (include "tenant.pods" . | fromJson) -}}
{{- if not (kindIs "invalid" (index $shape "replicas")) -}}{{- $_ := set $spec "replicas" (int64 $shape.replicas) -}}{{- end -}}
{{- if $shape.strategy -}}{{- $_ := set $spec "strategy" $shape.strategy -}}{{- end -}}
{{- $made = append $made (dict "apiVersion" "apps/v1" "kind" "Deployment" "spec" $spec) -}}
{{- range $made -}}
{{- $_ := set . "metadata" (deepCopy $metadata) -}}
{{- $objects = append $objects . -}}
{{- end -}}
{{- $further := list -}}
{{- range $index, $given := $shape.objects -}}
{{- $at := printf "objects[%d]" $index -}}
{{- if not (and $given.apiVersion $given.kind ($given.metadata | default dict).name) -}}
{{- fail (printf "%s: %s: apiVersion, kind or metadata.name is missing" $called $at) -}}
{{- end -}}
{{- if has (printf "%s/%s" $given.apiVersion $given.kind) (list "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration" "apiextensions.k8s.io/v1/CustomResourceDefinition" "rbac.authorization.k8s.io/v1/ClusterRole" "rbac.authorization.k8s.io/v1/ClusterRoleBinding" "scheduling.k8s.io/v1/PriorityClass" "storage.k8s.io/v1/CSIDriver" "storage.k8s.io/v1/CSINode" "storage.k8s.io/v1/StorageClass" "storage.k8s.io/v1/VolumeAttachment" "v1/Namespace" "v1/Node" "v1/PersistentVolume") -}}
{{- fail (printf "%s: %s.kind: %s belongs to no namespace, so to no tenant either" $called $at $given.kind) -}}
{{- end -}}
{{- $own := deepCopy $given.metadata -}}
{{- if ne ($own.namespace | default $tenant.namespace) $tenant.namespace -}}
{{- fail (printf "%s: %s.metadata.namespace: is not the tenant's, %s" $called $at $tenant.namespace) -}}
{{- end -}}
{{- $_ := set $own "namespace" $tenant.namespace -}}
{{- $texts := get (include "tenant.texts" (dict "of" ($own.labels | default dict) "called" $called "at" (printf "%s.metadata.labels" $at)) | fromJson) "v" -}}
{{- $_ := set $own "labels" (get (include "tenant.merged" (dict "first" $texts "second" $tenant.labels) | fromJson) "v") -}}
{{- $notes := get (include "tenant.texts" (dict "of" ($own.annotations | default dict) "called" $called "at" (printf "%s.metadata.annotations" $at)) | fromJson) "v" -}}
{{- range $note := list "fairlead.dev/depends-on" "fairlead.dev/further-kinds" -}}
{{- if hasKey $notes $note -}}
{{- fail (printf "%s: %s.metadata.annotations.%s: may not be said here: see dependsOn" $called $at $note) -}}
{{- end -}}
{{- end -}}
{{- $own = omit $own "annotations" -}}
{{- if $notes -}}{{- $_ := set $own "annotations" $notes -}}{{- end -}}
{{- $copy := deepCopy $given -}}
{{- $_ := set $copy "metadata" $own -}}
{{- $objects = append $objects $copy -}}
{{- $kind := printf "%s/%s" $given.apiVersion $given.kind -}}
{{- if not (has $kind (list "v1/Namespace" "v1/ServiceAccount" "v1/ConfigMap" "v1/Secret" "v1/ResourceQuota" "networking.k8s.io/v1/NetworkPolicy" "policy/v1/PodDisruptionBudget" "v1/Service" "apps/v1/Deployment")) -}}
{{- $further = append $further $kind -}}
{{- end -}}
{{- end -}}
{{- $known := list -}}
{{- range $objects -}}
{{- $ref := printf "%s/%s" .kind .metadata.name -}}
{{- if has $ref $known -}}
{{- fail (printf "%s: objects: there are two of %s" $called $ref) -}}
{{- end -}}
{{- $known = append $known $ref -}}
{{- end -}}
{{- range $ref, $needs := $shape.dependsOn | default dict -}}
{{- range prepend $needs $ref -}}
{{- if not (has . $known) -}}
{{- fail (printf "%s: dependsOn.%s: there is no %s among the objects: %s" $called $ref . (join ", " $known)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $noted := list -}}
{{- range $objects -}}
{{- $notes := (.metadata.annotations | default dict) -}}
{{- $needs := get ($shape.dependsOn | default dict) (printf "%s/%s" .kind .metadata.name) -}}
{{- if $needs -}}{{- $_ := set $notes "fairlead.dev/depends-on" (join ", " $needs) -}}{{- end -}}
{{- if and (eq .kind "ServiceAccount") (eq .metadata.name $tenant.name) $further -}}
{{- $_ := set $notes "fairlead.dev/further-kinds" (join ", " (uniq $further | sortAlpha)) -}}
{{- end -}}
{{- if $notes -}}{{- $_ := set .metadata "annotations" $notes -}}{{- end -}}
{{- $noted = append $noted . -}}
{{- end -}}
{{- toJson $noted -}}
{{- end -}}
