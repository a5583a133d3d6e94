"""What a person does with kubectl, as data: the same story is told to both clusters.

A step is a command line; ``{f}`` is the folder with the story's manifests and ``{ns}`` the story's
namespace. A story ends with the objects that are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["STORIES", "Story"]


@dataclass(frozen=True, slots=True)
class Story:
    """Steps in order, then the objects (kubectl get's arguments) that must be equal on both clusters.

    `setup` steps must succeed and are not compared; they bring the cluster to where the story begins.
    """

    name: str
    steps: tuple[str, ...]
    objects: tuple[str, ...] = ()
    manifests: dict[str, str] = field(default_factory=dict)
    setup: tuple[str, ...] = ()


POD = """
apiVersion: v1
kind: Pod
metadata: {name: solo, labels: {app: solo}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
    ports: [{containerPort: 80}]
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: main, image: "registry.k8s.io/pause:3.10", env: [{name: A, value: "1"}, {name: B, value: "2"}]}
"""

# The same Deployment after an edit: one container changed, one variable gone, a label added.
DEPLOYMENT_EDITED = (
    DEPLOYMENT.replace(', {name: B, value: "2"}', "")
    .replace(
        "labels: {app: web}}\nspec:\n  replicas: 2",
        "labels: {app: web, edited: 'yes'}}\nspec:\n  replicas: 3",
    )
    .replace('pause:3.10"', 'pause:3.9"')
)

CONFIGMAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, annotations: {note: first}}
data: {a: "1", b: "2"}
"""
CONFIGMAP_EDITED = CONFIGMAP.replace('b: "2"', 'c: "3"').replace("note: first", "note: second")

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80}]}
"""

BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"""

STATEFUL = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "registry.k8s.io/pause:3.10"}]
"""

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  completions: 2
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "registry.k8s.io/pause:3.10"}]
"""

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sprockets.tests.fairlead.dev}
spec:
  group: tests.fairlead.dev
  names: {plural: sprockets, singular: sprocket, kind: Sprocket, shortNames: [spr]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    additionalPrinterColumns: [{name: Size, type: string, jsonPath: .spec.size}]
"""
SPROCKET = """
apiVersion: tests.fairlead.dev/v1
kind: Sprocket
metadata: {name: one}
spec: {size: large}
"""

_RUNNING = "wait -n {ns} --for=condition=Ready pod --all --timeout=60s"
# Also between two templates: each is a revision only if the controller sees it before the next one.
_ROLLED_OUT = "rollout status -n {ns} deployment/web --timeout=60s"

STORIES = (
    Story(
        "create",
        (
            "create -n {ns} -f {f}/pod.yaml",
            "create -n {ns} -f {f}/pod.yaml",  # AlreadyExists
            "create -n {ns} -f {f}/settings.yaml --dry-run=server",
            "get -n {ns} configmap settings",  # a dry run leaves nothing
            "create configmap -n {ns} made --from-literal=k=v",
            "create -n {ns} -f {f}/missing.yaml",
            "create namespace {ns}",
            "create -n {ns}-nowhere -f {f}/pod.yaml",
        ),
        ("pod -n {ns} solo", "configmap -n {ns} made"),
        {"pod.yaml": POD, "settings.yaml": CONFIGMAP},
    ),
    Story(
        "apply",
        (
            "apply -n {ns} -f {f}/a.yaml",
            "apply -n {ns} -f {f}/a.yaml",
            _ROLLED_OUT,
            "apply -n {ns} -f {f}/b.yaml",
            "apply -n {ns} -f {f}/b.yaml",
            "diff -n {ns} -f {f}/b.yaml",
            "apply -n {ns} -f {f}/settings.yaml",
            "apply -n {ns} -f {f}/settings-b.yaml",
            _ROLLED_OUT,
        ),
        ("deployment -n {ns} web", "configmap -n {ns} settings"),
        {
            "a.yaml": DEPLOYMENT,
            "b.yaml": DEPLOYMENT_EDITED,
            "settings.yaml": CONFIGMAP,
            "settings-b.yaml": CONFIGMAP_EDITED,
        },
    ),
    Story(
        "apply --server-side",
        (
            "apply -n {ns} --server-side -f {f}/settings.yaml",
            "apply -n {ns} --server-side -f {f}/settings-b.yaml",
            "apply -n {ns} --server-side -f {f}/settings-b.yaml",
            "apply -n {ns} --server-side -f {f}/a.yaml",
            _ROLLED_OUT,
            "apply -n {ns} --server-side -f {f}/b.yaml",
            _ROLLED_OUT,
        ),
        ("configmap -n {ns} settings", "deployment -n {ns} web"),
        {
            "a.yaml": DEPLOYMENT,
            "b.yaml": DEPLOYMENT_EDITED,
            "settings.yaml": CONFIGMAP,
            "settings-b.yaml": CONFIGMAP_EDITED,
        },
    ),
    Story(
        "get",
        (
            "get -n {ns} pods",
            "get -n {ns} pods -o wide",
            "get -n {ns} pods -o name",
            "get -n {ns} pods --no-headers",
            "get -n {ns} pods -l app=solo --show-labels",
            "get -n {ns} pods -l app=nothing",
            "get -n {ns} pods --field-selector=status.phase=Running",
            "get -n {ns} pods --field-selector=spec.bogus=1",
            "get -n {ns} pod solo -o jsonpath={{.status.phase}}",
            "get -n {ns} pod solo -o yaml",
            "get -n {ns} pod solo -o json",
            "get -n {ns} pod nobody",
            "get -n {ns} nonsense",
            "get -n {ns} all",
            "get -n {ns} deployments,replicasets -o wide",
            "get -n {ns} services -o wide",
            "get -n {ns} pdb",
            "get -n {ns} configmap settings",
            "get nodes",
            "get nodes -o wide",
            "get nodes --show-labels",
            "get namespace {ns}",
            "get -n {ns} deployment web -o yaml",
            "get --raw /api/v1/namespaces/{ns}/configmaps/settings",
            "get --raw /livez",
            "api-versions",
            "get priorityclasses",
        ),
        (),
        {
            "pod.yaml": POD,
            "web.yaml": DEPLOYMENT,
            "service.yaml": SERVICE,
            "budget.yaml": BUDGET,
            "settings.yaml": CONFIGMAP,
        },
        (
            "apply -n {ns} -f {f}",
            _ROLLED_OUT,
            _RUNNING,
            "wait -n {ns} pdb/web --for=jsonpath={{.status.currentHealthy}}=2 --timeout=60s",
        ),
    ),
    Story(
        "get custom resources",
        (
            "apply -f {f}/1-crd.yaml",
            "wait --for=condition=Established crd/sprockets.tests.fairlead.dev --timeout=30s",
            "apply -n {ns} -f {f}/2-sprocket.yaml",
            "get -n {ns} sprockets",
            "get -n {ns} spr one -o json",
            'patch -n {ns} sprocket one --type=merge -p {{"spec":{{"size":"small"}}}}',
            "get -n {ns} sprockets",
            "delete -n {ns} sprocket one",
            "delete crd sprockets.tests.fairlead.dev",
        ),
        (),
        {"1-crd.yaml": CRD, "2-sprocket.yaml": SPROCKET},
    ),
    Story(
        "describe",
        (
            "describe -n {ns} pod solo",
            "describe -n {ns} deployment web",
            "describe -n {ns} pdb web",
            "describe node {node}",
            "describe -n {ns} pod nobody",
        ),
        (),
        {"pod.yaml": POD, "web.yaml": DEPLOYMENT, "budget.yaml": BUDGET},
        ("apply -n {ns} -f {f}", _ROLLED_OUT, _RUNNING),
    ),
    Story(
        "label and annotate",
        (
            "label -n {ns} pod solo tier=front",
            "label -n {ns} pod solo tier=back",  # refused without --overwrite
            "label -n {ns} pod solo tier=back --overwrite",
            "label -n {ns} pod solo app-",
            "label -n {ns} pod solo bad/label/key=x",
            "annotate -n {ns} pod solo note=hello",
            "annotate -n {ns} pod solo note-",
            "annotate -n {ns} pod solo kept='a b' --overwrite",
            "label -n {ns} pods --all everywhere=yes",
            "label -n {ns} pod nobody a=b",
        ),
        ("pod -n {ns} solo",),
        {"pod.yaml": POD},
        ("create -n {ns} -f {f}/pod.yaml", _RUNNING),
    ),
    Story(
        "taint, cordon and drain",
        (
            "taint node {node} size=large:NoSchedule",
            "taint node {node} size=large:NoSchedule",  # already there
            "taint node {node} size=small:NoSchedule --overwrite",
            "taint node {node} size:NoSchedule-",
            "taint node {node} size:NoSchedule-",  # not found
            "cordon {node}",
            "cordon {node}",
            "get node {node}",
            "uncordon {node}",
            "drain {node} --timeout=60s",  # refused: a bare pod is there
            "drain {node} --force --timeout=60s",
            "get -n {ns} pods -o name --field-selector=spec.nodeName={node}",
            "uncordon {node}",
        ),
        ("node {node}",),
        {"pod.yaml": POD.replace("spec:", "spec:\n  nodeName: {node}", 1)},
        ("create -n {ns} -f {f}/pod.yaml", _RUNNING),
    ),
    Story(
        "drain stops at a budget",
        (
            "drain {node} --force --timeout=2s --skip-wait-for-delete-timeout=1 --pod-selector=app=guarded",
            "uncordon {node}",
        ),
        ("pod -n {ns} solo",),
        {
            "pod.yaml": POD.replace("app: solo", "app: guarded").replace(
                "spec:", "spec:\n  nodeName: {node}", 1
            ),
            "budget.yaml": BUDGET.replace("app: web", "app: guarded"),
        },
        (
            "create -n {ns} -f {f}",
            _RUNNING,
            "wait -n {ns} pdb/web --for=jsonpath={{.status.currentHealthy}}=1 --timeout=60s",
        ),
    ),
    Story(
        "scale and roll out",
        (
            "apply -n {ns} -f {f}/a.yaml",
            _ROLLED_OUT,
            "scale -n {ns} deployment/web --replicas=4",
            _ROLLED_OUT,
            "get -n {ns} deployment web",
            "scale -n {ns} deployment/web --replicas=1 --current-replicas=9",  # refused
            "scale -n {ns} deployment/web --replicas=1",
            _ROLLED_OUT,
            "set image -n {ns} deployment/web main=registry.k8s.io/pause:3.9",
            _ROLLED_OUT,
            "rollout history -n {ns} deployment/web",
            "rollout undo -n {ns} deployment/web",
            _ROLLED_OUT,
            "rollout restart -n {ns} deployment/web",
            _ROLLED_OUT,
            "rollout pause -n {ns} deployment/web",
            "rollout resume -n {ns} deployment/web",
            "scale -n {ns} deployment/nobody --replicas=1",
            "wait -n {ns} deployment/web --for=jsonpath={{.status.replicas}}=1 --timeout=60s",
        ),
        ("deployment -n {ns} web",),
        {"a.yaml": DEPLOYMENT},
    ),
    Story(
        "stateful sets and jobs",
        (
            "apply -n {ns} -f {f}",
            "rollout status -n {ns} statefulset/db --timeout=60s",
            "wait -n {ns} job/once --for=condition=Complete --timeout=60s",
            "get -n {ns} statefulsets",
            "get -n {ns} jobs",
            "get -n {ns} pods -l app=db",
            "scale -n {ns} statefulset/db --replicas=1",
            "wait -n {ns} --for=delete pod/db-1 --timeout=60s",
            "rollout status -n {ns} statefulset/db --timeout=60s",
        ),
        ("statefulset -n {ns} db", "job -n {ns} once"),
        {"db.yaml": STATEFUL, "job.yaml": JOB},
    ),
    Story(
        "wait",
        (
            "wait -n {ns} pod/solo --for=condition=Ready --timeout=60s",
            "wait -n {ns} pod/solo --for=jsonpath={{.status.phase}}=Running --timeout=60s",
            "wait -n {ns} pod/solo --for=condition=Never --timeout=1s",
            "wait -n {ns} pod/nobody --for=delete --timeout=1s",
            "wait -n {ns} pod/nobody --for=condition=Ready --timeout=1s",
        ),
        (),
        {"pod.yaml": POD},
        ("create -n {ns} -f {f}/pod.yaml",),
    ),
    Story(
        "delete",
        (
            "delete -n {ns} pod solo",
            "delete -n {ns} pod solo",  # NotFound
            "delete -n {ns} pod solo --ignore-not-found",
            "delete -n {ns} deployment web --cascade=foreground",
            "get -n {ns} pods -l app=web",
            "delete -n {ns} configmap --all",
            "delete -n {ns} -f {f}/service.yaml",
            "get -n {ns} services",
            "delete -n {ns} statefulset db --cascade=orphan",
            "get -n {ns} pods -l app=db",
            "delete -n {ns} pods -l app=db --grace-period=0 --force",
            "delete -n {ns} pods --all --now",
        ),
        (),
        {
            "pod.yaml": POD,
            "web.yaml": DEPLOYMENT,
            "db.yaml": STATEFUL,
            "settings.yaml": CONFIGMAP,
            "service.yaml": SERVICE,
        },
        (
            "apply -n {ns} -f {f}",
            _ROLLED_OUT,
            "rollout status -n {ns} statefulset/db --timeout=60s",
            _RUNNING,
        ),
    ),
    Story(
        "patch and edit",
        (
            'patch -n {ns} deployment web -p {{"spec":{{"template":{{"spec":{{"containers":'
            '[{{"name":"main","env":[{{"name":"C","value":"3"}}]}}]}}}}}}}}',
            _ROLLED_OUT,
            'patch -n {ns} deployment web --type=merge -p {{"metadata":{{"labels":{{"app":null,"x":"y"}}}}}}',
            "patch -n {ns} deployment web --type=json"
            ' -p [{{"op":"replace","path":"/spec/replicas","value":1}}]',
            'patch -n {ns} deployment web --type=json -p [{{"op":"remove","path":"/spec/nothing"}}]',
            'patch -n {ns} deployment web -p {{"spec":{{"replicas":"many"}}}}',
            'patch -n {ns} deployment web -p {{"spec":{{"selector":{{"matchLabels":{{"app":"other"}}}}}}}}',
            'patch -n {ns} deployment web --subresource=scale --type=merge -p {{"spec":{{"replicas":2}}}}',
            "replace -n {ns} -f {f}/replacement.yaml",
            _ROLLED_OUT,
            "set env -n {ns} deployment/web D=4",
            _ROLLED_OUT,
        ),
        ("deployment -n {ns} web",),
        {"a.yaml": DEPLOYMENT, "replacement.yaml": DEPLOYMENT_EDITED},
        ("create -n {ns} -f {f}/a.yaml", _ROLLED_OUT),
    ),
)
