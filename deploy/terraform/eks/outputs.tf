output "cluster_name" {
  description = "The cluster, made or taken."
  value       = local.cluster_name
}

output "kubeconfig_command" {
  description = "What makes kubectl talk to it."
  value       = "aws eks update-kubeconfig --region ${var.region} --name ${local.cluster_name}"
}

output "auto_scaling_groups" {
  description = "The Auto Scaling group of each node group: where the autoscaler's tags are."
  value       = module.node_groups.auto_scaling_groups
}

output "autoscaler_role_arn" {
  description = "The IAM role with which Cluster Autoscaler calls AWS."
  value       = module.node_groups.autoscaler_role_arn
}

output "subnet_ids" {
  description = "Where nodes are made."
  value       = local.subnet_ids
}
