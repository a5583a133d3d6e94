# The groups that start from nothing are in node-groups/, written by `fairlead nodegroups terraform`.

locals {
  create_system_group = var.create_system_group == null ? var.create_cluster : var.create_system_group
}

module "node_groups" {
  source = "./node-groups"

  cluster_name         = local.cluster_name
  subnet_ids           = local.subnet_ids
  oidc_provider_arn    = local.oidc_provider_arn
  autoscaler_namespace = "kube-system"
}

# The autoscaler cannot bring the node that it would run on itself, and the nodes of other groups are tainted.
# EKS puts the tags of its discovery on every managed group, so it looks after this one, too.
resource "aws_eks_node_group" "system" {
  count = local.create_system_group ? 1 : 0

  cluster_name    = local.cluster_name
  node_group_name = "system"
  node_role_arn   = module.node_groups.node_role_arn
  subnet_ids      = local.subnet_ids
  instance_types  = var.system_instance_types

  scaling_config {
    min_size     = 1
    desired_size = 1
    max_size     = 2
  }

  lifecycle {
    ignore_changes = [scaling_config[0].desired_size]
  }

  # Its nodes have no other way out.
  depends_on = [
    aws_route_table_association.private,
    aws_route_table_association.public,
  ]
}
