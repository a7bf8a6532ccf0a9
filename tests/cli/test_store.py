"""`pyromq store` as people call it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyromq.cli.main import cli
from pyromq.store.files.disk import DiskFull
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.tools import backup
from pyromq.store.tools.findings import OPEN, Level, Report
from tests.broker.running import running_broker
from tests.store.golden_store import apply_variant, manifest, unpack


def run(*arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["store", *map(str, arguments)], input=text)


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return unpack("clean", tmp_path)


def test_verify_in_words(clean: Path) -> None:
    result = run("verify", clean)
    assert result.exit_code == 0
    assert "4220 records; 47 queues" in result.output
    assert result.output.endswith("clean\n")


def test_verify_names_file_offset_and_remedy(clean: Path) -> None:
    with (clean / "consumequeue/GoldenRoll/0/00000000000000020000").open("r+b") as file:
        file.seek(40)
        file.write(bytes(20))
    result = run("verify", clean)
    assert result.exit_code == 2
    assert "damage: consumequeue/GoldenRoll/0/00000000000000020000 at 40: the record at" in result.output
    assert "`pyromq store rebuild`" in result.output


def test_verify_of_a_store_in_use_calls_nothing_a_fault_that_its_broker_may_be_writing(tmp_path: Path) -> None:
    store = unpack("crashed", tmp_path)
    missing = "consumequeue/GoldenFill/0/00000000000000000000 at 9320: the record at 2886043 has no entry. "
    assert f"repairable: {missing}Open the store" in run("verify", store).output
    code, said = verified_in_use(store)
    assert f"note: {missing}A broker runs on the store, and may just write it: verify again once it is stopped." in said
    assert "repairable: " not in said
    assert code == 2, "what was written long ago, and is wrong, stays damage"
    assert said.endswith("what it is just writing may look wrong. Verify again once it is stopped damaged")
    report = Report(in_use=True)
    report.add(Level.REPAIRABLE, "index", None, "slots ahead", OPEN)
    assert report.exit_code == 0


def test_verify_of_a_sound_store_in_use(clean: Path) -> None:
    code, said = verified_in_use(clean)
    assert (code, "a broker runs on this store" in said) == (0, True), said
    assert "a broker runs on this store" not in run("verify", clean).output


def verified_in_use(store: Path) -> tuple[int, str]:
    """What another process says while this one has the store's lock."""
    lock = RealDisk(store).lock("lock")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pyromq", "store", "verify", store], capture_output=True, text=True
        )
    finally:
        lock.release()
    return done.returncode, " ".join(done.stdout.split())


def test_verify_as_json(tmp_path: Path) -> None:
    store = unpack("crashed", tmp_path)
    apply_variant(store, "torn40")
    result = run("verify", store, "--json")
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert found["exitCode"] == 2
    assert {"level", "file", "offset", "what", "remedy"} == set(found["findings"][0])


def test_info(clean: Path) -> None:
    assert re.search(r"consumequeue +GoldenRoll +0 +3 +2500$", run("info", clean).output, re.MULTILINE)
    assert json.loads(run("info", clean, "--json").stdout)["commitLogFiles"] == 6


def test_dump_as_json_lines(clean: Path) -> None:
    lines = run("dump", clean, "--json", "--topic", "GoldenFifo").output.splitlines()
    expected = [message for message in manifest("clean")["store"]["messages"] if message["topic"] == "GoldenFifo"]
    assert [json.loads(line) for line in lines] == expected


def test_dump_in_words(clean: Path) -> None:
    lines = run("dump", clean, "--limit", 2).output.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("0 GoldenPlain 3 0 1794769118066 12 bytes keys=key-0 shared-key id=7F000001")


def test_sizes_may_come_from_the_broker_s_configuration(clean: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("\n".join(manifest("clean")["brokerConf"]))
    assert run("verify", clean, "-c", conf).exit_code == 0
    conf.write_text("brokerName=what-is-not-said-is-read-off-the-files\n")
    assert run("verify", clean, "-c", conf).exit_code == 0
    conf.write_text("mappedFileSizeCommitLog=2097152\n")
    assert run("verify", clean, "-c", conf).exit_code != 0
    conf.write_text("mappedFileSizeComitLog=1048576\n")
    result = run("verify", clean, "-c", conf)
    said = "line 1: unknown key 'mappedFileSizeComitLog': did you mean 'mappedFileSizeCommitLog'?"
    assert said in result.output
    conf.write_text("mappedFileSizeCommitLog=many\n")
    result = run("verify", clean, "-c", conf)
    assert "mappedFileSizeCommitLog" in result.output


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    result = run("verify", tmp_path)
    assert "has no folder commitlog" in result.output


async def test_delay_levels_are_those_that_the_store_was_written_with(tmp_path: Path) -> None:
    async with running_broker(tmp_path, message_delay_level="7s 3h") as broker:
        for level in ("1", "2"):
            assert (await broker.send("T", properties={"DELAY": level})).code == 0
    verified = run("verify", tmp_path, "--json")
    assert json.loads(verified.output)["findings"] == []
    queues = files(tmp_path, "consumequeue")
    assert run("rebuild", tmp_path).exit_code == 0
    assert [raw.rstrip(b"\0") for raw in files(tmp_path, "consumequeue").values()] == [
        raw.rstrip(b"\0") for raw in queues.values()
    ]


def files(root: Path, *names: str) -> dict[Path, bytes]:
    return {
        path.relative_to(root): path.read_bytes()
        for name in names
        for path in (root / name).rglob("*")
        if path.is_file()
    }


def test_backup_copies_what_a_stopped_store_holds(clean: Path, tmp_path: Path) -> None:
    result = run("backup", clean, tmp_path / "copy", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["logEnd"] == manifest("clean")["store"]["endOffset"]
    assert run("verify", tmp_path / "copy").exit_code == 0
    derived = ("commitlog", "consumequeue", "batchconsumequeue", "config", "timerlog")
    assert files(tmp_path / "copy", *derived) == files(clean, *derived)


def test_rebuild_gives_java_s_queues_again(clean: Path) -> None:
    before = files(clean, "consumequeue", "batchconsumequeue")
    for name in ("consumequeue/GoldenRoll/0/00000000000000020000", "index/20261115185852381"):
        (clean / name).unlink()
    assert run("verify", clean).exit_code == 2
    result = run("rebuild", clean, "--json")
    assert json.loads(result.stdout)["records"] == 4220
    assert files(clean, "consumequeue", "batchconsumequeue") == before
    again = run("verify", clean, "--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["indexEntries"] == 12598


def test_rebuild_brings_back_the_keys_that_java_lost(tmp_path: Path) -> None:
    store = unpack("crashed", tmp_path)
    result = run("rebuild", store)
    assert "written from 4188 records" in result.output
    assert run("verify", store).exit_code == 0


def test_rebuild_steps_over_damage_and_keeps_what_is_behind_it(tmp_path: Path) -> None:
    """The queues that confirm the records behind it are removed first: they must have been asked before."""
    store = unpack("crashed", tmp_path)
    apply_variant(store, "badcrc")
    result = run("rebuild", store)
    assert "written from 4187 records up to 2886294" in result.output
    assert f"at {manifest('crashed')['variants']['badcrc']['record']}: body CRC" in result.output


def test_rebuild_wants_the_store_for_itself(clean: Path) -> None:
    lock = RealDisk(clean).lock("lock")
    result = run("rebuild", clean)
    lock.release()
    assert "held by this process" in result.output
    assert run("verify", clean).exit_code == 0


def test_a_backup_wants_an_empty_folder(clean: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "thing").touch()
    assert "not empty" in run("backup", clean, tmp_path / "copy").output


@pytest.mark.parametrize("target", ["", "backup", "config/backup"])
def test_a_backup_inside_its_own_store_is_refused(clean: Path, target: str) -> None:
    before = sorted(clean.rglob("*"))
    assert "lies inside the store" in run("backup", clean, clean / target).output
    assert sorted(clean.rglob("*")) == before


def test_a_folder_that_cannot_be_made_is_named(clean: Path) -> None:
    result = run("backup", clean, "/proc/nowhere")
    assert "cannot make the folder /proc/nowhere" in result.output


def test_a_rebuild_with_other_file_sizes_is_refused_before_anything_is_removed(clean: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=7\n")
    before = files(clean, "consumequeue", "batchconsumequeue", "index", "commitlog")
    result = run("rebuild", clean, "-c", conf)
    assert "was written with" in result.output
    assert files(clean, "consumequeue", "batchconsumequeue", "index", "commitlog") == before


def test_a_backup_that_fails_leaves_nothing_behind(
    clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()

    def full(*_: object) -> None:
        raise DiskFull("no room")

    monkeypatch.setattr(backup, "mark_running", lambda disk, pid: disk.make_folder("config"))
    monkeypatch.setattr(backup, "save_ranges", full)  # after most was copied
    assert "no room" in run("backup", clean, tmp_path / "copy").output
    assert not (tmp_path / "copy").exists()
    assert "no room" in run("backup", clean, tmp_path / "empty").output
    assert list((tmp_path / "empty").iterdir()) == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thing").touch()
    assert "not empty" in run("backup", clean, tmp_path / "mine").output
    assert (tmp_path / "mine" / "thing").exists()


@pytest.mark.parametrize(
    ("name", "tool", "said"),
    [
        ("verify", "verify.verify_store", "verifying was 50 % done. Nothing was changed, the same command begins anew"),
        ("backup", "backup.backup_store", "copying was 50 % done. Half a copy is no backup and was removed, the same"),
        ("cut", "cut.cut_store", "cutting was 50 % done. What was begun is finished by the same command, or by the"),
        ("rebuild", "rebuild.rebuild_store", "rebuilding was 50 % done. The log is whole: the same command, or the"),
    ],
)
def test_an_interrupt_says_how_far_it_came_and_how_to_go_on(
    clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, tool: str, said: str
) -> None:
    def interrupted(*arguments: Any) -> None:
        arguments[-1](5, 10)
        raise KeyboardInterrupt

    monkeypatch.setattr(f"pyromq.store.tools.{tool}", interrupted)
    done = run(name, clean, *[tmp_path / "copy"] * (name == "backup"), *[0, "--yes"] * (name == "cut"))
    assert (done.exit_code, said in done.stderr) == (1, True), done.stderr
    assert not (tmp_path / "copy").exists()


def test_a_loss_is_accepted_by_word_of_the_owner(clean: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("\n".join(manifest("clean")["brokerConf"]))
    assert run("accept-loss", clean, "-c", conf).output == "nothing is missing, nothing was changed\n"
    assert run("rebuild", clean).exit_code == 0  # from here on it is one of ours
    (clean / "commitlog" / f"{1 << 20:020d}").unlink()
    verified = run("verify", clean)
    assert verified.exit_code == 2
    assert f"accept-loss {clean}" in verified.output
    assert len(verified.output.splitlines()) < 6
    assert f"lack {1 << 20} to {2 << 20}" in run("rebuild", clean).output
    assert json.loads(run("accept-loss", clean, "--dry-run", "--json").output)["missing"]
    assert "nothing was changed" in run("accept-loss", clean, text="n\n").output
    assert run("accept-loss", clean, "--json").exit_code == 64
    result = run("accept-loss", clean, text="y\n")
    assert f"accepted: {1 << 20} bytes of the log are lost, from {1 << 20} to {2 << 20}" in result.output
    assert run("rebuild", clean).exit_code == 0
    assert json.loads(run("accept-loss", clean, "--json").output) == {"accepted": []}


def test_a_log_is_cut_where_its_owner_says(clean: Path) -> None:
    messages = manifest("clean")["store"]["messages"]
    position, before = messages[4000]["physicalOffset"], messages[3999]["physicalOffset"]
    untouched = files(clean, "commitlog", "consumequeue", "index")
    shown = run("cut", clean, position, "--dry-run").output
    assert shown.startswith(f"would go: {len(messages) - 4000} records with ")
    planned = json.loads(run("cut", clean, position, "--dry-run", "--json").stdout)
    assert (planned["position"], planned["copy"], planned["dryRun"]) == (position, None, True)
    assert sum(planned["topics"].values()) == planned["records"] == len(messages) - 4000
    refused = run("cut", clean, position + 1, "--yes")
    assert f"no record begins or ends at {position + 1}. The nearest place before it is {position}" in refused.output
    assert run("cut", clean, position, "--json").exit_code == 64
    assert "nothing was changed" in run("cut", clean, position, text="n\n").output
    assert files(clean, "commitlog", "consumequeue", "index") == untouched
    done = run("cut", clean, position, text="y\n").output
    assert f"cut off: {len(messages) - 4000} records" in done
    assert f"kept in pyromq/cut-off/{position:020d}" in done
    assert (clean / "pyromq" / "cut-off" / f"{position:020d}").stat().st_size == planned["bytes"]
    assert run("verify", clean).exit_code == 0
    assert run("cut", clean, position, "--yes").output == f"the log ends at {position} already, nothing was changed\n"
    again = json.loads(run("cut", clean, before, "--yes", "--json").stdout)
    assert (again["records"], again["copy"]) == (1, f"pyromq/cut-off/{before:020d}")


def test_exit_codes_of_errors_are_none_of_verify_s(clean: Path, tmp_path: Path) -> None:
    def code(*words: object) -> int:
        return subprocess.run([sys.executable, "-m", "pyromq", *map(str, words)], capture_output=True).returncode

    assert code("store", "verify", clean) == 0
    assert code("store", "verify", tmp_path / "nothing") == 78
    assert code("store", "verify") == 64
    assert code("store", "verify", clean, "--nonsense") == 64
    assert code("store", "dump", clean, "--limit", "-1") == 64


def test_a_record_is_put_aside_and_released_by_hand(clean: Path) -> None:
    assert run("quarantine", clean).output == "no record is put aside\n"
    position, inside = (
        json.loads(line)["physicalOffset"] for line in run("dump", clean, "--json").output.splitlines()[:2]
    )
    aside = run("quarantine", clean, inside)
    assert aside.exit_code == 0
    assert aside.output.startswith(f"{inside} ")
    assert "by=by hand" in aside.output
    assert "wanted by its owner" in aside.output
    assert [one["position"] for one in json.loads(run("quarantine", clean, "--json").output)] == [inside]
    assert "released, tried at the next start" in run("quarantine", clean, inside, "--release").output
    unknown = run("quarantine", clean, position, "--release")
    assert unknown.exit_code != 0
    assert f"no record at {position} is put aside" in unknown.output
    nothing = run("quarantine", clean, inside + 1)
    assert nothing.exit_code != 0
    assert "no record can be read" in nothing.output
    for nowhere in (position + 17, 1 << 40):
        said = run("quarantine", clean, nowhere).output
        assert f"no record can be read at {nowhere}: no record begins there. `pyromq store dump` shows" in said
    assert run("quarantine", clean, "--release").exit_code == 64


def test_putting_a_record_aside_wants_the_store_for_itself(clean: Path) -> None:
    lock = RealDisk(clean).lock("lock")
    try:
        assert run("quarantine", clean).exit_code == 0
        assert run("quarantine", clean, 0).exit_code != 0
    finally:
        lock.release()
