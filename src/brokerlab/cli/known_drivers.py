"""What the report is told of the drivers, without looking for what is installed: results may come from elsewhere."""

from brokerlab.brokers.base import Broker
from brokerlab.brokers.images import ImageBroker
from brokerlab.brokers.registry import DRIVERS
from brokerlab.brokers.source import (
    Archive,
    ContainerImage,
    Crate,
    Debian,
    DebianSuite,
    Elsewhere,
    GoModule,
    Maven,
    Npm,
    PyPI,
    Shipped,
    Source,
)
from brokerlab.report.drivers import KnownDriver


def known_drivers() -> tuple[KnownDriver, ...]:
    return tuple(_known(broker) for broker in DRIVERS.values())


def _known(broker: Broker) -> KnownDriver:
    abilities, is_image = broker.abilities, isinstance(broker.source, ContainerImage)
    return KnownDriver(
        name=broker.name,
        comes_from=_comes_from(broker.source),
        licence=abilities.licence,
        is_image=is_image,
        is_tried=_is_tried(broker),
        has_clusters=abilities.has_clusters,
        has_bridges=abilities.has_bridges,
        departs=tuple(str(each) for each in abilities.departs),
    )


def _is_tried(broker: Broker) -> bool:
    return bool(broker.recipe.tried) if isinstance(broker, ImageBroker) else not isinstance(broker.source, Elsewhere)


def _comes_from(source: Source) -> str:
    match source:
        case Shipped():
            return "with brokerlab"
        case ContainerImage():
            return f"container image {source.image}".rstrip()
        case Elsewhere():
            return "not installed by brokerlab"
        case Debian():
            return f"Debian package {source.packages[0]}"
        case DebianSuite():
            return f"package {source.packages[0]} of Debian {source.suite}"
        case PyPI():
            return f"PyPI {source.requirements[0]}"
        case Npm():
            return "npm " + next(f"{name} {version}" for name, version in source.packages.items())
        case Maven():
            return f"Maven {source.artifacts[0]}"
        case Archive():
            return f"Maven {source.artifact}"
        case GoModule():
            return f"Go module {source.module} {source.version}"
        case Crate():
            return f"crate {source.crate} {source.version}"
