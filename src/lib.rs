//! Cloud servers as Kubernetes objects.
