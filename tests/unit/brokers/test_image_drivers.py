"""Brokers from container images as they are described; tests/brokers/test_containers.py starts some."""

from pathlib import Path

import pytest

from brokerlab.brokers import engine
from brokerlab.brokers.base import Missing, Seat
from brokerlab.brokers.images import AnyImage, image_broker
from brokerlab.brokers.recipes import RECIPES
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice

GIVEN = {"eula": True, "licence": "abc"}


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    engine.images.cache_clear()


def choice(name: str, **options: object) -> BrokerChoice:
    accepts = RECIPES[name].accepts if name in RECIPES else ""
    return BrokerChoice("boxed", name, options=({accepts: GIVEN[accepts]} if accepts else {}) | options)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_says_where_to_listen_and_leaves_no_word_open(name: str, tmp_path: Path) -> None:
    recipe = RECIPES[name]
    port = recipe.fixed_port or 1999
    node = image_broker(name).node(choice(name), folder=tmp_path, host="10.1.2.3", port=port)

    texts = " ".join([*node.argv, *node.env.values(), *node.files.values()])
    assert node.image is not None
    assert node.image.name == recipe.image
    assert recipe.fixed_port or ("10.1.2.3" in texts and "1999" in texts)
    assert not {"{host}", "{port}", "{spare}", "{all}"} & set(texts.split())
    assert set(node.image.mounts) == set(node.files)


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.cluster or recipe.cluster_file])
def test_nodes_of_a_cluster_know_each_other(name: str, tmp_path: Path) -> None:
    seats = [Seat(index, f"10.0.0.{index + 1}", 1883, tmp_path / str(index), spare=(18083,)) for index in range(3)]
    first, second, third = image_broker(name).cluster(choice(name), seats).nodes

    told = [" ".join([*each.env.values(), *each.files.values()]) for each in (first, second, third)]
    assert all("10.0.0.1" in each for each in told)
    assert "10.0.0.3" in told[2]
    assert len(set(told)) == 3


def test_cluster_on_one_address_is_refused(tmp_path: Path) -> None:
    seats = [Seat(index, "127.0.0.1", 1883 + index, tmp_path / str(index), spare=(9,)) for index in range(3)]
    with pytest.raises(UserError, match="need an address each"):
        image_broker("emqx").cluster(choice("emqx"), seats)


def test_emqx_of_the_business_source_licence_has_one_node() -> None:
    assert [image_broker(name).abilities.most_nodes for name in ("emqx", "emqx@5.10")] == [None, 1]


def test_licence_is_accepted_by_the_user_only(tmp_path: Path) -> None:
    driver = image_broker("vernemq")
    with pytest.raises(UserError, match="wants the option eula"):
        driver.node(BrokerChoice("boxed", "vernemq"), folder=tmp_path, host="10.0.0.1", port=1883)
    node = driver.node(choice("vernemq"), folder=tmp_path, host="10.0.0.1", port=1883)
    assert node.env["DOCKER_VERNEMQ_ACCEPT_EULA"] == "yes"


def test_engine_that_does_not_answer_is_named() -> None:
    found = AnyImage().find()
    assert isinstance(found, Missing)
    assert "nobody.sock" in found.reason
    assert "DOCKER_HOST" in found.hint


def test_image_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="wants the option image"):
        AnyImage().node(choice("image"), folder=tmp_path, host="127.0.0.1", port=1883)
    with pytest.raises(UserError, match=r"nobody\.sock"):
        AnyImage().node(choice("image", image="a:1"), folder=tmp_path, host="127.0.0.1", port=1883)


def test_tag_of_an_image_is_latest_unless_it_has_one() -> None:
    assert engine.with_tag("emqx/emqx") == "emqx/emqx:latest"
    assert engine.with_tag("registry:5000/emqx") == "registry:5000/emqx:latest"
    assert engine.with_tag("emqx/emqx:5.8.9") == "emqx/emqx:5.8.9"
