"""The chart, `fairlead install` and kustomize: one source, the same objects, the same refusals."""

from __future__ import annotations

import json
import re
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.doors.scheduler.configuration import load
from fairlead.errors import BadInput
from fairlead.install.manifests import DEPLOYMENTS, catalog
from fairlead.install.values import complete, defaults, read_given, read_set, read_values
from support.installing import (
    CHART,
    COMPONENTS,
    ROOT,
    TOGETHER,
    Obj,
    by_chart,
    by_command,
    by_kustomize,
    helm,
    keyed,
    turned_on,
)

DEPLOY = ROOT / "deploy"
READ_BY_THE_COMMAND = ("components.yaml", "values.yaml", "values.schema.json")
NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
TEXTS = st.text(st.characters(codec="ascii", exclude_categories=("Cc",)), max_size=20)
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "250m", "64Mi", "1.5Gi", 2, 0.5])
)
LABELS = st.dictionaries(st.sampled_from(["team", "example.com/owner"]), NAMES, max_size=2)
BUDGETS = st.one_of(
    st.fixed_dictionaries({"enabled": st.booleans()}),
    st.fixed_dictionaries({"minAvailable": st.sampled_from([0, 1, "50%"])}),
    st.fixed_dictionaries(
        {"maxUnavailable": st.sampled_from([0, 1, "25%"])}, optional={"enabled": st.booleans()}
    ),
)
TOLERATION = st.fixed_dictionaries(
    {"key": NAMES, "operator": st.just("Exists")},
    optional={"effect": st.just("NoExecute"), "tolerationSeconds": st.integers(0, 10**7)},
)
AFFINITY = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
        ]
    }
}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "DoNotSchedule",
}
COMMON = {
    name: st.none() | strategy
    for name, strategy in {
        "replicas": st.integers(0, 5),
        "resources": st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS}),
        "nodeSelector": LABELS,
        "tolerations": st.lists(TOLERATION, max_size=2),
        "affinity": st.sampled_from([{}, AFFINITY]),
        "topologySpreadConstraints": st.sampled_from([[], [SPREAD]]),
        "priorityClassName": NAMES,
        "podDisruptionBudget": BUDGETS,
        "podLabels": LABELS,
        "podAnnotations": st.dictionaries(NAMES, TEXTS, max_size=2),
    }.items()
}
CALLERS = {"ipBlock": {"cidr": "10.0.0.0/24"}}
CONFIG = st.fixed_dictionaries(
    {},
    optional={
        "capacity": st.sampled_from(["resources", "exclusive"]),
        "inFlight": st.integers(1, 10**9),
        "schedulerNames": st.lists(NAMES, min_size=1, max_size=2),
        "queue": st.fixed_dictionaries({"order": st.sampled_from(["smallest", "fifo"])}),
        "gangs": st.fixed_dictionaries({"settle": st.sampled_from(["5s", "1m30s", 5])}),
        "priorityAnnotation": st.fixed_dictionaries({"max": st.integers(-(2**31), 10**9)}),
    },
)


@st.composite
def given_values(draw: st.DrawFn) -> Obj:
    on = draw(st.sampled_from(TOGETHER))
    own = {"args": st.none() | st.just(["--log-level=debug"]), **COMMON}
    components = {name: draw(st.fixed_dictionaries({}, optional=own)) for name in on}
    components = {name: {"enabled": name in on, **components.get(name, {})} for name in COMPONENTS}
    if "extender" in on:
        components["extender"]["mtls"] = draw(st.booleans())
    if "serve" in on:
        components["serve"]["dashboard"] = draw(st.booleans())
    issuer = st.none() | st.fixed_dictionaries({"name": NAMES}, optional={"kind": st.just("ClusterIssuer")})
    more: Obj = draw(
        st.fixed_dictionaries(
            {},
            optional={
                **COMMON,
                "image": st.fixed_dictionaries(
                    {},
                    optional={
                        "repository": st.sampled_from(
                            ["registry.example.com:5000/team/fairlead", "fairlead"]
                        ),
                        "tag": st.sampled_from(["", "0.1.0", "v2_x"]),
                        "digest": st.sampled_from(["", f"sha256:{'0a' * 32}"]),
                        "pullPolicy": st.sampled_from(["Always", "Never"]),
                        "pullSecrets": st.lists(st.fixed_dictionaries({"name": NAMES}), max_size=2),
                    },
                ),
                "labels": LABELS,
                "annotations": st.dictionaries(NAMES, TEXTS, max_size=2),
                "config": st.none() | CONFIG,
                "networkPolicy": st.fixed_dictionaries(
                    {"enabled": st.booleans(), "from": st.sampled_from([[], [CALLERS]])}
                ),
                "serviceMonitor": st.fixed_dictionaries(
                    {"enabled": st.booleans()}, optional={"interval": st.just("30s"), "labels": LABELS}
                ),
                "certManager": st.fixed_dictionaries(
                    {"enabled": st.booleans()}, optional={"issuerRef": issuer}
                ),
                "crds": st.fixed_dictionaries({"install": st.booleans()}),
            },
        )
    )
    return {"components": components, **more}


class TestTheObjects:
    def test_with_the_defaults_all_three_make_the_same(self) -> None:
        space = ("v1", "Namespace", "", "fairlead-system")
        kustomized = by_kustomize(DEPLOY)
        namespace = kustomized.pop(space)  # neither a release nor a rendering can hold its own
        assert by_chart({}) == by_command({}) == kustomized
        (shipped,) = yaml.safe_load_all((DEPLOY / "namespace.yaml").read_text())
        assert namespace == shipped

    @pytest.mark.parametrize(
        ("values", "folders"),
        [
            (turned_on("webhook"), ["webhook"]),
            (turned_on("extender"), ["extender"]),
            (turned_on("extender", extender={"mtls": True}), ["extender-mtls"]),
            (turned_on("rebalance"), ["rebalance"]),
            (turned_on("burst"), ["burst"]),
            (turned_on("serve", serve={"dashboard": True}), ["serve-dashboard"]),
            ({**turned_on("webhook"), "certManager": {"enabled": True}}, ["webhook-cert-manager"]),
            ({**turned_on("serve"), "certManager": {"enabled": True}}, ["serve-cert-manager"]),
            (
                {**turned_on("extender", extender={"mtls": True}), "certManager": {"enabled": True}},
                ["extender-cert-manager"],
            ),
        ],
    )
    def test_each_component_is_its_kustomization(self, values: Obj, folders: list[str]) -> None:
        wanted = by_kustomize(DEPLOY / "policies")
        for folder in folders:
            wanted |= by_kustomize(DEPLOY / folder)
        if "serve" in folders[0]:
            wanted |= keyed(yaml.safe_load_all((DEPLOY / "configuration.yaml").read_text()))
        assert by_chart(values) == by_command(values) == wanted

    def test_chart_and_command_make_the_same_of_any_values(self, count: Callable[[int, int], int]) -> None:
        @settings(max_examples=count(15, 150), deadline=None)
        @given(given_values(), st.sampled_from(["fairlead-system", "placing"]))
        def check(values: Obj, namespace: str) -> None:
            assert by_chart(values, namespace) == by_command(values, namespace)

        check()

    def test_a_packaged_chart_makes_the_same_without_the_repository(self, tmp_path: Path) -> None:
        helm("package", CHART, "-d", tmp_path)
        (package,) = tmp_path.glob("fairlead-*.tgz")
        values = {**turned_on("serve", serve={"dashboard": True}), "serviceMonitor": {"enabled": True}}
        assert by_chart(values, chart=package) == by_command(values)
        with tarfile.open(package) as archive:
            names = archive.getnames()
        assert "fairlead/files/scheduler.yaml" in names
        assert not [name for name in names if "terraform" in name]

    def test_every_object_names_the_namespace_that_is_asked_for(self) -> None:
        every = by_command(
            {**turned_on("scheduler", "webhook", "extender"), "certManager": {"enabled": True}}, "placing"
        )
        assert "fairlead-system" not in json.dumps(list(every.values()))

    def test_the_configuration_stays_one_that_the_scheduler_reads(self, tmp_path: Path) -> None:
        objects = by_command({"config": {"capacity": "exclusive"}})
        fields = objects["v1", "ConfigMap", "fairlead-system", "fairlead"]["data"]["fairlead.yaml"]
        (tmp_path / "fairlead.yaml").write_text(json.dumps(fields))
        read = load(tmp_path / "fairlead.yaml")
        assert read["capacity"] == "exclusive"
        assert read["priorityAnnotation"]["namespaceSelector"]  # what is not given stays as it is shipped

    def test_a_budget_never_keeps_the_only_replica(self) -> None:
        budget = ("policy/v1", "PodDisruptionBudget", "fairlead-system", "fairlead")
        assert budget in by_command({"replicas": 2})
        assert budget not in by_command({"replicas": 1})
        assert by_command({"replicas": 1, "podDisruptionBudget": {"minAvailable": 1}})[budget]


class TestRefusals:
    BAD = (
        ({"replicas": "two"}, "replicas"),
        ({"replicas": -1}, "replicas"),
        ({"replicas": 1.5}, "replicas"),
        ({"replica": 1}, "replica"),
        ({"image": {"pullPolicy": "Sometimes"}}, "image.pullPolicy"),
        ({"image": {"digest": "sha256:1"}}, "image.digest"),
        ({"image": {"tag": "a b"}}, "image.tag"),
        ({"image": {"repository": None}}, "image.repository"),
        ({"components": {"window": {"enabled": True}}}, "components.window"),
        ({"components": {"scheduler": {"mtls": True}}}, "components.scheduler.mtls"),
        ({"components": {"webhook": {"enabled": "yes"}}}, "components.webhook.enabled"),
        ({"components": {"webhook": {"args": ["debug"]}}}, "components.webhook.args[0]"),
        ({"resources": {"limits": {"memory": "much"}}}, "resources.limits.memory"),
        ({"tolerations": {"key": "a"}}, "tolerations"),
        ({"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}}, "podDisruptionBudget"),
        ({"podDisruptionBudget": {"minAvailable": "half"}}, "podDisruptionBudget.minAvailable"),
        ({"labels": {"app": "mine"}}, "labels.app"),
        ({"labels": {"team": "a b"}}, "labels.team"),
        ({"podLabels": {"app.kubernetes.io/name": "mine"}}, "podLabels.app.kubernetes.io/name"),
        ({"annotations": {"helm.sh/resource-policy": "drop"}}, "annotations.helm.sh/resource-policy"),
        ({"nodeSelector": {"pool": None}}, "nodeSelector.pool"),
        ({"config": {"capacity": "half"}}, "config.capacity"),
        ({"config": {"queue": {"order": "lifo"}}}, "config.queue.order"),
        ({"config": {"gangs": {"settle": "soon"}}}, "config.gangs.settle"),
        ({"config": {"inflight": 1}}, "config.inflight"),
        ({"config": {"schedulerNames": []}}, "config.schedulerNames"),
        ({"config": {"priorityAnnotation": {"max": 2_000_000_000}}}, "config.priorityAnnotation.max"),
        ({"certManager": {"issuerRef": {}}}, "certManager.issuerRef.name"),
        ({"serviceMonitor": {"interval": "often"}}, "serviceMonitor.interval"),
        ({"crds": None}, "crds"),
    )  # fmt: skip

    @pytest.mark.parametrize(("values", "field"), BAD, ids=lambda value: str(value)[:60])
    def test_chart_and_command_refuse_the_same_values_and_name_the_field(
        self, values: Obj, field: str
    ) -> None:
        with pytest.raises(BadInput, match=rf"^values\.yaml: {re.escape(field)}: ") as refused:
            read_given([("values.yaml", json.dumps(values))], [])
        assert "\n" not in str(refused.value)
        said = helm("template", "fairlead", CHART, "-f", "-", stdin=json.dumps(values), code=1).stderr
        # Helm's own words, which name the setting, though not always the way to it.
        assert field.rpartition(".")[2].partition("[")[0] in said

    @pytest.mark.parametrize(
        ("on", "says"),
        [
            (["serve", "scheduler"], "serve already does what scheduler does: turn one of them off"),
            (["serve", "webhook"], "serve already does what webhook does: turn one of them off"),
            (["serve", "rebalance"], "serve already does what rebalance does: turn one of them off"),
            (["burst", "scheduler"], "burst already does what scheduler does: turn one of them off"),
            (["burst", "rebalance"], "burst already does what rebalance does: turn one of them off"),
            (["burst", "serve"], "burst already does what serve does: turn one of them off"),
            ([], f"none is on; there are: {', '.join(COMPONENTS)}"),
        ],
    )
    def test_components_that_collide_are_refused_by_both_in_the_same_words(
        self, on: list[str], says: str
    ) -> None:
        with pytest.raises(BadInput, match=re.escape(f"components: {says}")):
            complete(turned_on(*on))
        said = helm("template", "fairlead", CHART, "-f", "-", stdin=json.dumps(turned_on(*on)), code=1).stderr
        assert f"components: {says}" in said.replace("\n", " ")

    def test_setup_refuses_the_same_pairs(self) -> None:
        text = (ROOT / "setup.sh").read_text()
        (pairs,) = re.findall(r"for pair in (.*); do", text)
        ours = [f"{name}:{other}" for name, others in catalog()["instead"].items() for other in others]
        assert sorted(pairs.split()) == sorted(ours)

    @pytest.mark.parametrize("text", ["a", "a=1=", "image..tag=x", "tolerations[0].key=a"])
    def test_a_malformed_set_is_one_line_of_error(self, text: str) -> None:
        if text == "a=1=":
            assert read_set(text) == {"a": "1="}  # as Helm takes it
            return
        with pytest.raises(BadInput, match="--set"):
            read_values([], [text])

    def test_the_file_that_is_wrong_is_named_among_several(self) -> None:
        with pytest.raises(BadInput, match=r"^second\.yaml: replicas: "):
            read_given([("first.yaml", "replicas: 1"), ("second.yaml", "replicas: x")], [])


class TestReadingValues:
    @pytest.mark.parametrize(
        "sets",
        [
            ["replicas=3,image.tag=v2"],
            ["config.schedulerNames={a,b}", r"nodeSelector.example\.com/pool=x"],
            ["podAnnotations.note=a\\,b", "components.webhook.enabled=true"],
            ["replicas=3", "replicas=null"],
            ["image.tag=1.10"],
            ["podAnnotations.on=7x,podAnnotations.empty="],
        ],
    )
    def test_set_means_what_it_means_to_helm(self, sets: list[str]) -> None:
        flags = [word for one in sets for word in ("--set", one)]
        done = helm("template", "fairlead", CHART, "-n", "fairlead-system", *flags)
        from fairlead.install.rendering import render

        theirs = keyed(one for one in yaml.safe_load_all(done.stdout) if one and one["kind"] != "Pod")
        assert keyed(render(read_values([], sets), "fairlead-system")) == theirs

    def test_later_files_win_and_null_takes_a_default_away(self) -> None:
        found = read_values(
            [("a", "image: {tag: x}\nreplicas: 3"), ("b", "image: {tag: null}\nreplicas: null")], []
        )
        assert "tag" not in found["image"]
        assert found.get("replicas") is None

    def test_the_defaults_are_allowed_by_the_schema(self) -> None:
        assert complete({}) == defaults()


class TestTheChart:
    def test_helm_lint_has_nothing_to_say(self) -> None:
        said = helm("lint", "--strict", CHART).stdout
        assert "1 chart(s) linted, 0 chart(s) failed" in said
        assert "[WARNING]" not in said
        assert "[ERROR]" not in said

    def test_its_version_is_the_packages(self) -> None:
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
        assert chart["version"] == chart["appVersion"] == version

    def test_every_value_of_the_schema_is_in_values_yaml(self) -> None:
        schema = json.loads((CHART / "values.schema.json").read_text())
        values = defaults()
        assert set(schema["properties"]) - {"global"} == set(values)
        assert (
            set(schema["properties"]["components"]["properties"])
            == set(values["components"])
            == set(COMPONENTS)
        )

    def test_definitions_outlive_the_release(self) -> None:
        kept = [one for one in by_chart({}).values() if one["kind"] == "CustomResourceDefinition"]
        assert len(kept) == 2
        for one in kept:
            assert one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"

    @pytest.mark.parametrize("on", TOGETHER, ids="+".join)
    def test_its_test_asks_what_is_installed(self, on: list[str]) -> None:
        only = ("-s", "templates/tests/placement.yaml")
        values = json.dumps(turned_on(*on))
        done = helm("template", "fairlead", CHART, "-n", "placing", *only, "-f", "-", stdin=values)
        (pod,) = [one for one in yaml.safe_load_all(done.stdout) if one]
        assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
        schedules = bool({"scheduler", "serve", "burst"} & set(on))
        assert (pod["spec"].get("schedulerName") == "fairlead") is schedules
        (container,) = pod["spec"]["containers"]
        urls = [word for word in container["command"] if word.startswith("http")]
        wanted = []
        if {"webhook", "serve"} & set(on):
            wanted.append("https://fairlead-webhook.placing.svc/readyz")
        if "extender" in on:
            wanted.append("http://fairlead-extender.placing.svc:9444/readyz")
        assert urls == wanted


def test_a_wheel_holds_what_the_command_reads() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    wanted = ("deploy", *(f"charts/fairlead/{name}" for name in READ_BY_THE_COMMAND))
    for path in wanted:
        assert (ROOT / path).exists()
        assert included[path] == f"fairlead/{path}"


def test_every_component_and_addition_is_in_the_manifests() -> None:
    for paths in (*catalog()["components"].values(), [one["add"] for one in catalog()["additions"]]):
        for path in paths:
            assert (DEPLOY / path).exists()
    for component, deployment in DEPLOYMENTS.items():
        objects = by_command(turned_on(component))
        assert ("apps/v1", "Deployment", "fairlead-system", deployment) in objects


def test_service_monitors_ask_ports_that_their_services_have_and_pods_open() -> None:
    for component, deployment in DEPLOYMENTS.items():
        objects = by_command({**turned_on(component), "serviceMonitor": {"enabled": True}})
        service = objects["v1", "Service", "fairlead-system", f"{deployment}-metrics"]
        monitor = objects["monitoring.coreos.com/v1", "ServiceMonitor", "fairlead-system", deployment]
        pods = objects["apps/v1", "Deployment", "fairlead-system", deployment]["spec"]["template"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert service["spec"]["selector"].items() <= pods["metadata"]["labels"].items()
        (endpoint,), (port,) = monitor["spec"]["endpoints"], service["spec"]["ports"]
        (opened,) = pods["spec"]["containers"][0]["ports"]
        assert endpoint["port"] == port["name"]
        assert (port["targetPort"], port["port"]) == (opened["name"], opened["containerPort"])
        probe = pods["spec"]["containers"][0]["readinessProbe"]["httpGet"]
        assert endpoint["scheme"] == probe.get("scheme", "HTTP").lower()
