"""The settings' part about pods, as the core takes it."""

from __future__ import annotations

from cluster.settings import Settings
from hami_hub.core.names import ResourceNames
from hami_hub.core.pods import PodRules
from hami_hub.core.resources import RequestDefaults
from hami_hub.core.slices import CardPolicy, CorePolicy, NodePolicy
from hami_hub.core.units import Mib, Percent


def pod_rules(settings: Settings) -> PodRules:
    """What `settings` say about pods."""
    resources, scheduler = settings.resources, settings.scheduler
    return PodRules(
        names=ResourceNames(
            count=resources.count,
            memory=resources.memory,
            memory_percentage=resources.memory_percentage,
            cores=resources.cores,
            priority=resources.priority,
        ),
        defaults=RequestDefaults(
            memory=Mib(scheduler.default_mem),
            cores=Percent(scheduler.default_cores),
            count=scheduler.default_gpu_num,
            card_policy=CardPolicy(scheduler.gpu_policy),
            core_policy=CorePolicy(scheduler.core_policy),
        ),
        scheduler_name=scheduler.name,
        take_over=scheduler.take_over,
        node_policy=NodePolicy(scheduler.node_policy),
    )
