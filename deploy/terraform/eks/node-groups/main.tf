# Node groups of an EKS cluster that Cluster Autoscaler brings up from zero, and its rights to do so.
# Written by `fairlead nodegroups terraform`: change the file of groups and write it again.

terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40"
    }
  }
}

variable "cluster_name" {
  description = "The EKS cluster that the groups belong to."
  type        = string
}

variable "subnet_ids" {
  description = "Where nodes are made."
  type        = list(string)
}

variable "oidc_provider_arn" {
  description = "The cluster's OIDC provider in IAM, for the autoscaler's role."
  type        = string
}

variable "autoscaler_namespace" {
  description = "Where Cluster Autoscaler runs."
  type        = string
  default     = "kube-system"
}

variable "autoscaler_service_account" {
  description = "The service account that it runs as."
  type        = string
  default     = "cluster-autoscaler"
}

data "aws_partition" "current" {}

data "aws_iam_policy_document" "node_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "node" {
  name_prefix        = "${substr(var.cluster_name, 0, 30)}-node-"
  assume_role_policy = data.aws_iam_policy_document.node_trust.json
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each   = toset(["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly"])
  role       = aws_iam_role.node.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.value}"
}

resource "aws_eks_node_group" "medium" {
  cluster_name    = var.cluster_name
  node_group_name = "medium"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = var.subnet_ids
  instance_types  = ["t3a.medium"]
  ami_type        = "AL2023_x86_64_STANDARD"
  capacity_type   = "ON_DEMAND"
  labels = {
    size = "medium"
  }

  taint {
    key    = "size"
    value  = "medium"
    effect = "NO_SCHEDULE"
  }

  scaling_config {
    min_size     = 0
    desired_size = 0
    max_size     = 5
  }

  # The autoscaler changes it; applying again must not take its nodes away.
  lifecycle {
    ignore_changes = [scaling_config[0].desired_size]
  }

  # Nodes that come before their rights cannot join.
  depends_on = [aws_iam_role_policy_attachment.node]
}

resource "aws_autoscaling_group_tag" "medium" {
  for_each = {
    "k8s.io/cluster-autoscaler/enabled"                  = "true"
    "k8s.io/cluster-autoscaler/${var.cluster_name}"      = "owned"
    "k8s.io/cluster-autoscaler/node-template/label/size" = "medium"
    "k8s.io/cluster-autoscaler/node-template/taint/size" = "medium:NoSchedule"
  }
  autoscaling_group_name = aws_eks_node_group.medium.resources[0].autoscaling_groups[0].name

  tag {
    key                 = each.key
    value               = each.value
    propagate_at_launch = false
  }
}

resource "aws_eks_node_group" "large" {
  cluster_name    = var.cluster_name
  node_group_name = "large"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = var.subnet_ids
  instance_types  = ["t3a.xlarge"]
  ami_type        = "AL2023_x86_64_STANDARD"
  capacity_type   = "ON_DEMAND"
  labels = {
    size = "large"
  }

  taint {
    key    = "size"
    value  = "large"
    effect = "NO_SCHEDULE"
  }

  scaling_config {
    min_size     = 0
    desired_size = 0
    max_size     = 3
  }

  # The autoscaler changes it; applying again must not take its nodes away.
  lifecycle {
    ignore_changes = [scaling_config[0].desired_size]
  }

  # Nodes that come before their rights cannot join.
  depends_on = [aws_iam_role_policy_attachment.node]
}

resource "aws_autoscaling_group_tag" "large" {
  for_each = {
    "k8s.io/cluster-autoscaler/enabled"                  = "true"
    "k8s.io/cluster-autoscaler/${var.cluster_name}"      = "owned"
    "k8s.io/cluster-autoscaler/node-template/label/size" = "large"
    "k8s.io/cluster-autoscaler/node-template/taint/size" = "large:NoSchedule"
  }
  autoscaling_group_name = aws_eks_node_group.large.resources[0].autoscaling_groups[0].name

  tag {
    key                 = each.key
    value               = each.value
    propagate_at_launch = false
  }
}

locals {
  oidc_issuer = split(":oidc-provider/", var.oidc_provider_arn)[1]
}

data "aws_iam_policy_document" "autoscaler_trust" {
  statement {
    actions = ["sts:AssumeRoleWithWebIdentity"]

    principals {
      type        = "Federated"
      identifiers = [var.oidc_provider_arn]
    }

    condition {
      test     = "StringEquals"
      variable = "${local.oidc_issuer}:sub"
      values   = ["system:serviceaccount:${var.autoscaler_namespace}:${var.autoscaler_service_account}"]
    }

    condition {
      test     = "StringEquals"
      variable = "${local.oidc_issuer}:aud"
      values   = ["sts.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "autoscaler" {
  # On everything: these cannot be narrowed, or are called before the group is known.
  statement {
    sid = "Read"
    actions = [
      "autoscaling:DescribeAutoScalingGroups",
      "autoscaling:DescribeAutoScalingInstances",
      "autoscaling:DescribeLaunchConfigurations",
      "autoscaling:DescribeScalingActivities",
      "ec2:DescribeImages",
      "ec2:DescribeInstanceTypes",
      "ec2:DescribeLaunchTemplateVersions",
      "ec2:GetInstanceTypesFromInstanceRequirements",
      "eks:DescribeNodegroup",
    ]
    resources = ["*"]
  }

  # Only on groups that carry the tags of this cluster.
  statement {
    sid       = "Scale"
    actions   = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
    resources = ["*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/k8s.io/cluster-autoscaler/enabled"
      values   = ["true"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/k8s.io/cluster-autoscaler/${var.cluster_name}"
      values   = ["owned"]
    }
  }
}

resource "aws_iam_role" "autoscaler" {
  name_prefix        = "${substr(var.cluster_name, 0, 20)}-autoscaler-"
  assume_role_policy = data.aws_iam_policy_document.autoscaler_trust.json
}

resource "aws_iam_role_policy" "autoscaler" {
  name   = "cluster-autoscaler"
  role   = aws_iam_role.autoscaler.id
  policy = data.aws_iam_policy_document.autoscaler.json
}

output "autoscaler_role_arn" {
  description = "For the annotation eks.amazonaws.com/role-arn of its service account."
  value       = aws_iam_role.autoscaler.arn
}

output "node_role_arn" {
  description = "For other groups of the same cluster."
  value       = aws_iam_role.node.arn
  depends_on  = [aws_iam_role_policy_attachment.node]
}

output "auto_scaling_groups" {
  description = "The Auto Scaling group of each node group."
  value = {
    medium = aws_eks_node_group.medium.resources[0].autoscaling_groups[0].name
    large  = aws_eks_node_group.large.resources[0].autoscaling_groups[0].name
  }
}
