"""Sources and their order, conversion, and what is said about a key that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.config import Live, check_file, examine_file, load, settings_of
from pyromq.errors import ConfigError
from tests.config.bakery import BAKERY_KEYS, BakeryConfig, Flush


def load_file(path: Path, text: str) -> BakeryConfig:
    path.write_text(text, "utf-8")
    return load(BakeryConfig, BAKERY_KEYS, daemon="bakery", file=path).config


def error_of(path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_file(path, text)
    return str(caught.value).replace(str(path), path.name)


def test_without_any_source_the_defaults_stand() -> None:
    loaded = load(BakeryConfig, BAKERY_KEYS, daemon="bakery")
    assert loaded.config == BakeryConfig()
    assert loaded.notices == []


def test_a_properties_file_speaks_java_names(tmp_path: Path) -> None:
    text = (
        "listenPort = 1\nloadRatio: 0.25\nflushDiskType SYNC_FLUSH\nstorePathRootDir=~/x\n"
        "bindAddress=127.0.0.2\nconfigBlackList=p; q;\nallowUnauthenticated=TRUE\n"
    )
    assert load_file(tmp_path / "bakery.conf", text) == BakeryConfig(
        listen_port=1,
        load_ratio=0.25,
        flush=Flush.SYNC,
        data_dir=Path.home() / "x",
        bind_address="127.0.0.2",
        black_list=("p", "q"),
        allow_unauthenticated=True,
    )


def test_a_toml_file_speaks_field_names(tmp_path: Path) -> None:
    text = (
        'listen_port = 1\nload_ratio = 1\nflush = "SYNC_FLUSH"\ndata_dir = "/x"\n'
        'bind_address = "127.0.0.2"\nblack_list = ["p", "q"]\nallow_unauthenticated = true\n'
    )
    assert load_file(tmp_path / "bakery.toml", text) == BakeryConfig(
        listen_port=1,
        load_ratio=1.0,
        flush=Flush.SYNC,
        data_dir=Path("/x"),
        bind_address="127.0.0.2",
        black_list=("p", "q"),
        allow_unauthenticated=True,
    )


def test_without_a_telling_extension_the_content_decides(tmp_path: Path) -> None:
    assert load_file(tmp_path / "one", "listen_port = 7").listen_port == 7
    assert load_file(tmp_path / "two", "listenPort = 8").listen_port == 8
    assert load_file(tmp_path / "three", "listenPort 9").listen_port == 9


def test_later_sources_win_and_say_so(tmp_path: Path) -> None:
    file, overlay = tmp_path / "bakery.conf", tmp_path / "overlay.properties"
    file.write_text("listenPort=1\nscanNotActiveBrokerInterval=1\nloadRatio=0.1\n")
    overlay.write_text("scanNotActiveBrokerInterval=3\n")
    loaded = load(
        BakeryConfig,
        BAKERY_KEYS,
        daemon="bakery",
        file=file,
        environment={"PYROMQ_BAKERY_LISTEN_PORT": "2", "PYROMQ_BAKERY_SCAN_INTERVAL_MS": "2", "PYROMQ_CI": "1"},
        flags={"listen_port": "3", "scan_interval_ms": None},
        overlay=lambda config: overlay,
    )
    assert (loaded.config.listen_port, loaded.config.scan_interval_ms, loaded.config.load_ratio) == (3, 3, 0.1)
    assert f"{overlay} line 1: scanNotActiveBrokerInterval = 3 replaces 2 of environment" in loaded.notices
    assert "command line: --listen-port = 3 replaces 2 of environment" in loaded.notices


def test_the_overlay_may_hold_only_what_the_wire_may_change(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.properties"
    overlay.write_text("listenPort=3\n")
    with pytest.raises(ConfigError, match=r"overlay\.properties line 1: listenPort cannot be changed over the wire"):
        load(BakeryConfig, BAKERY_KEYS, daemon="bakery", overlay=lambda config: overlay)


def test_what_looks_like_a_comment_behind_a_value_is_said_to_be_part_of_it(tmp_path: Path) -> None:
    """The data went into a folder of that name, without a word."""
    file, hint = tmp_path / "bakery.conf", "# begins a comment only at the start of a line"
    file.write_text("storePathRootDir=/data # the large disk\n")
    loaded = load(BakeryConfig, BAKERY_KEYS, daemon="bakery", file=file)
    assert loaded.config.data_dir == Path("/data # the large disk")
    assert loaded.notices == [f"{file} line 1: storePathRootDir = /data # the large disk: {hint}"]
    (checked,) = check_file(file, BakeryConfig, BAKERY_KEYS)
    assert checked.effect == f"sets data_dir, with all of '/data # the large disk': {hint}"
    assert error_of(file, "listenPort=1 # one\n").endswith(f"must be a whole number; {hint}")


def test_an_overlay_of_an_older_version_is_read_in_its_words(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.properties"
    for word, meant in (("yes", True), ("On", True), ("1", True), ("no", False), ("off", False), ("0", False)):
        overlay.write_text(f"allowUnauthenticated={word}\n")
        loaded = load(BakeryConfig, BAKERY_KEYS, daemon="bakery", overlay=lambda config: overlay)
        assert loaded.config.allow_unauthenticated is meant
        (notice,) = loaded.notices
        assert notice.startswith(f"{overlay} line 1: allowUnauthenticated = {word} is read as {str(meant).lower()}")
        with pytest.raises(ConfigError, match="must be true or false"):
            Live(loaded, BAKERY_KEYS, overlay).change(f"allowUnauthenticated={word}\n")
    overlay.write_text("allowUnauthenticated=maybe\n")
    with pytest.raises(ConfigError, match="must be true or false"):
        load(BakeryConfig, BAKERY_KEYS, daemon="bakery", overlay=lambda config: overlay)


def test_a_list_may_be_emptied(tmp_path: Path) -> None:
    assert load_file(tmp_path / "bakery.conf", "configBlackList=").black_list == ()


def test_a_key_without_effect_is_reported_with_its_reason(tmp_path: Path) -> None:
    file = tmp_path / "bakery.conf"
    file.write_text("serverWorkerThreads=16\nlistenPort=1\n")
    loaded = load(BakeryConfig, BAKERY_KEYS, daemon="bakery", file=file)
    assert loaded.notices == [
        f"{file} line 1: serverWorkerThreads has no effect: one event loop takes the place of thread pools"
    ]
    assert loaded.given == {"serverWorkerThreads": "16"}


@pytest.mark.parametrize(
    "text", ["enableControllerInNamesrv=false", "enableControllerInNamesrv = FALSE ", "controllerPeers="]
)
def test_a_refused_key_may_stand_with_its_harmless_value(tmp_path: Path, text: str) -> None:
    assert load_file(tmp_path / "bakery.conf", text) == BakeryConfig()


OTHERS = "Java takes every other word for false"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#\nlistenPrt=1", "line 2: unknown key 'listenPrt': did you mean 'listenPort'?"),
        ("LISTENPORT=1", "line 1: unknown key 'LISTENPORT': did you mean 'listenPort'?"),
        ("serverWorkerThread=1", "line 1: unknown key 'serverWorkerThread': did you mean 'serverWorkerThreads'?"),
        ("zzz=1", "line 1: unknown key 'zzz': no known key resembles it"),
        ("listen_port=1", "line 1: unknown key 'listen_port': in this kind of file it is called 'listenPort'"),
        ("listenPort=65536", "line 1: listenPort = 65536: must be from 0 to 65535"),
        ("listenPort=x", "line 1: listenPort = x: must be a whole number"),
        ("listenPort=", "line 1: listenPort = : must be a whole number, not empty; leave it out for the default"),
        (
            "storePathRootDir=",
            "line 1: storePathRootDir = : must be a path, not empty; leave it out for the default",
        ),
        ("loadRatio=nan", "line 1: loadRatio = nan: must be from 0 to 1"),
        ("scanNotActiveBrokerInterval=0", "line 1: scanNotActiveBrokerInterval = 0: must be at least 1"),
        (
            "scanNotActiveBrokerInterval=2147483648",
            "line 1: scanNotActiveBrokerInterval = 2147483648: must be from 1 to 2147483647",
        ),
        ("flushDiskType=NEVER", "line 1: flushDiskType = NEVER: must be one of SYNC_FLUSH, ASYNC_FLUSH"),
        *(
            (
                f"allowUnauthenticated={word}",
                f"line 1: allowUnauthenticated = {word}: must be true or false; {OTHERS}",
            )
            for word in ("perhaps", "yes", "on", "1", "0")
        ),
        (
            "enableControllerInNamesrv=true",
            "line 1: enableControllerInNamesrv = true is refused: there is no controller here; run one apart, "
            "or set enableControllerInNamesrv=false",
        ),
        (
            "controllerPeers=a:1",
            "line 1: controllerPeers = a:1 is refused: there is no controller here; run one apart, or remove the line",
        ),
        (
            "a=1\nb=2\nc=3",
            "line 1: unknown key 'a': no known key resembles it (and 2 more: `pyromq config check` lists them)",
        ),
    ],
)
def test_what_is_said_about_a_properties_file(tmp_path: Path, text: str, expected: str) -> None:
    assert error_of(tmp_path / "bakery.conf", text) == f"bakery.conf {expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#\nlisten_prt = 1", " line 2: unknown key 'listen_prt': did you mean 'listen_port'?"),
        ("listenPort = 1", " line 1: unknown key 'listenPort': in this kind of file it is called 'listen_port'"),
        ("[broker]\nlisten_port = 1", " line 1: [broker]: settings stand in no table; drop it"),
        ("listen_port = true", " line 1: listen_port = true: must be a whole number, not bool"),
        ("listen_port = 1.5", " line 1: listen_port = 1.5: must be a whole number, not float"),
        ("listen_port = -1", " line 1: listen_port = -1: must be from 0 to 65535"),
        ("[listen_port]\nx = 1", " line 1: listen_port = {'x': 1}: must be a whole number, not dict"),
        (
            "black_list = [1]",
            " line 1: black_list = [1]: must be a list (in a properties file separated by ;), not list",
        ),
    ],
)
def test_what_is_said_about_a_toml_file(tmp_path: Path, text: str, expected: str) -> None:
    assert error_of(tmp_path / "bakery.toml", text) == f"bakery.toml{expected}"


def test_broken_toml_is_refused_with_its_place(tmp_path: Path) -> None:
    assert error_of(tmp_path / "bakery.toml", "listen_port =").startswith("bakery.toml: not valid TOML: ")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere\.conf: No such file"):
        load(BakeryConfig, BAKERY_KEYS, daemon="bakery", file=tmp_path / "nowhere.conf")
    (tmp_path / "latin.conf").write_bytes(b"bindAddress=\xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.conf: byte 12 is not UTF-8"):
        load(BakeryConfig, BAKERY_KEYS, daemon="bakery", file=tmp_path / "latin.conf")


def test_an_unknown_environment_name_of_this_daemon_is_an_error() -> None:
    with pytest.raises(ConfigError, match="environment: unknown key 'PYROMQ_BAKERY_LISTEN_PRT': did you mean"):
        load(BakeryConfig, BAKERY_KEYS, daemon="bakery", environment={"PYROMQ_BAKERY_LISTEN_PRT": "1"})


def test_settings_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    assert "needs allowUnauthenticated=true" in error_of(tmp_path / "bakery.conf", "bindAddress=0.0.0.0")


def test_a_value_built_in_code_is_held_to_the_same_range() -> None:
    with pytest.raises(ConfigError, match="listen_port = 70000: must be from 0 to 65535"):
        BakeryConfig(listen_port=70000)


def test_every_key_of_a_file_is_judged_not_only_the_first(tmp_path: Path) -> None:
    file = tmp_path / "bakery.conf"
    file.write_text("a=1\nlistenPort=x\nserverWorkerThreads=1\n")
    findings = examine_file(file, BakeryConfig, BAKERY_KEYS)
    assert [bool(one.error) for one in findings] == [True, True, False]


def test_a_rendered_value_is_read_back() -> None:
    config = BakeryConfig(flush=Flush.SYNC, black_list=("x", "y"), allow_unauthenticated=True, load_ratio=0.1)
    for name, declared in settings_of(BakeryConfig).items():
        value = getattr(config, name)
        assert declared.parse(declared.render(value)) == value
