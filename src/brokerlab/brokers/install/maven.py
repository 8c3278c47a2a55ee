"""Jars and tarballs from Maven Central, by Maven's own dependency plugin."""

import tarfile
from pathlib import Path
from xml.sax.saxutils import escape

from brokerlab.brokers.install.receipt import Made
from brokerlab.brokers.install.workshop import Workshop
from brokerlab.brokers.source import Archive, Maven
from brokerlab.errors import RunError

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_MAVEN = ("mvn", "--batch-mode")

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>brokerlab</groupId>
  <artifactId>broker</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


def install_maven(source: Maven, shop: Workshop) -> Made:
    (shop.folder / "pom.xml").write_text(_pom(source), encoding="utf-8")
    shop.run(
        [*_MAVEN, f"{_PLUGIN}:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=lib"],
        doing=f"Maven, {source.artifacts[0]}"
        + (f" and {others} more" if (others := len(source.artifacts) - 1) else ""),
    )
    if source.launcher:
        _compile(source.launcher, "lib", shop)
    return Made(source.artifacts[0].split(":")[2], tuple(sorted(shop.folder.glob("lib/*.jar"))))


def install_archive(source: Archive, shop: Workshop) -> Made:
    fetched = shop.folder / "fetched"
    shop.run(
        [*_MAVEN, f"{_PLUGIN}:copy", f"-Dartifact={source.artifact}", f"-DoutputDirectory={fetched}"],
        doing=f"Maven, {source.artifact}",
    )
    (tarball,) = fetched.iterdir()
    shop.teller.step(f"unpacking {tarball.name}")
    _unpack(tarball, shop.folder / "dist")
    tarball.unlink()
    fetched.rmdir()
    if source.launcher:
        _compile(source.launcher, "dist/lib", shop)
    return Made(source.artifact.split(":")[2], tuple(sorted(shop.folder.glob("dist/**/*.jar"))))


def _compile(launcher: Path, jars: str, shop: Workshop) -> None:
    """With what it uses of the other sources beside it."""
    places = ("-cp", f"{jars}/*", "-sourcepath", launcher.parent, "-d", "classes")
    shop.run(["javac", "-proc:none", *places, launcher], doing=f"compiling {launcher.name}")


def _unpack(tarball: Path, folder: Path) -> None:
    """What the tarball holds, without the one folder that it has all in."""
    try:
        with tarfile.open(tarball) as opened:
            for member in opened.getmembers():
                _, _, within = member.name.removeprefix("./").partition("/")
                if within:
                    opened.extract(member.replace(name=within), folder, filter="data")
    except (tarfile.TarError, OSError, EOFError) as problem:
        raise RunError(f"{tarball.name} cannot be unpacked: {problem}") from problem


def _pom(source: Maven) -> str:
    return _POM.format(dependencies="\n".join(_dependency(each, source.exclude) for each in source.artifacts))


def _dependency(artifact: str, excluded: tuple[str, ...]) -> str:
    group, name, version = artifact.split(":")
    exclusions = "".join(f"<exclusion>{_names(*each.split(':'))}</exclusion>" for each in excluded)
    return (
        f"    <dependency>{_names(group, name)}<version>{escape(version)}</version>"
        f"<exclusions>{exclusions}</exclusions></dependency>"
    )


def _names(group: str, name: str) -> str:
    return f"<groupId>{escape(group)}</groupId><artifactId>{escape(name)}</artifactId>"
