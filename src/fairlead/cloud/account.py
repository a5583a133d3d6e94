"""An AWS account, read and written through boto3, which is imported only here and only when it is needed.

Credentials, region, profiles and ``AWS_ENDPOINT_URL`` are boto3's own affair. What may not be
read is left out where the diagnosis can do without; Auto Scaling groups it cannot do without.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Self

import msgspec

from fairlead.cloud.doctor.findings import TagChange
from fairlead.errors import BadInput, FairleadError, Unreachable
from fairlead.nodegroups.aws.state import (
    Access,
    AutoScalingGroup,
    CloudState,
    EksNodegroup,
    group_from,
    nodegroup_from,
    type_from,
)
from fairlead.nodegroups.catalog import instance_type
from fairlead.nodegroups.group import InstanceType

DESCRIBE = "eks:DescribeNodegroup"
# What the autoscaler can do nothing without. Its writes are mostly allowed under conditions on tags, of
# which a simulation knows nothing: they are not judged.
GROUPS = "autoscaling:DescribeAutoScalingGroups"
_PAGE = 100
_ANY_ID = "00000000-0000-0000-0000-000000000000"
_DENIED = ("AccessDenied", "UnauthorizedOperation", "AuthFailure", "Forbidden")


class Account:
    """One account and region as these credentials see it. `cluster` "" when it is the only one there is.

    Raises BadInput when there is no boto3, no credentials or no region: nothing can be asked then.
    """

    def __init__(self, cluster: str = "", *, region: str = "", profile: str = "") -> None:
        try:
            import boto3
            from botocore import exceptions, xform_name
            from botocore.config import Config
        except ImportError as error:
            raise BadInput("--aws needs boto3: pip install 'fairlead[aws]'") from error
        self._exceptions: Any = exceptions
        self._method: Callable[[str], str] = xform_name
        self._config: Any = Config
        try:
            # The AWS CLI goes by AWS_REGION too; boto3 by AWS_DEFAULT_REGION and the profile only.
            region = region or os.environ.get("AWS_REGION", "")
            self._session: Any = boto3.Session(profile_name=profile or None, region_name=region or None)
            credentials = self._session.get_credentials()
        except exceptions.BotoCoreError as error:
            raise BadInput(f"--aws: {error}") from error
        if credentials is None:
            raise BadInput(
                "--aws: no AWS credentials: run `aws configure`, set AWS_PROFILE or name one with --profile"
            )
        if not self._session.region_name:
            raise BadInput("--aws: no AWS region: set AWS_REGION or give --region")
        self.region: str = self._session.region_name
        self._clients: dict[str, Any] = {}
        self._unread: dict[str, str] = {}
        self._asked: list[Access] = []
        self._number = ""
        self._templates: dict[str, Mapping[str, Any]] = {}
        self._cluster = cluster

    @property
    def cluster(self) -> str:
        """The EKS cluster's name; asked for when it was not given."""
        if not self._cluster:
            self._cluster = self._only_cluster()
        return self._cluster

    def state(
        self, *, role: str = "", service_account: str = "", own: bool = False, named: Collection[str] = ()
    ) -> CloudState:
        """All that the doctor asks of an account, of the cluster's groups only.

        Auto Scaling groups that are `named` are told of, too, whosever they are; all others are not looked
        at any further.
        `role` is the autoscaler's; without it, `service_account` (``namespace/name``) may have one by EKS'
        pod identity. `own`: these credentials are the autoscaler's, what they may do is what it may.
        """
        self._unread = {}
        self._asked = []
        every = self._groups()
        nodegroups = self._nodegroups({each.nodegroup for each in every if each.nodegroup})
        known = CloudState(cluster=self.cluster, nodegroups=nodegroups)
        groups = [each for each in every if known.owns(each) or each.name in named]
        role = role or self._pod_identity(service_account)
        permissions = self._permissions(role, [each.name for each in nodegroups]) if role else {}
        sized = self._sized(groups, nodegroups)
        return CloudState(
            cluster=self.cluster,
            region=self.region,
            account=self._number,
            auto_scaling_groups=sized,
            nodegroups=nodegroups,
            describe_nodegroup=self._own_access() if own else permissions.get(DESCRIBE, "unknown"),
            permissions=permissions,
            autoscaler_role=role,
            unread=dict(sorted(self._unread.items())),
        )

    def tag(self, changes: Sequence[TagChange]) -> None:
        """Set tags on Auto Scaling groups; nodes do not get them."""
        for start in range(0, len(changes), 25):
            tags = [
                {
                    "ResourceId": each.asg,
                    "ResourceType": "auto-scaling-group",
                    "Key": each.key,
                    "Value": each.value,
                    "PropagateAtLaunch": False,
                }
                for each in changes[start : start + 25]
            ]
            with self._asking("autoscaling:CreateOrUpdateTags"):
                self._call("autoscaling:CreateOrUpdateTags", Tags=tags)

    def close(self) -> None:
        """Close the connections; `with` does."""
        for client in self._clients.values():
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Reading

    def _own_access(self) -> Access:
        """What came of asking for node groups ourselves; one that is just gone, or slow, is not the rule."""
        order: tuple[Access, ...] = ("denied", "allowed", "unreachable")
        return next((each for each in order if each in self._asked), "unknown")

    def _only_cluster(self) -> str:
        with self._asking("eks:ListClusters"):
            found = list(self._pages("eks:ListClusters", "clusters"))
        if len(found) == 1:
            return str(found[0])
        there = f"there are {', '.join(found)}" if found else f"there is none in {self.region}"
        raise BadInput(f"--aws: which EKS cluster? Name it with --cluster; {there}")

    def _groups(self) -> tuple[AutoScalingGroup, ...]:
        with self._asking(GROUPS):
            found = list(self._pages(GROUPS, "AutoScalingGroups", MaxRecords=_PAGE))
        # arn:aws:autoscaling:REGION:ACCOUNT:autoScalingGroup:…
        self._number = next((str(each.get("AutoScalingGroupARN")).split(":")[4] for each in found), "")
        self._templates = {each["AutoScalingGroupName"]: _launch_template(each) for each in found}
        every = (group_from(each) for each in found)
        return tuple(each for each in every if each.cluster in ("", self.cluster))

    def _launched(self, group: AutoScalingGroup) -> AutoScalingGroup:
        """With the type of its launch template, where the group names none."""
        template = self._templates.get(group.name)
        if group.instance_types or not template:
            return group
        keys = ("LaunchTemplateId", "LaunchTemplateName")
        which = next({key: template[key]} for key in keys if template.get(key))
        versions = [template.get("Version") or "$Default"]
        said = self._answer("ec2:DescribeLaunchTemplateVersions", **which, Versions=versions)
        found = said.get("LaunchTemplateVersions") or [{}]
        name = (found[0].get("LaunchTemplateData") or {}).get("InstanceType")
        return msgspec.structs.replace(group, instance_types=(InstanceType(name=name),)) if name else group

    def _nodegroups(self, tagged: Iterable[str]) -> tuple[EksNodegroup, ...]:
        """The cluster's managed node groups: those that are listed, and those that tags speak of."""
        listed = self._allowed(
            "eks:ListNodegroups",
            lambda: list(self._pages("eks:ListNodegroups", "nodegroups", clusterName=self.cluster)),
        )
        found = []
        for name in sorted({*(listed or ()), *tagged}):
            said = self._allowed(DESCRIBE, partial(self._described, name))
            if said is not None:
                found.append(nodegroup_from(said["nodegroup"]))
        return tuple(found)

    def _described(self, nodegroup: str) -> Any:
        """EKS' answer, None where it knows no such node group (any more); `_asked` has what came of it."""
        try:
            said = self._call(DESCRIBE, clusterName=self.cluster, nodegroupName=nodegroup)
        except self._exceptions.ClientError as error:
            code, _ = _said_by(error)
            if code == "ResourceNotFoundException":
                self._asked.append("allowed")
                return None
            self._asked.append("denied" if code.startswith(_DENIED) else "unknown")
            raise
        except self._exceptions.BotoCoreError:
            self._asked.append("unreachable")
            raise
        self._asked.append("allowed")
        return said

    def _sized(
        self, groups: Sequence[AutoScalingGroup], nodegroups: Sequence[EksNodegroup]
    ) -> tuple[AutoScalingGroup, ...]:
        """Groups with the sizes of types that the catalogue has not; EKS knows a managed group's types."""
        of_group = {name: each.instance_types for each in nodegroups for name in each.auto_scaling_groups}
        typed = [
            self._launched(
                msgspec.structs.replace(
                    each,
                    instance_types=each.instance_types
                    or tuple(InstanceType(name=name) for name in of_group.get(each.name, ())),
                )
            )
            for each in groups
        ]
        every = {kind.name for each in typed for kind in each.instance_types}
        names = sorted(name for name in every if instance_type(name) is None)
        known = {}
        for start in range(0, len(names), _PAGE):
            said = self._answer("ec2:DescribeInstanceTypes", InstanceTypes=names[start : start + _PAGE])
            for kind in map(type_from, said.get("InstanceTypes") or ()):
                known[kind.name] = kind
        return tuple(
            msgspec.structs.replace(
                each, instance_types=tuple(known.get(kind.name, kind) for kind in each.instance_types)
            )
            for each in typed
        )

    def _pod_identity(self, service_account: str) -> str:
        namespace, _, name = service_account.partition("/")
        if not name:
            return ""
        here = {"clusterName": self.cluster}
        said = self._answer(
            "eks:ListPodIdentityAssociations", **here, namespace=namespace, serviceAccount=name
        )
        for each in said.get("associations") or ():
            association = each["associationId"]
            if one := self._answer("eks:DescribePodIdentityAssociation", **here, associationId=association):
                return str(one["association"].get("roleArn") or "")
        return ""

    def _permissions(self, role: str, nodegroups: Sequence[str]) -> dict[str, Access]:
        """What IAM says the autoscaler's role may do: by simulation, else by reading its policies."""
        partition, account = (role.split(":") + [""] * 5)[1], (role.split(":") + [""] * 5)[4]
        # A policy may name node groups by pattern; no pattern can tell one made-up id from another.
        arns = [
            f"arn:{partition}:eks:{self.region}:{account}:nodegroup/{self.cluster}/{name}/{_ANY_ID}"
            for name in nodegroups or ("any",)
        ]
        wanted = {DESCRIBE: arns, GROUPS: ["*"]}
        found: dict[str, Access] = {}
        for action, resources in wanted.items():
            said = self._answer(
                "iam:SimulatePrincipalPolicy",
                PolicySourceArn=role,
                ActionNames=[action],
                ResourceArns=resources,
            )
            if not said:
                break
            allowed = all(_simulated(each) for each in said["EvaluationResults"])
            found[action] = "allowed" if allowed else "denied"
        else:
            return found
        policies = self._allowed("iam:GetRolePolicy", lambda: list(self._policies(role.rpartition("/")[2])))
        if policies is None:
            return {}
        # Read instead of simulated: that is answer enough.
        self._unread.pop("iam:SimulatePrincipalPolicy", None)
        statements = [one for policy in policies for one in statements_of(policy)]
        return {
            action: _least(decide(action, statements, each) for each in resources)
            for action, resources in wanted.items()
        }

    def _policies(self, role: str) -> Iterator[Any]:
        for name in self._pages("iam:ListRolePolicies", "PolicyNames", RoleName=role):
            yield self._call("iam:GetRolePolicy", RoleName=role, PolicyName=name)["PolicyDocument"]
        for each in self._pages("iam:ListAttachedRolePolicies", "AttachedPolicies", RoleName=role):
            arn = each["PolicyArn"]
            version = self._call("iam:GetPolicy", PolicyArn=arn)["Policy"]["DefaultVersionId"]
            policy = self._call("iam:GetPolicyVersion", PolicyArn=arn, VersionId=version)
            yield policy["PolicyVersion"]["Document"]

    # boto3

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            # IAM's answers can be done without: they are not waited for.
            patience = {"total_max_attempts": 1 if service == "iam" else 4, "mode": "standard"}
            config = self._config(connect_timeout=10, read_timeout=30, retries=patience)
            self._clients[service] = self._session.client(service, config=config)
        return self._clients[service]

    def _call(self, action: str, **arguments: Any) -> Any:
        """The answer of an action, called as IAM does: ``service:Name``."""
        service, _, name = action.partition(":")
        return getattr(self._client(service), self._method(name))(**arguments)

    def _pages(self, action: str, key: str, **arguments: Any) -> Iterator[Any]:
        service, _, name = action.partition(":")
        for page in self._client(service).get_paginator(self._method(name)).paginate(**arguments):
            yield from page.get(key) or ()

    def _answer(self, action: str, **arguments: Any) -> Any:
        """The answer of an action that can be done without; empty where it is not to be had."""
        return self._allowed(action, lambda: self._call(action, **arguments)) or {}

    def _allowed(self, action: str, call: Callable[[], Any]) -> Any:
        """An answer that can be done without; None where it is not to be had, and the state says so."""
        from botocore.parsers import ResponseParserError

        try:
            return call()
        except self._exceptions.NoCredentialsError as error:
            raise BadInput(f"--aws: {error}") from error
        except self._exceptions.ClientError as error:
            self._unread[action] = ": ".join(_said_by(error))
        except (self._exceptions.BotoCoreError, ResponseParserError) as error:
            self._unread[action] = " ".join(str(error).split())[:200]
        return None

    @contextmanager
    def _asking(self, action: str) -> Iterator[None]:
        """What cannot be done without: its failure is ours, in one line that says what is missing."""
        try:
            yield
        except self._exceptions.NoCredentialsError as error:
            raise BadInput(f"--aws: {error}") from error
        except self._exceptions.ClientError as error:
            code, message = _said_by(error)
            if code.startswith(_DENIED):
                raise BadInput(
                    f"--aws: these credentials may not call {action}: allow it, or use others ({message})"
                ) from error
            raise FairleadError(f"AWS: {action}: {message} ({code})") from error
        except self._exceptions.BotoCoreError as error:
            raise Unreachable(f"AWS: {action}: {error}") from error


def _said_by(error: Any) -> tuple[str, str]:
    """Code and message of a ClientError."""
    said = error.response.get("Error") or {}
    return str(said.get("Code", "")), " ".join(str(said.get("Message", "")).split())


def _simulated(result: Mapping[str, Any]) -> bool:
    """Whether IAM would allow a call, on each resource where it tells of them one by one."""
    each = [one["EvalResourceDecision"] for one in result.get("ResourceSpecificResults") or ()]
    return all(one == "allowed" for one in each or [result["EvalDecision"]])


def _least(decisions: Iterable[Access]) -> Access:
    """What holds for all of them: denied one of several, a role is not allowed them."""
    found = set(decisions)
    order: tuple[Access, ...] = ("denied", "unknown")
    return next((each for each in order if each in found), "allowed")


def _launch_template(group: Mapping[str, Any]) -> Mapping[str, Any]:
    policy = (group.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}
    found: Mapping[str, Any] = group.get("LaunchTemplate") or policy.get("LaunchTemplateSpecification") or {}
    return found


def statements_of(policy: Any) -> list[Mapping[str, Any]]:
    """The statements of a policy document, given as data or as JSON."""
    document = json.loads(policy) if isinstance(policy, str) else policy
    statements = document.get("Statement") or []
    return list(statements) if isinstance(statements, list) else [statements]


def decide(action: str, statements: Iterable[Mapping[str, Any]], resource: str = "*") -> Access:
    """Whether statements allow an action on a resource; a denial anywhere wins.

    >>> decide("eks:DescribeNodegroup", [{"Effect": "Allow", "Action": "eks:Describe*", "Resource": "*"}])
    'allowed'
    >>> decide("eks:DescribeNodegroup", [{"Effect": "Allow", "Action": "autoscaling:*", "Resource": "*"}])
    'denied'
    """
    found: Access = "denied"
    for statement in statements:
        if not _names(statement, "Action", action) or not _names(statement, "Resource", resource):
            continue
        sure = not statement.get("Condition")
        if statement.get("Effect") == "Deny" and sure:
            return "denied"
        if statement.get("Effect") == "Allow":
            found = "allowed" if sure or found == "allowed" else "unknown"
    return found


def _names(statement: Mapping[str, Any], kind: str, name: str) -> bool:
    if f"Not{kind}" in statement:
        return not _among(name, _listed(statement[f"Not{kind}"]))
    # What names no resource at all (as in a policy cut short) is taken to mean all.
    return _among(name, _listed(statement.get(kind, "*" if kind == "Resource" else None)))


def _among(action: str, patterns: Sequence[str]) -> bool:
    # IAM does not tell upper from lower case in actions; its * and ? are a shell's, but [ is not special.
    escaped = (pattern.lower().replace("[", "[[]") for pattern in patterns)
    return any(fnmatchcase(action.lower(), pattern) for pattern in escaped)


def _listed(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]
