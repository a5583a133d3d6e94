variable "region" {
  description = "Where all of it is."
  type        = string
}

variable "cluster_name" {
  description = "The EKS cluster, made or taken."
  type        = string
  default     = "fairlead"

  validation {
    condition     = can(regex("^[0-9A-Za-z][-0-9A-Za-z_]{0,99}$", var.cluster_name))
    error_message = "At most 100 letters, digits, - and _, the first a letter or a digit."
  }
}

variable "create_cluster" {
  description = "Whether to make the cluster; false takes the one of that name."
  type        = bool
  default     = true
}

variable "kubernetes_version" {
  description = "Of a cluster that is made."
  type        = string
  default     = "1.36"
}

variable "public_access_cidrs" {
  description = "Who may reach the API server of a cluster that is made, beside its own VPC: to be said for one; [] keeps it private."
  type        = list(string)
  default     = null
}

variable "subnet_ids" {
  description = "Subnets of a VPC to take, in two zones or more. Without any, those of the cluster that is taken, or of a VPC that is made."
  type        = list(string)
  default     = []
}

variable "vpc_cidr" {
  description = "Of a VPC that is made."
  type        = string
  default     = "10.0.0.0/16"
}

variable "zones" {
  description = "In how many zones a VPC that is made has subnets."
  type        = number
  default     = 2

  validation {
    condition     = var.zones >= 2 && var.zones <= 4
    error_message = "EKS needs two; more than four do not fit into the VPC's addresses as they are divided here."
  }
}

variable "oidc_provider_arn" {
  description = "The OIDC provider in IAM of a cluster that is taken, if it has one; otherwise it is made."
  type        = string
  default     = null
}

variable "create_system_group" {
  description = "Whether to make a group of nodes without taints, for CoreDNS and the autoscaler itself. By default where the cluster is made."
  type        = bool
  default     = null
}

variable "system_instance_types" {
  description = "What the nodes of that group are."
  type        = list(string)
  default     = ["t3a.medium"]
}

variable "autoscaler_version" {
  description = "Cluster Autoscaler, of the same minor version as the cluster."
  type        = string
  default     = "1.36.1"

  # Earlier ones take the EKS API's NO_SCHEDULE as it is, and then believe that a taint keeps no pod away.
  validation {
    condition     = can(regex("^1\\.(3[1-9]|[4-9][0-9])\\.[0-9]+$", var.autoscaler_version))
    error_message = "A version like 1.36.1, 1.31.0 at least."
  }
}

variable "autoscaler_chart_version" {
  description = "Its Helm chart; the newest unless it is said."
  type        = string
  default     = null
}

variable "tags" {
  description = "On everything that is made."
  type        = map(string)
  default     = {}
}
