"""Rights that are taken from the operator of Operations, and given back."""

from apps.engine_shop import EngineShop
from apps.operations import shows

from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Match, Refuse, Rule

USER = 'User "system:serviceaccount:konverge:konverge"'
LACKING = shows("Blocked", "True", "RbacProfileMissing")


class NarrowShop(EngineShop):
    """Policies of namespaces are off, so that only Velero reads namespaces."""

    @property
    def settings(self) -> OperationSettings:
        return super().settings.model_copy(update={"namespace_policy": False})


def deny(lab: Lab, verb: str, resource: str, group: str = "") -> Rule:
    """Take a right from the operator until the rule is removed."""
    text = f'{resource} "x" is forbidden: {USER} cannot {verb} resource "{resource}" in API group "{group}" at the cluster scope'
    where = f"{resource}.{group}" if group else resource
    match = Match(verbs=(verb,), resources=(where,), user_agent="konverge *")
    rule = Rule(match, Refuse(status=403, reason="Forbidden", message=text))
    lab.server.faults.add(rule)
    return rule


def grant(lab: Lab, *denied: Rule) -> None:
    """Give rights back."""
    for rule in denied:
        lab.server.faults.remove(rule)
