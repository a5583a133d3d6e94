# Cluster Autoscaler, which finds the groups by the tags on their Auto Scaling groups.

resource "helm_release" "autoscaler" {
  name       = "cluster-autoscaler"
  namespace  = "kube-system"
  repository = "https://kubernetes.github.io/autoscaler"
  chart      = "cluster-autoscaler"
  version    = var.autoscaler_chart_version

  values = [yamlencode({
    fullnameOverride = "cluster-autoscaler"
    cloudProvider    = "aws"
    awsRegion        = var.region

    autoDiscovery = {
      clusterName = local.cluster_name
    }

    image = {
      tag = "v${var.autoscaler_version}"
    }

    rbac = {
      serviceAccount = {
        name = "cluster-autoscaler"
        annotations = {
          "eks.amazonaws.com/role-arn" = module.node_groups.autoscaler_role_arn
        }
      }
    }

    extraArgs = {
      expander = "least-waste"
      # By default a group at zero is taken, for ten years, to be what its last node was.
      node-info-cache-expire-time = "10m"
    }
  })]

  # It needs a node to run on, and groups to find.
  depends_on = [
    aws_eks_node_group.system,
    module.node_groups,
  ]
}
