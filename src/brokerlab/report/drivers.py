"""What the report must know of the drivers; handed in, because report imports no broker."""

from dataclasses import dataclass

from brokerlab.published.values import language_of


@dataclass(frozen=True, slots=True)
class KnownDriver:
    """What one driver says of its broker."""

    name: str  # with @version where it is not the first
    comes_from: str  # "Debian package mosquitto"
    licence: str = ""
    is_image: bool = False
    is_tried: bool = True  # False: its broker could not be had where brokerlab was tested
    has_clusters: bool = False
    has_bridges: bool = False
    departs: tuple[str, ...] = ()  # points of MQTT that it does not keep, as the contract suite proves

    @property
    def broker(self) -> str:
        """Its name without the version."""
        return self.name.split("@", maxsplit=1)[0]

    @property
    def language(self) -> str | None:
        return language_of(self.broker)
