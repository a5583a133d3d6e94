"""An AWS account that moto plays, served over HTTP: real boto3 talks to it by its endpoint's URL.

Moto's EKS names an Auto Scaling group for each node group but makes none: `Aws.group` does, with the tags
that EKS itself would put there.
"""

from __future__ import annotations

import json
import os
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import boto3
from moto.server import ThreadedMotoServer

REGION = "eu-west-1"
CLUSTER = "prod"
TEMPLATE = "k8s.io/cluster-autoscaler/node-template/"
DISCOVERY = {"k8s.io/cluster-autoscaler/enabled": "true", f"k8s.io/cluster-autoscaler/{CLUSTER}": "owned"}
ACCOUNT = "123456789012"


def template_tags(size: str) -> dict[str, str]:
    """The tags that say what nodes of a group of the two sizes are like."""
    return {TEMPLATE + "label/size": size, TEMPLATE + "taint/size": f"{size}:NoSchedule"}


class Aws:
    """The served account, with one EKS cluster."""

    def __init__(self) -> None:
        # EC2's catalogue of images is rebuilt at each reset, which takes half a second: none is run here.
        os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.url = f"http://{host}:{port}"
        self._clients: dict[str, Any] = {}

    @property
    def env(self) -> dict[str, str]:
        """In which boto3 finds it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,
                region_name=REGION,
                endpoint_url=self.url,
                aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
                aws_secret_access_key="secret",
            )
        return self._clients[service]

    def reset(self) -> None:
        """As new, with an empty cluster."""
        with urllib.request.urlopen(f"{self.url}/moto-api/reset", data=b"", timeout=30) as answer:
            answer.read()
        self.client("eks").create_cluster(
            name=CLUSTER,
            roleArn=f"arn:aws:iam::{ACCOUNT}:role/eks",
            resourcesVpcConfig={"subnetIds": self.subnets()},
        )

    def subnets(self) -> list[str]:
        found = self.client("ec2").describe_subnets()["Subnets"]
        return [each["SubnetId"] for each in found][:2]

    def group(
        self,
        name: str,
        *,
        instance_type: str = "t3a.xlarge",
        labels: dict[str, str] | None = None,
        taints: list[dict[str, str]] | None = None,
        tags: dict[str, str] | None = None,
        asg_tags: dict[str, str] | None = None,
        discovery: bool = True,
        most: int = 3,
        desired: int = 0,
        zones: tuple[str, ...] = (f"{REGION}a",),
    ) -> str:
        """A managed node group (its are `tags`) and its Auto Scaling group, whose name is returned."""
        size = name.partition("-")[0]
        labels = {"size": size} if labels is None else labels
        spelt = [{"key": "size", "value": size, "effect": "NO_SCHEDULE"}] if taints is None else taints
        made = self.client("eks").create_nodegroup(
            clusterName=CLUSTER,
            nodegroupName=name,
            nodeRole=f"arn:aws:iam::{ACCOUNT}:role/node",
            subnets=self.subnets(),
            instanceTypes=[instance_type],
            labels=labels,
            taints=spelt,
            scalingConfig={"minSize": 0, "maxSize": most, "desiredSize": desired},
            tags=tags or {},
        )
        asg = str(made["nodegroup"]["resources"]["autoScalingGroups"][0]["name"])
        own = {"eks:cluster-name": CLUSTER, "eks:nodegroup-name": name}
        every = {**own, **(DISCOVERY if discovery else {}), **(asg_tags or {})}
        self.asg(asg, every, instance_type=instance_type, most=most, desired=desired, zones=zones)
        return asg

    def asg(
        self,
        name: str,
        tags: dict[str, str],
        *,
        instance_type: str = "t3a.xlarge",
        most: int = 3,
        desired: int = 0,
        zones: tuple[str, ...] = (f"{REGION}a",),
        override: bool = True,
    ) -> None:
        """An Auto Scaling group of one type, which its launch template says, and it itself if `override`."""
        template = re.sub(r"[^A-Za-z0-9]", "", f"template{name}")
        self.client("ec2").create_launch_template(
            LaunchTemplateName=template,
            LaunchTemplateData={"InstanceType": instance_type, "ImageId": "ami-12c6146b"},
        )
        reference = {"LaunchTemplateName": template, "Version": "$Default"}
        self.client("autoscaling").create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=most,
            DesiredCapacity=desired,
            AvailabilityZones=list(zones),
            MixedInstancesPolicy={
                "LaunchTemplate": {
                    "LaunchTemplateSpecification": reference,
                    "Overrides": [{"InstanceType": instance_type}] if override else [],
                }
            },
            Tags=[
                {
                    "ResourceId": name,
                    "ResourceType": "auto-scaling-group",
                    "Key": key,
                    "Value": value,
                    "PropagateAtLaunch": True,
                }
                for key, value in tags.items()
            ],
        )

    def tags_of(self, asg: str) -> dict[str, str]:
        found = self.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[asg])
        return {tag["Key"]: tag["Value"] for tag in found["AutoScalingGroups"][0]["Tags"]}

    def role(self, name: str, *statements: dict[str, Any]) -> str:
        """An IAM role with a policy of these statements; returns its ARN."""
        trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
        iam = self.client("iam")
        made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=_policy(trust))
        iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=_policy(*statements))
        return str(made["Role"]["Arn"])

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._server.stop()


@contextmanager
def refusing(aws: Aws, part: str, code: str) -> Iterator[str]:
    """The same account for somebody whom IAM refuses every path with `part` in it: the URL to ask at."""

    def refused(path: str, body: bytes) -> tuple[int, bytes] | None:
        if part not in path:
            return None
        if not body.startswith(b"Action="):
            return 403, json.dumps({"message": "not authorized"}).encode()
        error = f"<Error><Code>{code}</Code><Message>not authorized</Message></Error>"
        return 403, f"<ErrorResponse>{error}</ErrorResponse>".encode()

    with _in_front(aws, refused, code) as url:
        yield url


@contextmanager
def simulating(aws: Aws, allowed: dict[str, str]) -> Iterator[str]:
    """The same account with an IAM that simulates: actions are allowed on resources of a pattern."""

    def simulated(path: str, body: bytes) -> tuple[int, bytes] | None:
        asked = {key: values[0] for key, values in parse_qs(body.decode(errors="replace")).items()}
        if asked.get("Action") != "SimulatePrincipalPolicy":
            return None
        action = asked["ActionNames.member.1"]
        resources = [value for key, value in asked.items() if key.startswith("ResourceArns.")] or ["*"]
        results = "".join(
            f"<member><EvalActionName>{action}</EvalActionName><EvalResourceName>{each}</EvalResourceName>"
            f"<EvalDecision>{decision}</EvalDecision></member>"
            for each in resources
            for decision in (["allowed"] if may(action, each) else ["implicitDeny"])
        )
        inner = f"<EvaluationResults>{results}</EvaluationResults><IsTruncated>false</IsTruncated>"
        result = f"<SimulatePrincipalPolicyResult>{inner}</SimulatePrincipalPolicyResult>"
        return 200, f"<SimulatePrincipalPolicyResponse>{result}</SimulatePrincipalPolicyResponse>".encode()

    def may(action: str, resource: str) -> bool:
        return any(fnmatch(action, what) and fnmatch(resource, where) for what, where in allowed.items())

    with _in_front(aws, simulated) as url:
        yield url


@contextmanager
def _in_front(
    aws: Aws, own: Callable[[str, bytes], tuple[int, bytes] | None], error: str = ""
) -> Iterator[str]:
    """A server that answers some calls itself, with status and body, and hands on all others."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answered = own(self.path, body)
            if answered is not None:
                status, said = answered
            else:
                headers = {name: value for name, value in self.headers.items() if name != "Host"}
                asked = urllib.request.Request(
                    aws.url + self.path, data=body or None, headers=headers, method=self.command
                )
                with urllib.request.urlopen(asked, timeout=30) as answer:
                    status, said = answer.status, answer.read()
            self.send_response(status)
            if error:
                self.send_header("x-amzn-ErrorType", error)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = answer  # noqa: N815 (http.server's names)

        def log_message(self, *arguments: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
