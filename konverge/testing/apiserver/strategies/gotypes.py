"""What Go's struct definitions say of Kubernetes' fields and OpenAPI does not; made by tools/record/go_types.py.

Promises: facts only, read lazily. A line names a struct (group, version, name) and the fields that have marks; an indented line continues
it. `*` a pointer, so that a zero value stays; `?` dropped when zero though the schema has a default or requires it; `!` always written,
null if it must be; `=T` its Go type where OpenAPI does not tell; `^E` the embedded struct that it comes from (decode errors name it).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from konverge.testing.apiserver.nodes import Node

__all__ = ["Mark", "go_name", "marks"]


class Mark(NamedTuple):
    """What Go says of one field."""

    pointer: bool = False
    omitted: bool = False
    kept: bool = False
    type: str = ""
    embedded: str = ""


def go_name(node: Node) -> tuple[str, str, str]:
    """Return (group, version, struct) of a definition of Kubernetes' own, ("", "v1", name) of any other."""
    parts = node.reference.split(".")
    if len(parts) >= 3 and re.fullmatch(r"v\d\w*", parts[-2]):
        return parts[-3], parts[-2], parts[-1]
    return "", "v1", parts[-1]


def marks(node: Node) -> dict[str, Mark]:
    """Return the marks of the fields of a struct; {} where there are none."""
    return _table().get(".".join(go_name(node)), {})


@cache
def _table() -> dict[str, dict[str, Mark]]:
    lines = _TABLE.replace("\n  ", " ").strip().splitlines()
    return {line.partition(" ")[0]: _marks(line.split()[1:]) for line in lines}


def _marks(words: list[str]) -> dict[str, Mark]:
    found = {}
    for word in words:
        rest, _, embedded = word.partition("^")
        rest, _, type_ = rest.partition("=")
        name = rest.rstrip("*?!")
        signs = rest[len(name) :]
        found[name] = Mark("*" in signs, "?" in signs, "!" in signs, type_, embedded)
    return found


_TABLE: Final = """
admissionregistration.v1.MatchResources matchPolicy*=v1.MatchPolicyType
admissionregistration.v1.MutatingAdmissionPolicySpec failurePolicy*=v1.FailurePolicyType
  reinvocationPolicy=v1.ReinvocationPolicyType
admissionregistration.v1.MutatingWebhook failurePolicy*=v1.FailurePolicyType matchPolicy*=v1.MatchPolicyType
  sideEffects*=v1.SideEffectClass timeoutSeconds* reinvocationPolicy*=v1.ReinvocationPolicyType
admissionregistration.v1.Mutation patchType=v1.PatchType
admissionregistration.v1.NamedRuleWithOperations operations=[]v1.OperationType^RuleWithOperations
  apiGroups^RuleWithOperations.Rule apiVersions^RuleWithOperations.Rule resources^RuleWithOperations.Rule
  scope*=v1.ScopeType^RuleWithOperations.Rule
admissionregistration.v1.ParamRef parameterNotFoundAction*=v1.ParameterNotFoundActionType
admissionregistration.v1.RuleWithOperations operations=[]v1.OperationType apiGroups^Rule apiVersions^Rule
  resources^Rule scope*=v1.ScopeType^Rule
admissionregistration.v1.ServiceReference path* port*
admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec validationActions?=[]v1.ValidationAction
admissionregistration.v1.ValidatingAdmissionPolicySpec failurePolicy*=v1.FailurePolicyType
admissionregistration.v1.ValidatingWebhook failurePolicy*=v1.FailurePolicyType matchPolicy*=v1.MatchPolicyType
  sideEffects*=v1.SideEffectClass timeoutSeconds*
admissionregistration.v1.Validation reason*=v1.StatusReason
admissionregistration.v1.WebhookClientConfig url*
apps.v1.DaemonSetCondition type=v1.DaemonSetConditionType status=v1.ConditionStatus lastTransitionTime!
apps.v1.DaemonSetSpec revisionHistoryLimit*
apps.v1.DaemonSetStatus collisionCount*
apps.v1.DaemonSetUpdateStrategy type=v1.DaemonSetUpdateStrategyType
apps.v1.DeploymentCondition type=v1.DeploymentConditionType status=v1.ConditionStatus lastUpdateTime!
  lastTransitionTime!
apps.v1.DeploymentSpec replicas* revisionHistoryLimit* progressDeadlineSeconds*
apps.v1.DeploymentStatus terminatingReplicas* collisionCount*
apps.v1.DeploymentStrategy type=v1.DeploymentStrategyType
apps.v1.ReplicaSetCondition type=v1.ReplicaSetConditionType status=v1.ConditionStatus lastTransitionTime!
apps.v1.ReplicaSetSpec replicas*
apps.v1.ReplicaSetStatus terminatingReplicas*
apps.v1.RollingUpdateStatefulSetStrategy partition*
apps.v1.StatefulSetCondition type=v1.StatefulSetConditionType status=v1.ConditionStatus lastTransitionTime!
apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted=v1.PersistentVolumeClaimRetentionPolicyType
  whenScaled=v1.PersistentVolumeClaimRetentionPolicyType
apps.v1.StatefulSetSpec replicas* podManagementPolicy=v1.PodManagementPolicyType revisionHistoryLimit*
apps.v1.StatefulSetStatus collisionCount*
apps.v1.StatefulSetUpdateStrategy type=v1.StatefulSetUpdateStrategyType
authentication.v1.BoundObjectReference uid=types.UID
authentication.v1.TokenRequestSpec audiences! expirationSeconds*
authentication.v1.TokenRequestStatus expirationTimestamp!
authentication.v1.UserInfo extra=map[string]v1.ExtraValue
authorization.v1.SubjectAccessReviewSpec extra=map[string]v1.ExtraValue
autoscaling.v1.HorizontalPodAutoscalerSpec minReplicas* targetCPUUtilizationPercentage*
autoscaling.v1.HorizontalPodAutoscalerStatus observedGeneration* currentCPUUtilizationPercentage*
autoscaling.v1.ScaleSpec replicas?
autoscaling.v2.ContainerResourceMetricSource name=v1.ResourceName
autoscaling.v2.ContainerResourceMetricStatus name=v1.ResourceName
autoscaling.v2.HPAScalingPolicy type=v2.HPAScalingPolicyType
autoscaling.v2.HPAScalingRules stabilizationWindowSeconds* selectPolicy*=v2.ScalingPolicySelect
autoscaling.v2.HorizontalPodAutoscalerCondition type=v2.HorizontalPodAutoscalerConditionType
  status=v1.ConditionStatus lastTransitionTime!
autoscaling.v2.HorizontalPodAutoscalerSpec minReplicas*
autoscaling.v2.HorizontalPodAutoscalerStatus observedGeneration* currentMetrics!
autoscaling.v2.MetricSpec type=v2.MetricSourceType
autoscaling.v2.MetricStatus type=v2.MetricSourceType
autoscaling.v2.MetricTarget type=v2.MetricTargetType averageUtilization*
autoscaling.v2.MetricValueStatus averageUtilization*
autoscaling.v2.ResourceMetricSource name=v1.ResourceName
autoscaling.v2.ResourceMetricStatus name=v1.ResourceName
batch.v1.CronJobSpec timeZone* startingDeadlineSeconds* concurrencyPolicy=v1.ConcurrencyPolicy suspend*
  successfulJobsHistoryLimit* failedJobsHistoryLimit*
batch.v1.JobCondition type=v1.JobConditionType status=v1.ConditionStatus lastProbeTime! lastTransitionTime!
batch.v1.JobSpec parallelism* completions* activeDeadlineSeconds* backoffLimit* backoffLimitPerIndex*
  maxFailedIndexes* manualSelector* ttlSecondsAfterFinished* completionMode*=v1.CompletionMode suspend*
  podReplacementPolicy*=v1.PodReplacementPolicy managedBy*
batch.v1.JobStatus terminating* failedIndexes* ready*
batch.v1.PodFailurePolicyOnExitCodesRequirement containerName* operator=v1.PodFailurePolicyOnExitCodesOperator
batch.v1.PodFailurePolicyOnPodConditionsPattern type=v1.PodConditionType status=v1.ConditionStatus
batch.v1.PodFailurePolicyRule action=v1.PodFailurePolicyAction
batch.v1.SuccessPolicyRule succeededIndexes* succeededCount*
batch.v1.UncountedTerminatedPods succeeded=[]types.UID failed=[]types.UID
certificates.v1.CertificateSigningRequestCondition type=v1.RequestConditionType status=v1.ConditionStatus
  lastUpdateTime! lastTransitionTime!
certificates.v1.CertificateSigningRequestSpec expirationSeconds* usages=[]v1.KeyUsage extra=map[string]v1.ExtraValue
coordination.v1.LeaseSpec holderIdentity* leaseDurationSeconds* leaseTransitions*
  strategy*=v1.CoordinatedLeaseStrategy preferredHolder*
core.v1.AppArmorProfile type=v1.AppArmorProfileType localhostProfile*
core.v1.AttachedVolume name=v1.UniqueVolumeName
core.v1.AzureDiskVolumeSource cachingMode*=v1.AzureDataDiskCachingMode fsType* readOnly* kind*=v1.AzureDataDiskKind
core.v1.AzureFilePersistentVolumeSource secretNamespace*
core.v1.CSIVolumeSource readOnly* fsType*
core.v1.Capabilities add=[]v1.Capability drop=[]v1.Capability
core.v1.ClientIPConfig timeoutSeconds*
core.v1.ClusterTrustBundleProjection name* signerName* optional*
core.v1.ComponentCondition type=v1.ComponentConditionType status=v1.ConditionStatus
core.v1.ConfigMap immutable*
core.v1.ConfigMapEnvSource name?^LocalObjectReference optional*
core.v1.ConfigMapKeySelector name?^LocalObjectReference optional*
core.v1.ConfigMapNodeConfigSource uid=types.UID
core.v1.ConfigMapProjection name?^LocalObjectReference optional*
core.v1.ConfigMapVolumeSource name?^LocalObjectReference defaultMode* optional*
core.v1.Container restartPolicy*=v1.ContainerRestartPolicy terminationMessagePolicy=v1.TerminationMessagePolicy
  imagePullPolicy=v1.PullPolicy
core.v1.ContainerImage names!
core.v1.ContainerPort protocol?=v1.Protocol
core.v1.ContainerResizePolicy resourceName=v1.ResourceName restartPolicy=v1.ResourceResizeRestartPolicy
core.v1.ContainerRestartRule action=v1.ContainerRestartRuleAction
core.v1.ContainerRestartRuleOnExitCodes operator=v1.ContainerRestartRuleOnExitCodesOperator
core.v1.ContainerStateRunning startedAt!
core.v1.ContainerStateTerminated startedAt! finishedAt!
core.v1.ContainerStatus started* allocatedResources=v1.ResourceList stopSignal*=v1.Signal
core.v1.DownwardAPIVolumeFile mode*
core.v1.DownwardAPIVolumeSource defaultMode*
core.v1.EmptyDirVolumeSource medium=v1.StorageMedium
core.v1.EndpointAddress nodeName*
core.v1.EndpointPort protocol=v1.Protocol appProtocol*
core.v1.EphemeralContainer name^EphemeralContainerCommon image^EphemeralContainerCommon
  command^EphemeralContainerCommon args^EphemeralContainerCommon workingDir^EphemeralContainerCommon
  ports^EphemeralContainerCommon envFrom^EphemeralContainerCommon env^EphemeralContainerCommon
  resources^EphemeralContainerCommon resizePolicy^EphemeralContainerCommon
  restartPolicy*=v1.ContainerRestartPolicy^EphemeralContainerCommon restartPolicyRules^EphemeralContainerCommon
  volumeMounts^EphemeralContainerCommon volumeDevices^EphemeralContainerCommon
  livenessProbe^EphemeralContainerCommon readinessProbe^EphemeralContainerCommon
  startupProbe^EphemeralContainerCommon lifecycle^EphemeralContainerCommon
  terminationMessagePath^EphemeralContainerCommon
  terminationMessagePolicy=v1.TerminationMessagePolicy^EphemeralContainerCommon
  imagePullPolicy=v1.PullPolicy^EphemeralContainerCommon securityContext^EphemeralContainerCommon
  stdin^EphemeralContainerCommon stdinOnce^EphemeralContainerCommon tty^EphemeralContainerCommon
core.v1.Event firstTimestamp! lastTimestamp! eventTime!
core.v1.EventSeries lastObservedTime!
core.v1.FCVolumeSource lun*
core.v1.FileKeySelector optional*
core.v1.GRPCAction service*
core.v1.GlusterfsPersistentVolumeSource endpointsNamespace*
core.v1.HTTPGetAction scheme=v1.URIScheme
core.v1.HostPathVolumeSource type*=v1.HostPathType
core.v1.ISCSIPersistentVolumeSource iscsiInterface? initiatorName*
core.v1.ISCSIVolumeSource iscsiInterface? initiatorName*
core.v1.ImageVolumeSource pullPolicy=v1.PullPolicy
core.v1.KeyToPath mode*
core.v1.Lifecycle stopSignal*=v1.Signal
core.v1.LimitRangeItem type=v1.LimitType max=v1.ResourceList min=v1.ResourceList default=v1.ResourceList
  defaultRequest=v1.ResourceList maxLimitRequestRatio=v1.ResourceList
core.v1.LoadBalancerIngress ipMode*=v1.LoadBalancerIPMode
core.v1.LocalObjectReference name?
core.v1.LocalVolumeSource fsType*
core.v1.ModifyVolumeStatus status=v1.PersistentVolumeClaimModifyVolumeStatus
core.v1.NamespaceCondition type=v1.NamespaceConditionType status=v1.ConditionStatus lastTransitionTime!
core.v1.NamespaceSpec finalizers=[]v1.FinalizerName
core.v1.NamespaceStatus phase=v1.NamespacePhase
core.v1.NodeAddress type=v1.NodeAddressType
core.v1.NodeAllocatableResourceClaimStatus resources=map[ResourceName]resource.Quantity
core.v1.NodeCondition type=v1.NodeConditionType status=v1.ConditionStatus lastHeartbeatTime! lastTransitionTime!
core.v1.NodeFeatures supplementalGroupsPolicy*
core.v1.NodeRuntimeHandlerFeatures recursiveReadOnlyMounts* userNamespaces*
core.v1.NodeSelectorRequirement operator=v1.NodeSelectorOperator
core.v1.NodeStatus capacity=v1.ResourceList allocatable=v1.ResourceList phase=v1.NodePhase
  volumesInUse=[]v1.UniqueVolumeName
core.v1.NodeSwapStatus capacity*
core.v1.ObjectReference uid=types.UID
core.v1.PersistentVolumeClaimCondition type=v1.PersistentVolumeClaimConditionType status=v1.ConditionStatus
  lastProbeTime! lastTransitionTime!
core.v1.PersistentVolumeClaimSpec accessModes=[]v1.PersistentVolumeAccessMode storageClassName*
  volumeMode*=v1.PersistentVolumeMode volumeAttributesClassName*
core.v1.PersistentVolumeClaimStatus phase=v1.PersistentVolumeClaimPhase accessModes=[]v1.PersistentVolumeAccessMode
  capacity=v1.ResourceList allocatedResources=v1.ResourceList
  allocatedResourceStatuses=map[ResourceName]v1.ClaimResourceStatus currentVolumeAttributesClassName*
core.v1.PersistentVolumeSpec capacity=v1.ResourceList gcePersistentDisk^PersistentVolumeSource
  awsElasticBlockStore^PersistentVolumeSource hostPath^PersistentVolumeSource glusterfs^PersistentVolumeSource
  nfs^PersistentVolumeSource rbd^PersistentVolumeSource iscsi^PersistentVolumeSource cinder^PersistentVolumeSource
  cephfs^PersistentVolumeSource fc^PersistentVolumeSource flocker^PersistentVolumeSource
  flexVolume^PersistentVolumeSource azureFile^PersistentVolumeSource vsphereVolume^PersistentVolumeSource
  quobyte^PersistentVolumeSource azureDisk^PersistentVolumeSource photonPersistentDisk^PersistentVolumeSource
  portworxVolume^PersistentVolumeSource scaleIO^PersistentVolumeSource local^PersistentVolumeSource
  storageos^PersistentVolumeSource csi^PersistentVolumeSource accessModes=[]v1.PersistentVolumeAccessMode
  persistentVolumeReclaimPolicy=v1.PersistentVolumeReclaimPolicy volumeMode*=v1.PersistentVolumeMode
  volumeAttributesClassName*
core.v1.PersistentVolumeStatus phase=v1.PersistentVolumePhase
core.v1.PodCertificateProjection maxExpirationSeconds*
core.v1.PodCondition type=v1.PodConditionType status=v1.ConditionStatus lastProbeTime! lastTransitionTime!
core.v1.PodDNSConfigOption value*
core.v1.PodOS name=v1.OSName
core.v1.PodReadinessGate conditionType=v1.PodConditionType
core.v1.PodResourceClaim resourceClaimName* resourceClaimTemplateName*
core.v1.PodResourceClaimStatus resourceClaimName*
core.v1.PodSchedulingGroup podGroupName*
core.v1.PodSecurityContext runAsUser* runAsGroup* runAsNonRoot*
  supplementalGroupsPolicy*=v1.SupplementalGroupsPolicy fsGroup* fsGroupChangePolicy*=v1.PodFSGroupChangePolicy
  seLinuxChangePolicy*=v1.PodSELinuxChangePolicy
core.v1.PodSpec restartPolicy=v1.RestartPolicy terminationGracePeriodSeconds* activeDeadlineSeconds*
  dnsPolicy=v1.DNSPolicy automountServiceAccountToken* shareProcessNamespace* priority* runtimeClassName*
  enableServiceLinks* preemptionPolicy*=v1.PreemptionPolicy overhead=v1.ResourceList setHostnameAsFQDN* hostUsers*
  hostnameOverride*
core.v1.PodStatus phase=v1.PodPhase qosClass=v1.PodQOSClass resize=v1.PodResizeStatus
  allocatedResources=v1.ResourceList
core.v1.PortStatus protocol=v1.Protocol error*
core.v1.Probe exec^ProbeHandler httpGet^ProbeHandler tcpSocket^ProbeHandler grpc^ProbeHandler
  terminationGracePeriodSeconds*
core.v1.ProjectedVolumeSource sources! defaultMode*
core.v1.RBDPersistentVolumeSource pool? user? keyring?
core.v1.RBDVolumeSource pool? user? keyring?
core.v1.ReplicationControllerCondition type=v1.ReplicationControllerConditionType status=v1.ConditionStatus
  lastTransitionTime!
core.v1.ReplicationControllerSpec replicas* minReadySeconds?
core.v1.ResourceFieldSelector divisor!
core.v1.ResourceHealth resourceID=v1.ResourceID health=v1.ResourceHealthStatus message*
core.v1.ResourceQuotaSpec hard=v1.ResourceList scopes=[]v1.ResourceQuotaScope
core.v1.ResourceQuotaStatus hard=v1.ResourceList used=v1.ResourceList
core.v1.ResourceRequirements limits=v1.ResourceList requests=v1.ResourceList
core.v1.ResourceStatus name=v1.ResourceName
core.v1.ScaleIOPersistentVolumeSource storageMode? fsType?
core.v1.ScaleIOVolumeSource storageMode? fsType?
core.v1.ScopedResourceSelectorRequirement scopeName=v1.ResourceQuotaScope operator=v1.ScopeSelectorOperator
core.v1.SeccompProfile type=v1.SeccompProfileType localhostProfile*
core.v1.Secret immutable* type=v1.SecretType
core.v1.SecretEnvSource name?^LocalObjectReference optional*
core.v1.SecretKeySelector name?^LocalObjectReference optional*
core.v1.SecretProjection name?^LocalObjectReference optional*
core.v1.SecretVolumeSource defaultMode* optional*
core.v1.SecurityContext privileged* runAsUser* runAsGroup* runAsNonRoot* readOnlyRootFilesystem*
  allowPrivilegeEscalation* procMount*=v1.ProcMountType
core.v1.ServiceAccount automountServiceAccountToken*
core.v1.ServiceAccountTokenProjection expirationSeconds*
core.v1.ServicePort protocol?=v1.Protocol appProtocol*
core.v1.ServiceSpec type=v1.ServiceType sessionAffinity=v1.ServiceAffinity
  externalTrafficPolicy=v1.ServiceExternalTrafficPolicy ipFamilies=[]v1.IPFamily ipFamilyPolicy*=v1.IPFamilyPolicy
  allocateLoadBalancerNodePorts* loadBalancerClass* internalTrafficPolicy*=v1.ServiceInternalTrafficPolicy
  trafficDistribution*
core.v1.Taint effect=v1.TaintEffect
core.v1.Toleration operator=v1.TolerationOperator effect=v1.TaintEffect tolerationSeconds*
core.v1.TopologySpreadConstraint whenUnsatisfiable=v1.UnsatisfiableConstraintAction minDomains*
  nodeAffinityPolicy*=v1.NodeInclusionPolicy nodeTaintsPolicy*=v1.NodeInclusionPolicy
core.v1.TypedLocalObjectReference apiGroup*
core.v1.TypedObjectReference apiGroup* namespace*
core.v1.Volume hostPath^VolumeSource emptyDir^VolumeSource gcePersistentDisk^VolumeSource
  awsElasticBlockStore^VolumeSource gitRepo^VolumeSource secret^VolumeSource nfs^VolumeSource iscsi^VolumeSource
  glusterfs^VolumeSource persistentVolumeClaim^VolumeSource rbd^VolumeSource flexVolume^VolumeSource
  cinder^VolumeSource cephfs^VolumeSource flocker^VolumeSource downwardAPI^VolumeSource fc^VolumeSource
  azureFile^VolumeSource configMap^VolumeSource vsphereVolume^VolumeSource quobyte^VolumeSource
  azureDisk^VolumeSource photonPersistentDisk^VolumeSource projected^VolumeSource portworxVolume^VolumeSource
  scaleIO^VolumeSource storageos^VolumeSource csi^VolumeSource ephemeral^VolumeSource image^VolumeSource
core.v1.VolumeMount recursiveReadOnly*=v1.RecursiveReadOnlyMode mountPropagation*=v1.MountPropagationMode
core.v1.VolumeMountStatus recursiveReadOnly*=v1.RecursiveReadOnlyMode
core.v1.VolumeResourceRequirements limits=v1.ResourceList requests=v1.ResourceList
core.v1.WindowsSecurityContextOptions gmsaCredentialSpecName* gmsaCredentialSpec* runAsUserName* hostProcess*
discovery.v1.Endpoint hostname* nodeName* zone*
discovery.v1.EndpointConditions ready* serving* terminating*
discovery.v1.EndpointPort name* protocol*=v1.Protocol port* appProtocol*
discovery.v1.EndpointSlice addressType=v1.AddressType endpoints! ports!
events.v1.Event eventTime! deprecatedFirstTimestamp! deprecatedLastTimestamp!
events.v1.EventSeries lastObservedTime!
flowcontrol.v1.ExemptPriorityLevelConfiguration nominalConcurrencyShares* lendablePercent*
flowcontrol.v1.FlowDistinguisherMethod type=v1.FlowDistinguisherMethodType
flowcontrol.v1.FlowSchemaCondition type=v1.FlowSchemaConditionType status=v1.ConditionStatus lastTransitionTime!
flowcontrol.v1.LimitResponse type=v1.LimitResponseType
flowcontrol.v1.LimitedPriorityLevelConfiguration nominalConcurrencyShares* lendablePercent* borrowingLimitPercent*
flowcontrol.v1.PriorityLevelConfigurationCondition type=v1.PriorityLevelConfigurationConditionType
  status=v1.ConditionStatus lastTransitionTime!
flowcontrol.v1.PriorityLevelConfigurationSpec type=v1.PriorityLevelEnablement
flowcontrol.v1.ResourcePolicyRule namespaces!
flowcontrol.v1.Subject kind=v1.SubjectKind
networking.v1.HTTPIngressPath pathType*=v1.PathType
networking.v1.IngressClassParametersReference apiGroup* scope* namespace*
networking.v1.IngressPortStatus protocol=v1.Protocol error*
networking.v1.IngressRule http^IngressRuleValue
networking.v1.IngressSpec ingressClassName*
networking.v1.NetworkPolicyPort protocol*=v1.Protocol endPort*
networking.v1.NetworkPolicySpec policyTypes=[]v1.PolicyType
node.v1.Overhead podFixed=v1.ResourceList
policy.v1.PodDisruptionBudgetSpec unhealthyPodEvictionPolicy*=v1.UnhealthyPodEvictionPolicyType
rbac.v1.ClusterRole rules!
rbac.v1.Role rules!
resource.v1.AllocatedDeviceStatus shareID* conditions!
resource.v1.CapacityRequestPolicy validValues=[]resource.Quantity
resource.v1.CapacityRequirements requests=map[QualifiedName]resource.Quantity
resource.v1.Counter value!
resource.v1.CounterSet counters?
resource.v1.Device attributes=map[QualifiedName]v1.DeviceAttribute capacity=map[QualifiedName]v1.DeviceCapacity
  nodeName* allNodes* bindsToNode* allowMultipleAllocations*
  nodeAllocatableResourceMappings=map[v1.ResourceName]v1.NodeAllocatableResourceMapping
resource.v1.DeviceAllocationConfiguration source=v1.AllocationConfigSource opaque^DeviceConfiguration
resource.v1.DeviceAttribute int* bool* string* version*
resource.v1.DeviceCapacity value!
resource.v1.DeviceClaim requests!
resource.v1.DeviceClaimConfiguration opaque^DeviceConfiguration
resource.v1.DeviceClassConfiguration opaque^DeviceConfiguration
resource.v1.DeviceClassSpec extendedResourceName*
resource.v1.DeviceConstraint matchAttribute*=v1.FullyQualifiedName distinctAttribute*=v1.FullyQualifiedName
resource.v1.DeviceCounterConsumption counters?
resource.v1.DeviceRequestAllocationResult adminAccess* shareID*=types.UID
  consumedCapacity=map[QualifiedName]resource.Quantity
resource.v1.DeviceSubRequest allocationMode=v1.DeviceAllocationMode
resource.v1.DeviceTaint effect=v1.DeviceTaintEffect
resource.v1.DeviceToleration operator?=v1.DeviceTolerationOperator effect=v1.DeviceTaintEffect tolerationSeconds*
resource.v1.ExactDeviceRequest allocationMode=v1.DeviceAllocationMode adminAccess*
resource.v1.NodeAllocatableResourceMapping capacityKey*=v1.QualifiedName
resource.v1.ResourceClaimConsumerReference uid=types.UID
resource.v1.ResourceSliceSpec nodeName* allNodes* perDeviceNodeSelection*
scheduling.v1.PriorityClass preemptionPolicy*=apiv1.PreemptionPolicy
storage.v1.CSIDriverSpec attachRequired* podInfoOnMount* volumeLifecycleModes=[]v1.VolumeLifecycleMode
  storageCapacity* fsGroupPolicy*=v1.FSGroupPolicy requiresRepublish* seLinuxMount*
  nodeAllocatableUpdatePeriodSeconds* serviceAccountTokenInSecrets* preventPodSchedulingIfMissing*
storage.v1.CSINodeDriver topologyKeys!
storage.v1.StorageClass reclaimPolicy*=v1.PersistentVolumeReclaimPolicy allowVolumeExpansion*
  volumeBindingMode*=v1.VolumeBindingMode
storage.v1.TokenRequest expirationSeconds*
storage.v1.VolumeAttachmentSource persistentVolumeName*
storage.v1.VolumeError time! errorCode*
storage.v1.VolumeNodeResources count*
apiextensions.v1.CustomResourceConversion strategy=v1.ConversionStrategyType
apiextensions.v1.CustomResourceDefinitionCondition type=v1.CustomResourceDefinitionConditionType
  status=v1.ConditionStatus lastTransitionTime!
apiextensions.v1.CustomResourceDefinitionSpec scope=v1.ResourceScope
apiextensions.v1.CustomResourceDefinitionStatus conditions! storedVersions!
apiextensions.v1.CustomResourceDefinitionVersion deprecationWarning*
apiextensions.v1.CustomResourceSubresourceScale labelSelectorPath*
apiextensions.v1.JSONSchemaProps $schema=v1.JSONSchemaURL $ref* maximum* minimum* maxLength* minLength* maxItems*
  minItems* multipleOf* maxProperties* minProperties* dependencies=v1.JSONSchemaDependencies
  definitions=v1.JSONSchemaDefinitions x-kubernetes-preserve-unknown-fields* x-kubernetes-list-type*
  x-kubernetes-map-type* x-kubernetes-validations=v1.ValidationRules
apiextensions.v1.ServiceReference path* port*
apiextensions.v1.ValidationRule reason*=v1.FieldValueErrorReason optionalOldSelf*
apiextensions.v1.WebhookClientConfig url*
meta.v1.APIResource verbs=v1.Verbs
meta.v1.Condition status=v1.ConditionStatus lastTransitionTime!
meta.v1.DeleteOptions gracePeriodSeconds* orphanDependents* propagationPolicy*=v1.DeletionPropagation
  ignoreStoreReadErrorWithClusterBreakingPotential*
meta.v1.FieldSelectorRequirement operator=v1.FieldSelectorOperator
meta.v1.LabelSelectorRequirement operator=v1.LabelSelectorOperator
meta.v1.ListMeta remainingItemCount*
meta.v1.ManagedFieldsEntry operation=v1.ManagedFieldsOperationType
meta.v1.ObjectMeta uid=types.UID deletionGracePeriodSeconds*
meta.v1.OwnerReference uid=types.UID controller* blockOwnerDeletion*
meta.v1.Preconditions uid*=types.UID resourceVersion*
meta.v1.Status reason=v1.StatusReason
meta.v1.StatusCause reason=v1.CauseType
meta.v1.StatusDetails uid=types.UID
"""
