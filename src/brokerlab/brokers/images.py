"""Brokers from container images: any one by the driver `image`, and those that recipes.py knows by their names.

    image    options: image (name:tag), port (the one that it listens on, 1883 where it is not said), env, command,
             files ({path in the container: text}), data ([folders]). {host} and {port} may be used in all texts, for an
             image that can be told where to listen; one that cannot is measured in a namespace of ours, where every
             port is free.
    emqx …   options: image, env, and what a recipe asks for

Stock is the image as it is. The container's engine gives limits and logs (container.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from brokerlab.brokers import engine
from brokerlab.brokers.base import OPEN, Abilities, Counter, Found, Group, Image, Missing, Node, Seat, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.port import free_port
from brokerlab.brokers.recipes import RECIPES, Recipe
from brokerlab.brokers.source import ContainerImage
from brokerlab.brokers.telling import prometheus
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice

_NOT_TRIED = "its image could not be had where brokerlab was tested, so this was never tried"
_LOOPBACK = "127."
_OPTIONS = ("image", "env")


class ImageBroker:
    """Implements Broker for one recipe."""

    def __init__(self, name: str, recipe: Recipe) -> None:
        self.name, self.recipe = name, recipe
        note = f"; {recipe.note}" if recipe.note else ""
        tried = f"tried {recipe.tried}" if recipe.tried else _NOT_TRIED
        self.source = ContainerImage(f"docker pull {recipe.image}; {tried}{note}", recipe.image)
        self.abilities = Abilities(
            qos=recipe.qos,
            protocols=recipe.protocols,
            options=(*_OPTIONS, *([recipe.accepts] if recipe.accepts else [])),
            has_shared_subscriptions="5.0" in recipe.protocols,
            is_scalable=True,
            has_clusters=bool(recipe.cluster or recipe.cluster_file),
            most_nodes=recipe.most_nodes,
            licence=recipe.licence,
        )

    def find(self) -> Found | Missing:
        return found_image(self.recipe.image)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        del folder
        words = {"host": host, "port": str(port), "spare": str(free_port_or(host)), "index": "0"}
        return self._node(choice, words, files=self.recipe.files)

    def _node(
        self,
        choice: BrokerChoice,
        words: Mapping[str, str],
        *,
        files: Mapping[str, str],
        env: Mapping[str, str] | None = None,
    ) -> Node:
        recipe = self.recipe
        if recipe.fixed_port is not None and int(words["port"]) != recipe.fixed_port:
            raise UserError(
                f"broker {choice.name}: {choice.driver} listens on port {recipe.fixed_port} only",
                hint="give the study a topology with sites, so that it is in a namespace of its own",
            )
        named = env_option(choice, "env")
        if recipe.accepts and not choice.options.get(recipe.accepts):
            raise UserError(
                f"broker {choice.name}: {choice.driver} wants the option {recipe.accepts}, which only you can give",
                hint=f"options: {{{recipe.accepts}: …}}",
            )
        own = {"eula": "DOCKER_VERNEMQ_ACCEPT_EULA", "licence": "EMITTER_LICENSE"}.get(recipe.accepts)
        told = {own: _said(choice.options[recipe.accepts])} if own else {}
        every = {**recipe.env, **(env or {})}
        return container_node(
            image=str(choice.options.get("image", recipe.image)),
            argv=tuple(each.format_map(words) for each in recipe.argv),
            env={name: text.format_map(words) for name, text in every.items()} | told | named,
            files={path: text.format_map(words) for path, text in files.items()},
            data=recipe.data,
            host=words["host"],
            port=int(words["port"]),
            page=f"http://{words['host']}:{words['spare']}{recipe.page}" if recipe.page else None,
            ready_s=recipe.ready_s,
        )


class ClusteredImage(ImageBroker):
    """Implements Clusters too."""

    def cluster(self, choice: BrokerChoice, seats: Sequence[Seat], *, security: Security = OPEN) -> Group:
        check_choice(choice, self.abilities, security)
        if any(seat.host.startswith(_LOOPBACK) for seat in seats):
            raise UserError(
                f"broker {choice.name}: the nodes of {choice.driver} need an address each",
                hint="give the study a topology with sites, so that each node is in a namespace of its own",
            )
        every = self.recipe.between.join(self.recipe.spells.format(host=seat.host) for seat in seats)
        nodes = tuple(
            self._node(
                choice,
                {
                    "host": seat.host,
                    "port": str(seat.port),
                    "spare": str(seat.spare[0]),
                    "index": str(seat.index),
                    "first": seats[0].host,
                    "all": every,
                },
                files=self.recipe.cluster_file or self.recipe.files,
                env={} if self.recipe.is_joined and seat is seats[0] else self.recipe.cluster,
            )
            for seat in seats
        )
        return Group(nodes)


class ToldImage(ImageBroker):
    """Implements Counts too: on topics."""

    def counters(self) -> tuple[Counter, ...]:
        return self.recipe.counters


class CountedImage(ClusteredImage):
    """Implements CountsOnPage too."""

    def counters(self) -> tuple[Counter, ...]:
        return self.recipe.counters

    def read_page(self, text: str) -> Mapping[str, float]:
        return prometheus(text)


class AnyImage:
    """Implements Broker for an image that the study names."""

    name = "image"
    source = ContainerImage("nothing: name an image that your container engine has (options: {image: name:tag})")
    abilities = Abilities(
        protocols=("3.1", "3.1.1", "5.0"),
        options=("image", "port", "env", "command", "files", "data"),
        has_shared_subscriptions=True,
        is_scalable=True,
        licence="that of the image",
    )

    def find(self) -> Found | Missing:
        """Whether there is an engine; which image is known only in a study."""
        try:
            with_engine = engine.connect()
        except UserError as problem:
            return Missing(problem.message, hint=problem.hint or self.source.how)
        version = str(with_engine.client.version().get("Version", "?"))
        with_engine.client.close()
        return Found(program=with_engine.address, version=f"engine {version}")

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        del folder
        image, env = _named_image(choice), env_option(choice, "env")
        command, data = _texts(choice, "command"), _texts(choice, "data")
        files = env_option(choice, "files")
        is_told = any("{port}" in each for each in (*command, *files.values(), *env.values()))
        _require_port(choice, port, choice.options.get("port", 1883), is_told=is_told)
        words = {"host": host, "port": str(port)}
        return container_node(
            image=image,
            argv=tuple(_filled(each, words) for each in command),
            env={name: _filled(text, words) for name, text in env.items()},
            files={path: _filled(text, words) for path, text in files.items()},
            data=data,
            host=host,
            port=port,
        )


def container_node(
    *,
    image: str,
    argv: tuple[str, ...],
    env: Mapping[str, str],
    files: Mapping[str, str],
    data: tuple[str, ...],
    host: str,
    port: int,
    page: str | None = None,
    ready_s: float = 30.0,
) -> Node:
    """The node of a container; its files lie in the node's folder by their place in the container."""
    names = {path: path.strip("/") for path in files}
    return Node(
        argv=argv,
        host=host,
        port=port,
        env=env,
        files={names[path]: text for path, text in files.items()},
        image=Image(image, mounts={name: path for path, name in names.items()}, data=data),
        page=page,
        ready_s=ready_s,
        stop_s=10.0,
    )


def found_image(image: str) -> Found | Missing:
    """Whether the user's engine has it."""
    name = engine.with_tag(image)
    try:
        if name in engine.images():
            return Found(program=name, version=name.rpartition(":")[2])
    except UserError as problem:
        return Missing(problem.message, hint=problem.hint or "")
    return Missing(f"the container engine has no image {name}", hint=f"docker pull {name}")


def image_brokers() -> Iterator[ImageBroker | AnyImage]:
    yield AnyImage()
    yield from map(image_broker, RECIPES)


def image_broker(name: str) -> ImageBroker:
    """The driver of a recipe; what a broker cannot do its driver does not implement."""
    recipe = RECIPES[name]
    if recipe.counters:
        return CountedImage(name, recipe) if recipe.page else ToldImage(name, recipe)
    return ClusteredImage(name, recipe) if recipe.cluster or recipe.cluster_file else ImageBroker(name, recipe)


def _named_image(choice: BrokerChoice) -> str:
    image = choice.options.get("image")
    if not isinstance(image, str) or not image:
        raise UserError(
            f"broker {choice.name}: the driver image wants the option image", hint="options: {image: name:tag}"
        )
    found = found_image(image)
    if isinstance(found, Missing):
        raise UserError(f"broker {choice.name}: {found.reason}", hint=found.hint)
    return image


def _texts(choice: BrokerChoice, name: str) -> tuple[str, ...]:
    given = choice.options.get(name, ())
    if not isinstance(given, list | tuple):
        raise UserError(f"broker {choice.name}: the option {name} is a list of texts")
    return tuple(map(_said, given))


def env_option(choice: BrokerChoice, name: str) -> dict[str, str]:
    given = choice.options.get(name, {})
    if not isinstance(given, Mapping):
        raise UserError(f"broker {choice.name}: the option {name} maps names to texts")
    return {str(key): _said(value) for key, value in given.items()}


def free_port_or(host: str) -> int:
    """A free port, where the address is one of ours; in a namespace of its own every port is free."""
    return free_port(host) if host.startswith(_LOOPBACK) else 18083


def _require_port(choice: BrokerChoice, port: int, own: object, *, is_told: bool) -> None:
    if not is_told and own != port:
        raise UserError(
            f"broker {choice.name}: the image listens on port {own}, and the lab would have it on {port}",
            hint="use {port} in env, command or files, or give the study a topology with sites",
        )


def _filled(text: str, words: Mapping[str, str]) -> str:
    """Only our two words are replaced: a configuration may have braces of its own."""
    for word, value in words.items():
        text = text.replace(f"{{{word}}}", value)
    return text


def _said(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
