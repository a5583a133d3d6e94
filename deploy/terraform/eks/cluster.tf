# The cluster, made or taken, and the OIDC provider by which the autoscaler's service account gets its role.

locals {
  cluster_name = var.create_cluster ? aws_eks_cluster.this[0].name : var.cluster_name
  endpoint     = var.create_cluster ? aws_eks_cluster.this[0].endpoint : data.aws_eks_cluster.taken[0].endpoint
  certificate = (
    var.create_cluster
    ? aws_eks_cluster.this[0].certificate_authority[0].data
    : data.aws_eks_cluster.taken[0].certificate_authority[0].data
  )
  issuer = (
    var.create_cluster
    ? aws_eks_cluster.this[0].identity[0].oidc[0].issuer
    : data.aws_eks_cluster.taken[0].identity[0].oidc[0].issuer
  )
  oidc_provider_arn = (
    var.oidc_provider_arn != null
    ? var.oidc_provider_arn
    : aws_iam_openid_connect_provider.this[0].arn
  )
}

data "aws_partition" "current" {}

data "aws_eks_cluster" "taken" {
  count = var.create_cluster ? 0 : 1

  name = var.cluster_name
}

data "aws_iam_policy_document" "cluster_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["eks.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "cluster" {
  count = var.create_cluster ? 1 : 0

  name_prefix        = "${substr(var.cluster_name, 0, 25)}-cluster-"
  assume_role_policy = data.aws_iam_policy_document.cluster_trust.json
}

resource "aws_iam_role_policy_attachment" "cluster" {
  count = var.create_cluster ? 1 : 0

  role       = aws_iam_role.cluster[0].name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonEKSClusterPolicy"
}

resource "aws_eks_cluster" "this" {
  count = var.create_cluster ? 1 : 0

  name     = var.cluster_name
  version  = var.kubernetes_version
  role_arn = aws_iam_role.cluster[0].arn

  vpc_config {
    subnet_ids              = local.subnet_ids
    endpoint_private_access = true
    endpoint_public_access  = try(length(var.public_access_cidrs), 0) > 0
    public_access_cidrs     = try(length(var.public_access_cidrs), 0) > 0 ? var.public_access_cidrs : null
  }

  access_config {
    authentication_mode                         = "API_AND_CONFIG_MAP"
    bootstrap_cluster_creator_admin_permissions = true
  }

  depends_on = [aws_iam_role_policy_attachment.cluster]

  lifecycle {
    precondition {
      condition     = var.public_access_cidrs != null
      error_message = "Say in public_access_cidrs who may reach the API server, such as your own address; [] keeps it private."
    }
  }
}

resource "aws_iam_openid_connect_provider" "this" {
  count = var.oidc_provider_arn == null ? 1 : 0

  url            = local.issuer
  client_id_list = ["sts.amazonaws.com"]
}
