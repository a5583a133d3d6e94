#!/usr/bin/env bash
# Builds Fairlead's image, loads it into a local minikube or kind cluster and installs its doors there.
# Every change goes through `step`, which is what makes --dry-run honest: it prints what would be run.
set -euo pipefail

usage() {
  cat <<'END'
usage: ./setup.sh [OPTION…] [NAMESPACE] [IMAGE:TAG] [PROFILE]

Build Fairlead's image, load it into a minikube or kind cluster, install the scheduler, or whichever doors are
asked for, and wait for them. Run it again after a change: what has not changed is left alone.

  NAMESPACE   where Fairlead runs                  (default: fairlead-system)
  IMAGE:TAG   the image to build                   (default: fairlead:local)
  PROFILE     minikube profile or kind cluster     (default: minikube, or kind's "kind")

  --doors NAME,…            what to install: scheduler, webhook, extender, rebalance, burst, or serve, which is
                            several of them in one process        (default: scheduler)
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
doors=scheduler
arguments=()
while (($#)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --dry-run) dry_run=true ;;
    --render) render_only=true ;;
    --cluster | --engine | --doors)
      (($# > 1)) || fail "$1 needs a value; see --help" 2
      case $1 in
        --cluster) cluster=$2 ;;
        --engine) engine=$2 ;;
        --doors) doors=$2 ;;
      esac
      shift
      ;;
    --doors=*) doors=${1#*=} ;;
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

# The manifests of each door, in order, and the Deployments to wait for.
parts=(crds/placementledgers crds/placementpolicies policies/rbac policies/marks policies/fence)
deployments=()
IFS=, read -ra wanted <<<"$doors"
((${#wanted[@]})) || fail "--doors needs at least one door; see --help" 2
seen=,
for door in "${wanted[@]}"; do
  case $door in
    scheduler)
      parts+=(rbac configuration scheduler)
      deployments+=(fairlead)
      ;;
    serve)
      parts+=(configuration serve/rbac serve/serve)
      deployments+=(fairlead-serve)
      ;;
    webhook | extender | rebalance | burst)
      parts+=("$door/rbac" "$door/$door")
      deployments+=("fairlead-$door")
      ;;
    *) fail "--doors: there is no door \"$door\"; see --help" 2 ;;
  esac
  [[ $seen != *,$door,* ]] || fail "--doors: $door is named twice" 2
  seen+=$door,
done
for pair in serve:scheduler serve:webhook serve:rebalance burst:scheduler burst:rebalance burst:serve; do
  [[ $seen != *,${pair%:*},* || $seen != *,${pair#*:},* ]] ||
    fail "--doors: ${pair%:*} already does what ${pair#*:} does; choose one of them" 2
done

manifest_image=$image
image_id=""
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
  elif "$dry_run"; then
    engine=docker # nothing is built: this is how it would be
  elif have docker; then
    fail "docker is installed but its daemon does not answer: start it, or install podman"
  else
    fail "neither docker nor podman is installed: one of them has to build the image"
  fi
fi
"$dry_run" || have "$engine" || fail "$engine is not installed"

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

"$dry_run" || printf 'About to change the cluster of context "%s"\n' "$context" >&2

say "1. Build the image"
# To try Fairlead, a tag will do; FAIRLEAD_BASE=python:3.13-slim@sha256:... pins the base image by its digest.
step "$engine" build --build-arg "BASE=${FAIRLEAD_BASE:-python:3.13-slim}" --tag "$manifest_image" "$here"
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
  say "+ ${kubectl[*]} apply -f deploy/{$(IFS=, && printf '%s' "${parts[*]}")}.yaml  # for $namespace and $manifest_image"
else
  "${kubectl[@]}" get namespace "$namespace" >/dev/null 2>&1 || render namespace | "${kubectl[@]}" apply -f -
  render "${parts[@]}" | "${kubectl[@]}" apply -f -
fi

say "4. Wait until it is ready"
for deployment in "${deployments[@]}"; do
  if [[ $deployment == fairlead-extender ]]; then
    # Only the replica that answers is ever ready, so the rollout is never complete.
    step "${kubectl[@]}" --namespace="$namespace" wait deployment/fairlead-extender \
      --for=jsonpath='{.status.readyReplicas}' --timeout=180s
  else
    step "${kubectl[@]}" --namespace="$namespace" rollout status "deployment/$deployment" --timeout=180s
  fi
done

say ""
say "Try next:"
for door in "${wanted[@]}"; do
  case $door in
    scheduler | serve)
      say "  kubectl --context=$context apply -f examples/priorities.yaml"
      say "  kubectl --context=$context --namespace=fairlead-priorities get pods -o wide --watch"
      say "  kubectl --context=$context --namespace=fairlead-priorities get events --sort-by=.lastTimestamp"
      ;;
    webhook) say "  kubectl --context=$context apply -f examples/spot/policy.yaml -f examples/spot/workloads.yaml" ;;
    extender) say "  fairlead extender config --context=$context --kubeadm" ;;
    rebalance) say "  kubectl --context=$context get placementpolicies" ;;
    burst) say "  kubectl --context=$context apply -f examples/burst/jobs.yaml" ;;
  esac
done
for deployment in "${deployments[@]}"; do
  say "  kubectl --context=$context --namespace=$namespace logs -l app=$deployment --follow"
done
say "The examples are explained in docs/examples.md and docs/how-to. To remove Fairlead again:"
if [[ $seen == *,webhook,* || $seen == *,serve,* ]]; then
  say "  kubectl --context=$context delete mutatingwebhookconfiguration fairlead"
fi
say "  kubectl --context=$context --namespace=$namespace delete -l app.kubernetes.io/name=fairlead \\"
say "    deployments,services,poddisruptionbudgets,networkpolicies,configmaps,secrets,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
