#!/usr/bin/env bash
# Builds Fairlead's image, loads it into a local minikube or kind cluster and installs the scheduler there.
# Every change goes through `step`, which is what makes --dry-run honest: it prints what would be run.
set -euo pipefail

usage() {
  cat <<'END'
usage: ./setup.sh [OPTION…] [NAMESPACE] [IMAGE:TAG] [PROFILE]

Build Fairlead's image, load it into a minikube or kind cluster, install the scheduler and wait for it.
Run it again after a change: what has not changed is left alone.

  NAMESPACE   where the scheduler runs             (default: fairlead-system)
  IMAGE:TAG   the image to build                   (default: fairlead:local)
  PROFILE     minikube profile or kind cluster     (default: minikube, or kind's "kind")

  --cluster minikube|kind   which one, where both are installed   (default: see below)
  --engine docker|podman    what builds the image                 (default: see below)
  --render                  print the manifests for NAMESPACE and IMAGE:TAG, and stop
  --dry-run                 print each step instead of running it
  -h, --help                this text

Cluster: the only one of the two that is installed; with both, kind when kubectl's current context begins
with "kind-", else minikube. Engine: docker when its daemon answers, else podman. kubectl always gets the
context of PROFILE, whatever the current one is.
END
}

say() { printf '%s\n' "$*"; }
fail() {
  printf 'error: %s\n' "$1" >&2
  exit "${2:-1}"
}
have() { command -v "$1" >/dev/null 2>&1; }

# Run a command, or only show it.
step() {
  if "$dry_run"; then
    printf '+'
    printf ' %q' "$@"
    printf '\n'
  else
    "$@"
  fi
}

# A manifest with the namespace (the subjects of role bindings included), the image and its id.
render() {
  local file
  for file in "$@"; do
    say "---"
    sed -e "s/fairlead-system/$namespace/g" \
      -e "s|^\( *image: \)fairlead:local$|\1$manifest_image|" \
      -e "s|^\( *fairlead.dev/image-id: \)\"\".*$|\1\"$image_id\"|" \
      "$here/deploy/$file.yaml"
  done
}

dry_run=false
render_only=false
cluster=""
engine=""
arguments=()
while (($#)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --dry-run) dry_run=true ;;
    --render) render_only=true ;;
    --cluster | --engine)
      (($# > 1)) || fail "$1 needs a value; see --help" 2
      if [[ $1 == --cluster ]]; then cluster=$2; else engine=$2; fi
      shift
      ;;
    --cluster=*) cluster=${1#*=} ;;
    --engine=*) engine=${1#*=} ;;
    -*) fail "there is no option $1; see --help" 2 ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
((${#arguments[@]} <= 3)) || fail "too many arguments: ${arguments[*]}; see --help" 2

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
namespace=${arguments[0]:-fairlead-system}
image=${arguments[1]:-fairlead:local}
profile=${arguments[2]:-}

[[ $namespace =~ ^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$ ]] ||
  fail "$namespace cannot be a namespace: use lower-case letters, digits and -" 2
[[ $image =~ ^[a-z0-9][a-z0-9._/:-]*:[A-Za-z0-9_][A-Za-z0-9_.-]*$ ]] ||
  fail "$image is not an image with a tag, such as fairlead:local" 2
[[ $image != *:latest ]] || fail "the tag latest makes a node pull the image, which is not in a registry; use another" 2
case $cluster in "" | minikube | kind) ;; *) fail "--cluster is minikube or kind, not $cluster" 2 ;; esac
case $engine in "" | docker | podman) ;; *) fail "--engine is docker or podman, not $engine" 2 ;; esac

manifest_image=$image
image_id=""
parts=(rbac configuration scheduler)
if "$render_only"; then
  # Kubernetes' own namespaces are not ours to label, nor to delete with what was rendered.
  [[ $namespace == default || $namespace == kube-* ]] || render namespace
  render "${parts[@]}"
  exit 0
fi

have kubectl || fail "kubectl is not installed: https://kubernetes.io/docs/tasks/tools/"

if [[ -z $engine ]]; then
  if have docker && docker info >/dev/null 2>&1; then
    engine=docker
  elif have podman; then
    engine=podman
  elif have docker; then
    fail "docker is installed but its daemon does not answer: start it, or install podman"
  else
    fail "neither docker nor podman is installed: one of them has to build the image"
  fi
fi
have "$engine" || fail "$engine is not installed"

if [[ -z $cluster ]]; then
  if have minikube && have kind; then
    if [[ $(kubectl config current-context 2>/dev/null) == kind-* ]]; then cluster=kind; else cluster=minikube; fi
  elif have minikube; then
    cluster=minikube
  elif have kind; then
    cluster=kind
  else
    fail "neither minikube nor kind is installed; on another cluster, push the image to its registry and apply the output of ./setup.sh --render NAMESPACE IMAGE:TAG"
  fi
fi
have "$cluster" || fail "$cluster is not installed"

if [[ $cluster == minikube ]]; then
  profile=${profile:-minikube}
  context=$profile
  create="minikube start --nodes 4 -p $profile"
else
  profile=${profile:-kind}
  context=kind-$profile
  create="kind create cluster --name $profile"
  if [[ $engine == podman ]]; then export KIND_EXPERIMENTAL_PROVIDER=podman; fi
fi
kubectl=(kubectl "--context=$context")

# Podman keeps what it builds under localhost/, and nodes look for exactly that name.
if [[ $engine == podman && ! ($image == */* && ${image%%/*} =~ [.:]|^localhost$) ]]; then
  manifest_image=localhost/$image
fi

say "Fairlead for $cluster \"$profile\": namespace $namespace, image $manifest_image, built by $engine"

if ! "$dry_run" && ! "${kubectl[@]}" get --raw=/readyz >/dev/null 2>&1; then
  fail "no cluster answers under the context $context; make one with: $create"
fi

say "1. Build the image"
step "$engine" build --tag "$manifest_image" "$here"
if ! "$dry_run"; then image_id=$("$engine" image inspect --format '{{.Id}}' "$manifest_image"); fi

say "2. Load it into the cluster's nodes"
if [[ $engine == docker && $cluster == minikube ]]; then
  step minikube --profile="$profile" image load "$manifest_image"
elif [[ $engine == docker ]]; then
  step kind load docker-image --name="$profile" "$manifest_image"
else
  folder=/tmp/fairlead-image
  if ! "$dry_run"; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
  fi
  step podman save --format=docker-archive --output="$folder/image.tar" "$manifest_image"
  if [[ $cluster == minikube ]]; then
    step minikube --profile="$profile" image load "$folder/image.tar"
  else
    step kind load image-archive --name="$profile" "$folder/image.tar"
  fi
fi

say "3. Apply the manifests"
# A namespace that is there already keeps its labels: it may hold more than Fairlead.
if "$dry_run"; then
  say "+ ${kubectl[*]} get namespace $namespace || ${kubectl[*]} apply -f deploy/namespace.yaml  # as $namespace"
  say "+ ${kubectl[*]} apply -f deploy/{rbac,configuration,scheduler}.yaml  # for $namespace and $manifest_image"
else
  "${kubectl[@]}" get namespace "$namespace" >/dev/null 2>&1 || render namespace | "${kubectl[@]}" apply -f -
  render "${parts[@]}" | "${kubectl[@]}" apply -f -
fi

say "4. Wait until the scheduler is ready"
step "${kubectl[@]}" --namespace="$namespace" rollout status deployment/fairlead --timeout=180s

cat <<END

Try next:
  kubectl --context=$context apply -f examples/priorities.yaml
  kubectl --context=$context --namespace=fairlead-priorities get pods -o wide --watch
  kubectl --context=$context --namespace=$namespace logs -l app=fairlead --follow
  kubectl --context=$context --namespace=fairlead-priorities get events --sort-by=.lastTimestamp
The examples are explained in docs/examples.md. To remove the scheduler again:
  kubectl --context=$context --namespace=$namespace delete -l app.kubernetes.io/name=fairlead \\
    deployments,poddisruptionbudgets,configmaps,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings
END
